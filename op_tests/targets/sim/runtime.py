"""Decides what `torch.neuron`, autocast and attention look like on the simulated device."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.targets.sim import memory
from neuron_ops.op_tests.targets.sim.journal import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neuron_ops.op_tests.targets.sim.kernels import State

AUTOCAST_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class DeviceModule:
    """What `torch.neuron` is: one device, synchronous, random numbers from the CPU generator (as on the real one)."""

    def __init__(self, state: State) -> None:
        self._state = state

    def native_overloads(self) -> frozenset[str]:
        """Return what the device has a kernel of its own for. neuron_ops.translators asks: the dispatcher does not know."""
        registrations = self._state.profile.registrations
        return frozenset(name for name, registration in registrations.items() if not registration.host)

    def translated_call(self, overload: str) -> contextlib.AbstractContextManager[Entry]:
        """Return a context in which calls count as the parts of a translator of `overload`; it gives what `refuse` is told."""
        return self._state.journal.inside(Entry(overload, None, composite=True, translated=True))

    def is_available(self) -> bool:
        """Return True."""
        return True

    def is_initialized(self) -> bool:
        """Return True: there is nothing to initialise."""
        return True

    def init(self) -> None:
        """Do nothing."""

    def _lazy_init(self) -> None:
        """Do nothing; torch calls it."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def current_device(self) -> int:
        """Return 0."""
        return 0

    def set_device(self, device: int | str | torch.device) -> None:
        """Accept the only device."""

    def device(self, device: int | str | torch.device) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """Return a context in which the only device is current."""
        return contextlib.nullcontext()

    def get_device_name(self, device: int | str | torch.device | None = None) -> str:  # noqa: ARG002
        """Return a name that cannot be taken for hardware."""
        return "simulated neuron"

    def synchronize(self, device: int | str | torch.device | None = None) -> None:
        """Do nothing: each call has finished when it returns."""

    def manual_seed(self, seed: int) -> None:
        """Seed the CPU generator, from which this device draws."""
        torch.default_generator.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing: `torch.manual_seed` calls this beside seeding the CPU generator."""

    def get_rng_state(self, device: int | str | torch.device = memory.DEVICE) -> torch.Tensor:  # noqa: ARG002
        """Return the CPU generator's state."""
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: int | str | torch.device = memory.DEVICE) -> None:  # noqa: ARG002
        """Set the CPU generator's state."""
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return the dtypes that autocast may cast to."""
        return list(AUTOCAST_DTYPES)

    def is_bf16_supported(self) -> bool:
        """Return True."""
        return True


_AUTOCAST_TO_LOWER = (
    "matmul", "mm", "mv", "bmm", "addmm", "addmv", "addbmm", "baddbmm", "linear", "conv1d", "conv2d", "conv3d", "convolution",
    "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "scaled_dot_product_attention", "prelu",
)  # fmt: skip
_AUTOCAST_TO_FLOAT32 = (
    "softmax.int", "log_softmax.int", "layer_norm", "group_norm", "cross_entropy_loss", "nll_loss", "mse_loss", "l1_loss", "exp", "log",
    "log10", "log2", "log1p", "expm1", "rsqrt", "reciprocal", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "cumsum", "cumprod", "prod", "dist",
    "norm.Scalar",
)  # fmt: skip
"""The lists that torch's own autocast uses on accelerators (torch 2.13, aten/src/ATen/autocast_mode.h)."""


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        eligible = value.is_floating_point() and value.dtype != torch.float64
        return value.to(dtype) if eligible else value
    return type(value)(_cast(item, dtype) for item in value) if isinstance(value, (list, tuple)) else value


def _autocast_kernel(op: torch._ops.OpOverload, dtype: torch.dtype | None) -> Callable[..., Any]:
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]

    @functools.wraps(op)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        to = dtype or torch.get_autocast_dtype(memory.DEVICE)
        with torch._C._ExcludeDispatchKeyGuard(key):
            return op(*(_cast(a, to) for a in args), **{k: _cast(v, to) for k, v in kwargs.items()})

    return kernel


def register_autocast() -> Iterator[torch.library.Library]:
    """Register the cast lists at the device's autocast key; yields the libraries, which must be kept alive."""
    fall_through = torch.library.Library("_", "IMPL")
    fall_through.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    yield fall_through
    library = torch.library.Library("aten", "IMPL")
    for names, dtype in ((_AUTOCAST_TO_LOWER, None), (_AUTOCAST_TO_FLOAT32, torch.float32)):
        for name in names:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, _autocast_kernel(op, dtype), "AutocastPrivateUse1")
    yield library


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Choose as the vendor's backend does: the fused overload for 4-D inputs, the math composite for others."""
    if query.dim() != 4:
        out: torch.Tensor = torch.ops.aten._scaled_dot_product_attention_math.default(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )[0]
        return out
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        minus_infinity = torch.ops.aten.scalar_tensor.default(float("-inf"), dtype=query.dtype, device=query.device)
        attn_mask = torch.ops.aten.where.ScalarSelf(attn_mask, 0.0, minus_infinity)
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
    fused_out: torch.Tensor = fused(query, key, value, attn_mask, dropout_p, is_causal, False, scale=scale)[0]
    return fused_out


def register_attention() -> torch.library.Library:
    """Register the choice above autograd: torch's own stub for it is C++ and out of Python's reach."""
    library = torch.library.Library("aten", "IMPL")
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        library.impl("scaled_dot_product_attention", _attention, key)
    return library
