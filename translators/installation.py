"""Decides which translators a device gets, and puts them into PyTorch's dispatcher and out again.

Exported by translators. Imports torch and nothing of ours but this package.
"""

from __future__ import annotations

import fnmatch
import threading
import warnings
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.choices import shipped_choices
from neuron_ops.translators.registry import exists, resolve
from neuron_ops.translators.sources import Candidate, function_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import TracebackType

_lock = threading.RLock()
_installed: dict[str, _Installed] = {}
_warned: set[str] = set()


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
        kernel = _kernel(candidate, before, None if dtypes is None else _torch_dtypes(dtypes), around)
        name = op._schema.name.partition("::")[2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden, which is what is asked for
            self._library.impl(
                name if op._overloadname == "default" else f"{name}.{op._overloadname}",
                kernel,
                key,
                allow_override=True,
            )

    def remove(self) -> None:
        self._library._destroy()


def _torch_dtypes(names: Collection[str]) -> frozenset[torch.dtype]:
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


def _before(op: torch._ops.OpOverload, key: str) -> Callable[..., Any]:
    """Return what serves the overload now: the device's kernel, PyTorch's composite kernel, or the fallback to the CPU."""
    kernel = torch.library.get_kernel(op, key)
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def call(*args: Any, **kwargs: Any) -> Any:
        return kernel.call_boxed(keys, *args, **kwargs)

    return call


def _kernel(
    candidate: Candidate, before: Callable[..., Any], dtypes: frozenset[torch.dtype] | None, around: Any
) -> Callable[..., Any]:
    name, function = candidate.overload, candidate.function
    renamed = {"from"} & {a.name for a in resolve(name)._schema.arguments}  # Python reserves the word

    def translated(*args: Any, **kwargs: Any) -> Any:
        running = _running.names
        if name in running:
            _warn_once(name)
            return before(*args, **kwargs)
        if dtypes is not None and _dtype(args, kwargs) not in dtypes:
            return before(*args, **kwargs)
        if renamed and "from" in kwargs:
            kwargs["from_"] = kwargs.pop("from")
        running.add(name)
        try:
            if around is None:
                return function(*args, **kwargs)
            with around(name):
                return function(*args, **kwargs)
        except NotImplementedError:  # the translator says that it cannot serve this call
            running.discard(name)
            if "from_" in kwargs:
                kwargs["from"] = kwargs.pop("from_")
            return before(*args, **kwargs)
        finally:
            running.discard(name)

    return translated


def _warn_once(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"the translator of {name} reaches {name} again; the call within is served as without it", stacklevel=3
        )


def _dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype:
    """Return the dtype that a call is about: the first floating or complex tensor's, else the first tensor's, else `dtype=`."""
    first: torch.dtype | None = None
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                if item.dtype.is_floating_point or item.dtype.is_complex:
                    return item.dtype
                first = first or item.dtype
    asked = kwargs.get("dtype")
    return first or (asked if isinstance(asked, torch.dtype) else torch.get_default_dtype())


class Installation:
    """What `install` did; as a context manager it undoes that at its end. `overloads` are those it added."""

    def __init__(self, overloads: tuple[str, ...]) -> None:
        self.overloads = overloads

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
    for name in sorted(wanted):
        function = function_of(name, chosen[name].source) if exists(name) else None
        if function is not None:
            found.append((Candidate(name, chosen[name].source, function), chosen[name].dtypes))
    return install_candidates(found, target_ops, device=device)


def install_candidates(
    found: Iterable[tuple[Candidate, Collection[str] | None]],
    target_ops: Collection[str] | None = None,
    *,
    device: str | None = None,
) -> Installation:
    """Install given candidates, each for its dtypes (None: for all), verified or not; see `install`."""
    key, module = _key_of(device)
    around = getattr(module, "translated_call", None)
    added = []
    with _lock:
        native = _native(key, module) if target_ops is None else target_ops.__contains__
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


def _native(key: str, module: Any) -> Callable[[str], bool]:
    """Return a function that says whether the device has a kernel of its own for an overload, asked now.

    A device module may answer itself (`native_overloads()`): the simulated device has a Python kernel for every overload.
    """
    if (answers := getattr(module, "native_overloads", None)) is not None:
        return frozenset(answers()).__contains__
    return lambda name: torch._C._dispatch_has_kernel_for_dispatch_key(resolve(name).name(), key)
