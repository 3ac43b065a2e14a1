"""Decides what serves each overload on the simulated device, and registers a kernel for it.

The order is that of the real backend: a registered kernel, else PyTorch's composite kernel, else the host CPU. Every
overload that can reach the device's key gets a Python kernel, so that the overload the caller named is recorded and not
only the ``.out`` form that structured operators arrive as.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch._decomp
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.packing import ON_HOST
from neuron_ops.op_tests.records import FallbackReason, Route
from neuron_ops.op_tests.targets.sim import entry_points, faults, host, memory_calls, spoiling
from neuron_ops.op_tests.targets.sim.journal import Entry, Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neuron_ops.op_tests.targets.sim.profile import Profile

_KEY = torch._C.DispatchKey
_CPU_KEY = torch._C.DispatchKeySet(_KEY.CPU)
_COMPOSITE_KEYS = (_KEY.CompositeExplicitAutograd, _KEY.CompositeExplicitAutogradNonFunctional)

_LEFT_COMPOSITE = frozenset(
    {"aten._to_copy.default", "aten.copy_.default", "aten.lift.default", "aten.lift_fresh.default", "aten.detach.default",
     "aten.rms_norm.default", "aten.contiguous.default"}
)  # fmt: skip
"""Overloads that keep PyTorch's own kernel. Copies move data between devices through `_copy_from`. The result of `detach` must
not have met Python before `Parameter` makes it a subclass (torch 2.13: RuntimeError in `_make_subclass`). The vendor registers
`rms_norm` and `contiguous` above autograd, as composites over `_fused_rms_norm` and `clone`, which PyTorch's own are too."""

_GEOMETRY = (
    "aten.view.default", "aten.as_strided.default", "aten._reshape_alias.default", "aten.unfold.default", "aten.set_.source_Tensor",
    "aten.set_.source_Storage", "aten.set_.source_Storage_storage_offset",
)  # fmt: skip

_TAKES_CPU_TENSORS = (
    "index", "indices", "lengths", "batch_sizes", "tensor_indices_or_sections", "source", "generator", "scalars",
)  # fmt: skip
"""Arguments that ATen itself allows on the CPU beside device tensors."""


