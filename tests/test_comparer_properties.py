"""What holds for every tensor: it equals its copy, one wrong element is found anywhere; and real faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from neuron_ops.op_tests.comparer import Verdict, compare
from neuron_ops.op_tests.observation import observe

FAULTS = json.loads((Path(__file__).parent / "data" / "value_faults.json").read_text(encoding="utf-8"))

FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip
DTYPES = [
    *FLOATS, torch.complex64, torch.complex128, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.float4_e2m1fn_x2, torch.bits8,
]  # fmt: skip

shapes = st.lists(st.integers(0, 4), max_size=4)


def judge(
    want: object, got: object, exact: object = None, overload: str = "aten.exp.default", dtype: str = "float32"
) -> Verdict:
    seen = None if exact is None else observe(exact, (), {})
    return compare(overload, dtype, reference=observe(want, (), {}), device=observe(got, (), {}), exact=seen)


def any_bits(dtype: torch.dtype, shape: list[int], seed: int) -> torch.Tensor:
    """Return a tensor of random bits: NaN, infinities, subnormals and both zeros turn up."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    size = 1
    for length in shape:
        size *= length
    raw = torch.randint(0, 256, (size * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).view(shape)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(DTYPES), shapes, st.integers(0, 2**31), st.booleans())
def test_a_tensor_is_equal_to_its_copy(dtype: torch.dtype, shape: list[int], seed: int, turned: bool) -> None:
    want = any_bits(dtype, shape, seed)
    want = want.transpose(0, -1) if turned and len(shape) > 1 else want
    got = want.clone() if dtype.itemsize == 1 else want.clone(memory_format=torch.preserve_format)
    floating = want.dtype.is_floating_point and dtype is not torch.float4_e2m1fn_x2
    verdict = judge(want, got, want.to(torch.float64) if floating else None)
    assert verdict.ok, verdict.message
    assert verdict.message is None
    if floating and want.numel():
        assert verdict.device_figures is not None
        assert verdict.device_figures == verdict.reference_figures
        assert verdict.device_figures.max_abs == 0.0


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(FLOATS[:-1]), st.lists(st.integers(1, 4), max_size=3), st.data(), st.booleans())
def test_one_element_beyond_the_tolerance_is_found_anywhere(
    dtype: torch.dtype, shape: list[int], data: Any, known: bool
) -> None:
    size = data.draw(st.sampled_from([1.0, 0.25, 16.0]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    exact = (1 + torch.rand(shape, dtype=torch.float64, generator=generator)) * size
    want = exact.to(dtype)
    place = data.draw(st.integers(0, want.numel() - 1))
    got = want.to(torch.float64, copy=True)
    step = max(3 * torch.finfo(dtype).eps, 2e-4 if dtype.itemsize > 2 else 2e-2)
    got.view(-1)[place] *= 1 + (step if data.draw(st.booleans()) else -step)
    verdict = judge(want, got.to(dtype), exact if known else None)
    assert not verdict.ok
    assert verdict.message is not None
    assert f"1 of {want.numel()} elements wrong" in verdict.message


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.data())
def test_one_integer_that_is_off_by_one_is_found_anywhere(count: int, data: Any) -> None:
    want = torch.randint(
        -(2**62), 2**62, (count,), generator=torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    )
    place = data.draw(st.integers(0, count - 1))
    got = want.clone()
    got[place] += 1
    message = judge(want, got).message
    assert message is not None
    assert f"worst at [{place}]" in message


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_two_dtypes_are_never_equal(one: torch.dtype, other: torch.dtype) -> None:
    verdict = judge(any_bits(one, [0], 0), any_bits(other, [0], 0))
    assert verdict.ok is (one is other)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FLOATS[:4]), st.integers(0, 2**31))
def test_correct_rounding_is_always_accepted(dtype: torch.dtype, seed: int) -> None:
    """The CPU may be off by two units in the last place; a device that rounds the true result correctly passes."""
    exact = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    cpu = exact.to(dtype)
    cpu[::3] *= 1 + 2 * torch.finfo(dtype).eps
    assert judge(cpu, exact.to(dtype), exact).ok


def rebuilt(value: Any) -> Any:
    """Return the tensor, number or list that the data file describes."""
    if isinstance(value, list):
        return [rebuilt(item) for item in value]
    if "python" in value:
        return value["python"]
    dtype = getattr(torch, value["dtype"])
    numbers = [float(x) if isinstance(x, str) else x for x in value["values"]]
    return torch.tensor(numbers, dtype=dtype).reshape(value["shape"])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["id"])
def test_a_fault_that_a_backend_really_had(fault: dict[str, Any]) -> None:
    want = rebuilt(fault["want"])
    accepted = judge(want, rebuilt(fault["want"]), overload=fault["overload"], dtype=fault["dtype"])
    assert accepted.ok, accepted.message
    flagged = judge(want, rebuilt(fault["fault"]), overload=fault["overload"], dtype=fault["dtype"])
    assert not flagged.ok
    assert flagged.message is not None
    assert flagged.message.startswith(("output ", "outputs"))


def test_the_faults_are_there() -> None:
    assert len(FAULTS) >= 50
    assert len({fault["id"] for fault in FAULTS}) == len(FAULTS)
