"""Keeps calls that no stored result covers, and writes them as a sample bank that a sweep can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import BankWriter, bank_file
from neuron_ops.op_tests.capture.evidence import LABEL
from neuron_ops.op_tests.packing import MAX_STORAGE_BYTES, Sample, Unpackable, pack
from neuron_ops.op_tests.targets.sim import memory
from torch.utils._pytree import tree_map_only

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from neuron_ops.op_tests.capture.measure import Measured


class Exporter:
    """One sample of each call whose signature is not in `known`.

    Integers and booleans keep their values, which indices need; floating-point and complex values are drawn anew, so
    that no weights and no data leave the machine with them.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = frozenset(known)
        self._samples: dict[str, dict[str, tuple[str, Sample]]] = {}
        self._left_out: set[str] = set()
        self._counted = {o.name for o in catalogue.operators() if o.excluded is None}

    def take(self, overload: str, measured: Measured, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep a call, once, if it is one that is counted and its arguments can be kept."""
        by_signature = self._samples.setdefault(measured.dtypes[0] if measured.dtypes else "float32", {})
        if overload not in self._counted or measured.signature in self._known or measured.signature in by_signature:
            return
        try:
            args, kwargs = tree_map_only(torch.Tensor, _drawn, (args, kwargs))
            by_signature[measured.signature] = overload, pack(args, kwargs)
        except Unpackable:
            self._left_out.add(measured.signature)

    def write(self, folder: Path) -> str:
        """Write one bank file for each dtype below the folder and return in a sentence how to run them."""
        written = {dtype: samples for dtype, samples in sorted(self._samples.items()) if samples}
        for dtype, samples in written.items():
            path = bank_file(folder, dtype, 0)
            path.parent.mkdir(parents=True, exist_ok=True)
            with BankWriter(path, dtype, 0) as writer:
                for signature, (overload, sample) in samples.items():
                    writer.add(overload, LABEL + signature, sample, ("forward",))
        count = sum(map(len, written.values()))
        out = f", {len(self._left_out)} too large or of no plain tensors left out" if self._left_out else ""
        if not count:
            return f"no call to export: stored results cover all that can be kept{out}"
        dtypes = ",".join(written)
        return (
            f"{count} calls written as cases{out}; run `NEURON_OPS_CACHE={folder} neuron-ops sweep --dtypes {dtypes}`"
        )


def _drawn(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor of the same dtype, shape and strides; raises Unpackable."""
    if (
        tensor.layout != torch.strided
        or tensor.is_quantized
        or tensor.numel() * tensor.element_size() > MAX_STORAGE_BYTES
    ):
        raise Unpackable("too large, or no plain tensor")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return (memory.to_host(tensor) if memory.is_device(tensor) else tensor).detach().clone()
    drawn = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return drawn.copy_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)))