@dataclass(slots=True)
class State:
    """What the kernels of this process consult at each call."""

    profile: Profile
    journal: Journal = field(default_factory=Journal)
    faults: dict[str, str] = field(default_factory=dict)
    fault_memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    serve_unsupported: bool = False
    no_narrowing: Mapping[torch.dtype, torch.dtype] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel of one overload at the device's key."""

    op: torch._ops.OpOverload
    name: str
    signature: host.Signature
    composite: torch._C.DispatchKey | None
    values: Callable[..., Any] | None
    state: State

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Serve one call and write it into the journal."""
        dtypes = _dtypes(args, kwargs)
        entry = Entry(self.name, _first(dtypes), view=self.signature.view)
        fault = self.state.faults.get(self.name)
        out = None
        with self.state.journal.inside(entry):
            try:
                out = (
                    self._serve(entry, dtypes, args, kwargs)
                    if fault is None
                    else self._spoilt(fault, entry, dtypes, args, kwargs)
                )
            finally:
                self.state.journal.note(entry, args, kwargs, out)
        return out

    def _serve(self, entry: Entry, dtypes: list[torch.dtype], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.refuse_mixed_devices(args, kwargs)
        self.judge(entry, dtypes)
        if entry.composite and self.composite is not None:
            wrapped, kwargs = host.wrap_numbers(self.signature, args, kwargs)
            return self.op._op_dk(self.composite, *wrapped, **kwargs)
        self._refuse_unsupported(entry)
        native = entry.route is Route.NATIVE and self.state.profile.registrations[self.name].narrows
        return self._compute(args, kwargs, self.state.profile.narrow if native else self.state.no_narrowing)

    def judge(self, entry: Entry, dtypes: list[torch.dtype]) -> None:
        """Write into the entry what would serve a call with tensors of these dtypes; nothing is computed."""
        registration = self.state.profile.registrations.get(self.name)
        if registration is None:
            if self.composite is not None:
                entry.composite = True
            else:
                self._send_to_host(entry, FallbackReason.UNIMPLEMENTED)
        elif registration.host:
            self._send_to_host(entry, FallbackReason.HOST)
        elif registration.narrows and self._refused(dtypes):
            self._send_to_host(entry, FallbackReason.FAILED)
        else:
            entry.route = Route.NATIVE

    def _send_to_host(self, entry: Entry, reason: FallbackReason) -> None:
        if self.values is not None:  # no CPU kernel either: the host cannot serve it
            entry.unsupported = True
        else:
            entry.route, entry.reason = Route.FALLBACK, reason

    def _refused(self, dtypes: list[torch.dtype]) -> bool:
        # Beside the first tensor's dtype only floating-point and complex ones count: integer tensors that follow are
        # indices, which the rules do not speak of.
        judged = [dtype for i, dtype in enumerate(dtypes) if i == 0 or dtype.is_floating_point or dtype.is_complex]
        return any(self.state.profile.refused(self.name, dtype) is not None for dtype in judged)

    def _refuse_unsupported(self, entry: Entry) -> None:
        if entry.unsupported and not self.state.serve_unsupported:
            raise NotImplementedError(
                f"Could not run '{self.op.name()}' with arguments from the 'CPU' backend: the simulated neuron device has "
                "no kernel for it and neither has the host"
            )

    def _compute(self, args: tuple[Any, ...], kwargs: dict[str, Any], narrow: Mapping[torch.dtype, torch.dtype]) -> Any:
        if self.signature.view:  # only geometry changes: the CPU kernel never touches memory, and aliasing stays real
            return self.op.redispatch(_CPU_KEY, *args, **kwargs)
        return host.compute(self.values or self.op, self.signature, args, kwargs, narrow)

    def refuse_mixed_devices(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise RuntimeError where a CPU tensor with dimensions comes with device tensors (the structured check is skipped)."""
        for position, name in self.signature.tensors:
            value = args[position] if position < len(args) else kwargs.get(name)
            if (
                isinstance(value, torch.Tensor)
                and value.device.type == "cpu"
                and value.dim()
                and name not in _TAKES_CPU_TENSORS
                and name not in ON_HOST.get(self.name, ())
            ):
                raise RuntimeError(
                    f"Expected all tensors to be on the same device: tensor argument {name!r} of {self.name} is on cpu, expected neuron"
                )

    def _spoilt(
        self, fault: str, entry: Entry, dtypes: list[torch.dtype], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        def hide() -> Any:
            # The host computes, and the tracking calls say otherwise: only the copies to the host give it away.
            entry.claims_native = True
            self._send_to_host(entry, FallbackReason.HOST)
            self._refuse_unsupported(entry)
            return self._compute(args, kwargs, self.state.no_narrowing)

        def refuse() -> None:
            entry.unsupported = True

        call = faults.Call(
            overload=self.name,
            args=args,
            kwargs=kwargs,
            written=self._written(args, kwargs),
            serve=lambda args, kwargs: self._serve(entry, dtypes, args, kwargs),
            hide=hide,
            refuse=refuse,
            memory=self.state.fault_memory.setdefault(self.name, {}),
        )
        return faults.FAULTS[fault](call)

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        found = [args[p] if p < len(args) else kwargs.get(n) for p, n in self.signature.written]
        return tuple(spoiling.device_tensors(found))


def _dtypes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.dtype]:
    """Return the dtypes of the tensor arguments in order, or the dtype argument of a factory."""
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value.dtype)
        elif isinstance(value, (list, tuple)):
            found.extend(item.dtype for item in value if isinstance(item, torch.Tensor))
    if not found and isinstance(kwargs.get("dtype"), torch.dtype):
        found.append(kwargs["dtype"])
    return found


def _first(dtypes: list[torch.dtype]) -> str | None:
    return str(dtypes[0]).removeprefix("torch.") if dtypes else None


def _recorded(state: State, name: str, function: Callable[..., Any], *, view: bool = False) -> Callable[..., Any]:
    """Return a kernel that does memory work itself and is recorded under the overload that the caller sees."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        entry = Entry(name, _first(_dtypes(args, kwargs)), Route.NATIVE, view=view)
        out = None
        with state.journal.inside(entry):
            try:
                if name not in state.faults:
                    out = function(*args, **kwargs)
                else:
                    out = faults.FAULTS[state.faults[name]](_memory_call(state, entry, function, args, kwargs))
            finally:
                state.journal.note(entry, args, kwargs, out)
        return out

    return kernel


def _memory_call(
    state: State, entry: Entry, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> faults.Call:
    """Return the call of a kernel that does memory work: a copy writes its destination, nothing else writes."""

    def serve(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    def refuse() -> None:
        entry.unsupported = True

    written = tuple(spoiling.device_tensors(args[1:2])) if entry.overload == "aten.copy_.default" else ()
    remembered = state.fault_memory.setdefault(entry.overload, {})
    return faults.Call(
        entry.overload, args, kwargs, written, serve, lambda: serve(args, kwargs), refuse, remembered
    )  # fmt: skip


def _recorded_conversion(state: State) -> Callable[..., Any]:
    """Return the kernel of `_to_copy`, recorded as PyTorch's composite over memory and a copy."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return conversion(state, args, kwargs)

    return kernel


