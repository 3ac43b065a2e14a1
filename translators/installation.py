"""Decides which translators a device gets, and puts them into PyTorch's dispatcher and out again.

Exported by translators. Imports torch and nothing of ours but this package.
"""

from __future__ import annotations

import fnmatch
import functools
import threading
import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.choices import shipped_choices
from neuron_ops.translators.registry import Refused, exists, resolve
from neuron_ops.translators.sources import Candidate, function_of
from neuron_ops.translators.variants import structured_outs, written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import TracebackType

_FROM_CPU = frozenset(
    {
        "index",
        "indices",
        "lengths",
        "batch_sizes",
        "tensor_indices_or_sections",
        "source",
        "generator",
        "scalars",
        "high",
    }
)
"""Arguments that ATen takes from the CPU beside tensors of a device."""

_lock = threading.RLock()
_installed: dict[str, _Installed] = {}
_warned: set[str] = set()
_removed: deque[tuple[float, Any]] = deque()
"""When kernels were taken out, and what keeps them in memory: torch frees a kernel that no table names even while it is called."""

_GRACE_SECONDS = 60


class _Running(threading.local):
    """The overloads whose translators this thread is inside of."""

    def __init__(self) -> None:
        self.names: set[str] = set()


_running = _Running()


class _Installed:
    """One translator at a device's dispatch key."""

    def __init__(self, candidate: Candidate, key: str, dtypes: Collection[str] | None, around: Any) -> None:
        op = resolve(candidate.overload)
        self.source = candidate.source
        self._library = torch.library.Library(op.namespace, "IMPL")
        before = _before(op, key)
        kernel = _kernel(candidate, before, None if dtypes is None else torch_dtypes(dtypes), around)
        name = op._schema.name.partition("::")[2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden, which is what is asked for
            self._library.impl(
                name if op._overloadname == "default" else f"{name}.{op._overloadname}",
                kernel,
                key,
                allow_override=True,
            )

        self._handle = torch.library.get_kernel(op, key)

    def remove(self) -> None:
        """Take the kernel out and let go of it later: a thread may have looked it up and be waiting for the interpreter."""
        self._library._destroy()
        now = time.monotonic()
        _removed.append((now, self._handle))
        while _removed and now - _removed[0][0] > _GRACE_SECONDS:
            _removed.popleft()


def torch_dtypes(names: Collection[str]) -> frozenset[torch.dtype]:
    """Return the dtypes of those names; names that this torch does not know are left out."""
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


def _before(op: torch._ops.OpOverload, key: str) -> Callable[..., Any]:
    """Return what serves the overload now: the device's kernel, PyTorch's composite kernel, or the fallback to the CPU.

    Where there is none of them, calls of what comes back raise NotImplementedError, as they do without translators.
    """
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(op.name(), key):
        return functools.partial(_nothing_serves, op, key)
    kernel = torch.library.get_kernel(op, key)
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def call(*args: Any, **kwargs: Any) -> Any:
        return kernel.call_boxed(keys, *args, **kwargs)

    return call


def _nothing_serves(op: torch._ops.OpOverload, key: str, *_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        f"Could not run '{op.name()}' with arguments from the '{key}' backend: its translator does not serve this call, and "
        "the backend has no kernel for it"
    )


def _kernel(
    candidate: Candidate, before: Callable[..., Any], dtypes: frozenset[torch.dtype] | None, around: Any
) -> Callable[..., Any]:
    name, function = candidate.overload, candidate.function
    names = tuple(a.name for a in resolve(name)._schema.arguments)
    renamed = "from" in names  # Python reserves the word
    # A function that changes its arguments may have changed one before an operator below it raised: only its own word counts.
    refusals: type[Exception] = Refused if written(resolve(name)) else NotImplementedError

    def translated(*args: Any, **kwargs: Any) -> Any:
        running = _running.names
        if name in running:
            _warn_once(name)
            return before(*args, **kwargs)
        dtype, on_cpu = _about(args, kwargs)
        if (dtypes is not None and dtype not in dtypes) or (on_cpu and _mixes(names, args, kwargs)):
            return before(*args, **kwargs)
        running.add(name)
        try:
            if around is None:
                return serve(args, kwargs, None)
            with around(name) as call:
                return serve(args, kwargs, call)
        finally:
            running.discard(name)

    def serve(args: tuple[Any, ...], kwargs: dict[str, Any], call: Any) -> Any:
        try:
            if renamed and "from" in kwargs:
                return function(*args, **{"from_" if key == "from" else key: value for key, value in kwargs.items()})
            return function(*args, **kwargs)
        except refusals:
            if call is not None:
                call.refuse()
        _running.names.discard(name)
        return before(*args, **kwargs)

    return translated


def _warn_once(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"the translator of {name} reaches {name} again; the call within is served as without it", stacklevel=3
        )


def _about(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.dtype, bool]:
    """Return the dtype that a call is about, and whether a tensor with dimensions is on the CPU.

    The dtype is the first floating or complex tensor's, else the first tensor's, else that of `dtype=`.
    """
    first: torch.dtype | None = None
    decided = on_cpu = False
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                on_cpu = on_cpu or (item.is_cpu and item.dim() > 0)
                if not decided:
                    dtype = item.dtype
                    decided = dtype.is_floating_point or dtype.is_complex
                    first = dtype if decided else first or dtype
    asked = kwargs.get("dtype")
    return first or (asked if isinstance(asked, torch.dtype) else torch.get_default_dtype()), on_cpu


def call_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype:
    """Return the dtype that a call is about: the one in which its translator must have been verified."""
    return _about(args, kwargs)[0]


def _mixes(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a CPU tensor stands where ATen wants one of the device: the device says what it makes of that."""
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and item.is_cpu and item.dim() and name not in _FROM_CPU:
                return True
    return False


class Installation:
    """What `install` did; as a context manager it undoes that at its end.

    `overloads` are those it added; `skipped`: overload → why its row of the table serves nothing in this torch.
    """

    def __init__(self, overloads: tuple[str, ...], skipped: Mapping[str, str] | None = None) -> None:
        self.overloads = overloads
        self.skipped = dict(skipped or {})

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        uninstall(self.overloads)


def install(
    target_ops: Collection[str] | None = None,
    only: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    *,
    device: str | None = None,
) -> Installation:
    """Install the verified translators at a device's dispatch key and return what was added; a second call adds nothing.

    `device`: its type, such as ``neuron`` or ``xla``; by default the backend that owns PyTorch's PrivateUse1 key.
    Overloads that the device serves natively are left alone: those in `target_ops`, or where that is None those that the
    live dispatcher says. `only` and `exclude` are names or globs of overloads. In dtypes that were not verified a call is
    served as without translators. Raises ValueError for a name or glob that matches no translator, an unknown device.
    """
    chosen = shipped_choices()
    wanted = _matching(only, chosen) if only is not None else set(chosen)
    wanted -= _matching(exclude, chosen) if exclude is not None else set()
    found: list[tuple[Candidate, Collection[str] | None]] = []
    skipped: dict[str, str] = {}
    for name in sorted(wanted):
        source = chosen[name].source
        function = function_of(name, source) if exists(name) else None
        if function is not None:
            found.append((Candidate(name, source, function), chosen[name].dtypes))
        else:
            what = f"{source} has no function for it" if exists(name) else "there is no such overload"
            skipped[name] = f"{what} in torch {torch.__version__}"
    return Installation(install_candidates(found, target_ops, device=device).overloads, skipped)


def install_candidates(
    found: Iterable[tuple[Candidate, Collection[str] | None]],
    target_ops: Collection[str] | None = None,
    *,
    device: str | None = None,
) -> Installation:
    """Install given candidates, each for its dtypes (None: for all), verified or not; see `install`.

    A device module may have `translated_call(overload)`: a context around each call, which gives an object whose `refuse()`
    is called where the translator leaves the call to the device. So the device knows what was translated.
    """
    key, module = _key_of(device)
    around = getattr(module, "translated_call", None)
    added = []
    with _lock:
        native = _native(key, module, target_ops)
        for candidate, dtypes in found:
            if candidate.overload in _installed or native(candidate.overload):
                continue
            _installed[candidate.overload] = _Installed(candidate, key, dtypes, around)
            added.append(candidate.overload)
    return Installation(tuple(added))


def uninstall(overloads: Iterable[str] | None = None) -> None:
    """Take the translators of these overloads, or all, out again: the dispatcher is then as it was before."""
    with _lock:
        for name in list(_installed) if overloads is None else overloads:
            if (entry := _installed.pop(name, None)) is not None:
                entry.remove()


def installed() -> dict[str, str]:
    """Return overload → source of the translators that are installed now."""
    with _lock:
        return {name: entry.source for name, entry in _installed.items()}


def _matching(globs: Iterable[str], chosen: Mapping[str, object]) -> set[str]:
    matched = set()
    for glob in [globs] if isinstance(globs, str) else globs:
        hits = fnmatch.filter(chosen, glob)
        if not hits:
            raise ValueError(
                f"no translator matches {glob!r}; expected overloads such as aten.hardswish.default; see `neuron-ops translators list`"
            )
        matched |= set(hits)
    return matched


def _key_of(device: str | None) -> tuple[str, Any]:
    """Return the dispatch key of a device type, and the module torch.<device> where there is one."""
    owner = torch._C._get_privateuse1_backend_name()
    if device is None and owner == "privateuseone":
        raise ValueError(
            "no backend owns PyTorch's PrivateUse1 key in this process; expected one such as torch_neuronx; import it first, or name a device"
        )
    device = device or owner
    if device == owner:
        return "PrivateUse1", getattr(torch, device, None)
    key = {"xla": "XLA", "cuda": "CUDA", "mps": "MPS", "xpu": "XPU", "hpu": "HPU"}.get(device)
    if key is None:
        raise ValueError(
            f"unknown device {device!r}; expected {owner}, xla, cuda, mps, xpu or hpu; name a device type that torch knows"
        )
    return key, getattr(torch, device, None)


def _native(key: str, module: Any, target_ops: Collection[str] | None) -> Callable[[str], bool]:
    """Return a function that says whether the device serves an overload by kernels of its own, asked now.

    A device module may answer itself (`native_overloads()`): the simulated device has a Python kernel for every overload.
    A structured overload arrives as its out= form where only that is registered, so it is native then too.
    """
    if target_ops is None and (answers := getattr(module, "native_overloads", None)) is not None:
        target_ops = answers()
    known = None if target_ops is None else frozenset(target_ops)

    def registered(op: torch._ops.OpOverload) -> bool:
        has: Callable[[str, str], bool] = torch._C._dispatch_has_kernel_for_dispatch_key
        return has(op.name(), key) if known is None else str(op) in known

    return lambda name: registered(op := resolve(name)) or any(map(registered, structured_outs(op)))
