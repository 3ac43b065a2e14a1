"""Runs a model on fake tensors: with both sides of unknown conditions, and again where a guess led into an error."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.capture.fake.full_size import default_dtype
from neuron_ops.op_tests.capture.fake.guesses import Guesses
from neuron_ops.op_tests.capture.fake.host import Leaving
from neuron_ops.op_tests.capture.fake.known import Known
from neuron_ops.op_tests.capture.fake.tensors import DEVICE, DeviceFakes, foreach_accepted, move
from neuron_ops.op_tests.capture.fake.watching import Watch
from neuron_ops.op_tests.targets.sim import state

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import torch
    from neuron_ops.op_tests.capture.places import Places
    from neuron_ops.op_tests.capture.recorder import Recorder
    from neuron_ops.op_tests.targets.sim.journal import Entry

_RETRIES = 6
_LOG = logging.getLogger("torch._subclasses.fake_tensor")


class Fakes:
    """The modes under which a model is built and run on fake tensors, for the time of the context."""

    def __init__(self, places: Places, tell: Callable[[str, str | None], None]) -> None:
        self.known = Known()
        self.guesses = Guesses(places, self._tell)
        self._send = tell
        self._told: set[tuple[str, str]] = set()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        """Make tensors fake from now on."""
        self._stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")  # composites do, to compare two
        self._stack.callback(_LOG.setLevel, _LOG.level)
        _LOG.setLevel(logging.CRITICAL)  # it prints the traceback of every shape rule that raises
        self._stack.enter_context(foreach_accepted())
        self._stack.enter_context(DeviceFakes())
        self._stack.enter_context(Leaving(self.known, self.guesses))
        self._stack.enter_context(Watch(state, self.known, self.guesses))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make tensors real again."""
        self._stack.close()

    def move(self, model: torch.nn.Module, dtype: torch.dtype | None) -> None:
        """Move a model's tensors to the device, cast where a dtype is given; known values stay known."""
        move(model, lambda tensor: self.to_device(tensor, dtype))

    def to_device(self, tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        """Return the tensor on the device, cast to `dtype` where it has a floating point."""
        return tensor.to(DEVICE, dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype)

    def default_dtype(self, model: torch.nn.Module) -> torch.dtype | None:
        """Return the dtype that a mixture of experts is cast to where none is asked for, and note it."""
        dtype = default_dtype(model)
        if dtype is not None:
            self._send("cast to bfloat16: the grouped product of experts has no other dtype", None)
        return dtype

    def explore(self, run: Callable[[], object], recorder: Recorder, again: Callable[[], None]) -> None:
        """Call `run` until it ends without an error or no guess is left to turn over; `again` is told before each retry.

        Where a condition was unknown it is called once more with the other side, and what only that calls is added.
        """
        hide_from_libraries()
        seen = _New(recorder)
        state.journal.on_entry = seen
        for _ in range(_RETRIES):
            self.guesses.restart()
            attempt = _Attempt(lambda: self.guesses.last is not None and self.guesses.last not in self.guesses.flipped)
            with attempt:
                run()
            if attempt.error is None:
                break
            assert self.guesses.last is not None
            self.guesses.flipped.add(self.guesses.last)
            again()
        else:
            run()
        if self.guesses.conditions:
            self._other_side(run, seen)

    def _other_side(self, run: Callable[[], object], seen: _New) -> None:
        seen.complete = True
        self.guesses.restart(first=False)
        attempt = _Attempt(lambda: True)
        with attempt:
            run()
        if attempt.error is not None:
            place = self.guesses.last or "an unknown line"
            self._tell(f"the other side of an unknown condition raises {type(attempt.error).__name__}", place)

    def _tell(self, what: str, where: str) -> None:
        if (what, where) not in self._told:
            self._told.add((what, where))
            self._send(what, where)


class _New:
    """Gives entries to the recorder: all of the first pass, and of the second those of overloads not yet seen."""

    def __init__(self, recorder: Recorder) -> None:
        self.complete = False
        self._recorder = recorder
        self._seen: set[str] = set()

    def __call__(self, entry: Entry, error: BaseException | None) -> None:
        """Take one call that ended."""
        if not self.complete:
            self._seen.add(entry.overload)
        if not self.complete or (entry.overload not in self._seen and error is None):
            self._recorder(entry, error)


class _Attempt:
    """Keeps an Exception from going further where `may_retry` says so (a context, as the session's own)."""

    def __init__(self, may_retry: Callable[[], bool]) -> None:
        self.error: BaseException | None = None
        self._may_retry = may_retry

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Keep the error."""
        if not isinstance(error, Exception) or not self._may_retry():
            return False
        self.error = error
        return True


def hide_from_libraries() -> None:
    """Make transformers take the way that it takes with real tensors: it looks for fake ones and skips checks of masks."""
    imports: Any = sys.modules.get("transformers.utils.import_utils")
    if imports is not None and hasattr(imports, "is_fake_tensor"):
        imports.is_fake_tensor = lambda _tensor: False