def conversion(state: State, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Return what `_to_copy` returns; the journal gets it as a composite over memory and a copy."""
    entry = Entry("aten._to_copy.default", _first(_dtypes(args, kwargs)), composite=True)
    out = None
    with state.journal.inside(entry):
        try:
            out = memory_calls.to_copy(*args, **kwargs)
        finally:
            state.journal.note(entry, args, kwargs, out)
    return out


_MEMORY_WORK = {journal_name: view for journal_name, _, view in memory_calls.OWN_MEMORY.values()}


def register(state: State) -> Iterator[torch.library.Library]:
    """Register all kernels at PrivateUse1; yields the libraries, which must be kept alive."""
    library = torch.library.Library("aten", "IMPL")
    taken = {"aten." + (name if "." in name else f"{name}.default") for name in memory_calls.OWN_MEMORY}
    for name, (journal_name, function, view) in memory_calls.OWN_MEMORY.items():
        library.impl(name, _recorded(state, journal_name, function, view=view), "PrivateUse1")
    for name in _GEOMETRY:
        op = catalogue.resolve(name)
        redispatch = functools.partial(op.redispatch, _CPU_KEY)
        library.impl(
            op.name().removeprefix("aten::"), _recorded(state, name, _plain(redispatch), view=True), "PrivateUse1"
        )
    for name in sorted(_kernel_names(state.profile) - taken - set(_GEOMETRY) - _LEFT_COMPOSITE):
        op = catalogue.resolve(name)
        library.impl(op.name().removeprefix("aten::"), make_kernel(op, state), "PrivateUse1")
    library.impl("_to_copy", _recorded_conversion(state), "PrivateUse1")
    # On a conjugate tensor the Conjugate fallback clones, clone copies, and copy_ comes back to _copy_from: without these
    # lines that recursion overflows the stack on every PrivateUse1 backend (torch 2.13).
    for name in ("_copy_from", "_copy_from_and_resize"):
        for key in ("Conjugate", "Negative"):
            library.impl(name, torch.library.fallthrough_kernel, key)
    yield library
    everything_else = torch.library.Library("_", "IMPL")  # allowed once per key and process
    everything_else.fallback(lambda op, *args, **kwargs: make_kernel(op, state)(*args, **kwargs), "PrivateUse1")
    yield everything_else


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _kernel_names(profile: Profile) -> set[str]:
    """Return the overloads that get a kernel: all that reach the device's key, and what the profile registers besides."""
    known = catalogue.by_name()
    reach = {name for name, operator in known.items() if operator.excluded is None and operator.tier != "T3"}
    registered = {name for name in profile.registrations if name in known and known[name].excluded != "internal"}
    return reach | registered | {name for name in entry_points.VALUES if name in known}


@functools.cache
def _composite_key(qualified: str) -> torch._C.DispatchKey | None:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return next((key for key in _COMPOSITE_KEYS if has(qualified, key.name)), None)


def _values(op: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """Return what computes an overload that the CPU cannot run, or None where the CPU can."""
    if str(op) in entry_points.VALUES:
        return entry_points.VALUES[str(op)]
    if torch._C._dispatch_has_computed_kernel_for_dispatch_key(op.name(), "CPU"):
        return None
    table = torch._decomp.global_decomposition_table["post_autograd"]
    found: Callable[..., Any] = table.get(op, op)
    return found


_kernels: dict[torch._ops.OpOverload, Kernel] = {}


def make_kernel(op: torch._ops.OpOverload, state: State) -> Kernel:
    """Return the kernel of an overload, made once."""
    if op not in _kernels:
        _kernels[op] = Kernel(op, str(op), host.signature_of(op), _composite_key(op.name()), _values(op), state)
    return _kernels[op]


def judged(op: torch._ops.OpOverload, state: State, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
    """Return the entry that a call would leave in the journal, with nothing computed; a composite's parts are missing.

    Raises RuntimeError where a CPU tensor with dimensions comes with device tensors.
    """
    name, dtypes = str(op), _dtypes(args, kwargs)
    if name in _MEMORY_WORK or name in _GEOMETRY:
        return Entry(name, _first(dtypes), Route.NATIVE, view=_MEMORY_WORK.get(name, True))
    kernel = make_kernel(op, state)
    entry = Entry(name, _first(dtypes), view=kernel.signature.view)
    if name in _LEFT_COMPOSITE:
        entry.composite = True
    else:
        kernel.refuse_mixed_devices(args, kwargs)
        kernel.judge(entry, dtypes)
    return entry


def check_plants(plants: Mapping[str, str]) -> None:
    """Raise BadInput for an unknown overload or fault."""
    for name, fault in plants.items():
        catalogue.resolve(name)
        faults.check_fault(fault)


@contextlib.contextmanager
def planted(state: State, plants: Mapping[str, str]) -> Iterator[None]:
    """Plant faults (overload → fault) for the time of the context; raises BadInput for an unknown overload or fault."""
    check_plants(plants)
    before = dict(state.faults)
    state.faults.update(plants)
    state.fault_memory.clear()
    try:
        yield
    finally:
        state.faults.clear()
        state.faults.update(before)
