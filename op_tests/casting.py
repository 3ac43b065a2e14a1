"""Decides how a sample of one dtype becomes a sample of another: same geometry, same aliasing, values converted."""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.packing import Sample, Unpackable


def cast(name: str, sample: Sample, source: torch.dtype, target: torch.dtype) -> Sample:
    """Return the sample with tensors and dtype arguments of `source` in `target`.

    A call without both gets `target` as its dtype argument where the overload takes one. Raises Unpackable where there
    is nothing to cast, or where a storage is read in two dtypes.
    """
    old, new = _name(source), _name(target)
    numbers = {node["storage"] for node in sample.tensors() if node["dtype"] == old}
    if any(node["storage"] in numbers and node["dtype"] != old for node in sample.tensors()):
        raise Unpackable("tensors of two dtypes in one storage")
    storages = tuple(
        _converted(data, source, target) if number in numbers else data for number, data in enumerate(sample.storages)
    )
    tree = _recast(sample.tree, old, new, is_complex=target.is_complex)
    if tree == sample.tree and not any(True for _ in sample.tensors()) and _takes_dtype(name):
        tree = {**tree, "kwargs": {**tree["kwargs"], "dtype": {"dtype": new}}}
    if tree == sample.tree:
        raise Unpackable(f"the call has nothing of dtype {old}")
    return Sample(tree, storages)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _takes_dtype(name: str) -> bool:
    return any(a.name == "dtype" and a.kwarg_only for a in catalogue.resolve(name)._schema.arguments)


def _recast(node: Any, old: str, new: str, *, is_complex: bool) -> Any:
    if isinstance(node, list):
        return [_recast(item, old, new, is_complex=is_complex) for item in node]
    if not isinstance(node, dict):
        return node
    if "storage" in node:
        if node["dtype"] != old:
            return node
        dropped = () if is_complex else ("conj", "neg")
        return {**{k: v for k, v in node.items() if k not in dropped}, "dtype": new}
    if node == {"dtype": old}:
        return {"dtype": new}
    return {key: _recast(value, old, new, is_complex=is_complex) for key, value in node.items()}


def _converted(data: bytes, source: torch.dtype, target: torch.dtype) -> bytes:
    """Return one storage's bytes in another dtype; no value but zero becomes zero: many integer kernels divide by it."""
    values = torch.empty(len(data), dtype=torch.uint8)
    if data:
        values.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    values = values.view(source)
    if values.is_complex() and not target.is_complex:
        values = values.real.clone(memory_format=torch.contiguous_format)
    if values.is_floating_point() and not (target.is_floating_point or target.is_complex):
        values = torch.nan_to_num(values.double(), 0.0, 100.0, -100.0)
        values = torch.copysign(values.abs().ceil(), values)
    if target is torch.uint8 and values.dtype is not torch.bool:
        values = values.abs()
    return bytes(values.to(target).contiguous().view(torch.uint8).numpy().tobytes())
