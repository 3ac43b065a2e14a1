"""Results that are not one certain tensor: every legal one passes, and every illegal one is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from neuron_ops.op_tests.calls import perform
from neuron_ops.op_tests.comparer import Verdict, compare
from neuron_ops.op_tests.observation import observe
from neuron_ops.op_tests.properties import JUDGES
from neuron_ops.op_tests.tolerances import _BY, EXCEPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

aten = torch.ops.aten
TIES = torch.tensor([[3.0, 1.0, 3.0, 2.0, 1.0], [0.0, -0.0, 0.0, 5.0, 5.0]])


def overload(name: str) -> Any:
    _, packet, variant = name.split(".")
    return getattr(getattr(aten, packet), variant)


def judge(
    name: str, args: tuple[Any, ...], change: Callable[[list[Any]], Any], dtype: str = "float32", **kwargs: Any
) -> Verdict:
    """Return the verdict on a device that leaves what `change` makes of copies of the CPU's outputs."""
    want = overload(name)(*args, **kwargs)
    single = isinstance(want, torch.Tensor)
    got = change([t.clone() for t in ([want] if single else want)])
    exact = None
    if args[0].is_floating_point() or args[0].is_complex():
        wide = (args[0].to(torch.complex128 if args[0].is_complex() else torch.float64), *args[1:])
        exact = observe(overload(name)(*wide, **kwargs), wide, kwargs)
    return compare(
        name, dtype, reference=observe(want, args, kwargs), device=observe(got[0] if single else tuple(got), args, kwargs),
        exact=exact,
    )  # fmt: skip


def put(number: int, place: tuple[int, ...], value: float) -> Callable[[list[Any]], Any]:
    def change(outputs: list[Any]) -> Any:
        outputs[number][place] = value
        return outputs

    return change


def assert_wrong(verdict: Verdict, words: str) -> None:
    assert not verdict.ok
    assert verdict.message is not None
    assert words in verdict.message


def assert_noted(verdict: Verdict, words: str) -> None:
    assert verdict.ok, verdict.message
    assert verdict.message is not None
    assert words in verdict.message


def test_every_judge_has_a_row_and_every_row_a_judge() -> None:
    assert set(_BY) == set(JUDGES) == {row.by for row in EXCEPTIONS if row.what == "properties"}


# --- indices ---------------------------------------------------------------------------------------------------------

PICKS = [
    ("aten.max.dim", (TIES, 1), [0, 2], 3),
    ("aten.min.dim", (TIES, 1), [1, 4], 0),
    ("aten.kthvalue.default", (TIES, 1, 1), [1, 4], 0),
    ("aten.mode.default", (TIES, 1), [1, 4], 0),
    ("aten.median.dim", (torch.tensor([[2.0, 1.0, 2.0]]), 1), [0, 2], 1),
    ("aten.nanmedian.dim", (torch.tensor([[2.0, 1.0, 2.0]]), 1), [0, 2], 1),
]


@pytest.mark.parametrize(("name", "args", "legal", "illegal"), PICKS, ids=[p[0] for p in PICKS])
@pytest.mark.parametrize("keepdim", [False, True])
def test_the_index_of_any_equal_element(
    name: str, args: tuple[Any, ...], legal: list[int], illegal: int, keepdim: bool
) -> None:
    place = (0, 0) if keepdim else (0,)
    index = int(overload(name)(*args, keepdim=keepdim)[1][place])
    assert index in legal
    other = next(i for i in legal if i != index)
    assert_noted(judge(name, args, put(1, place, other), keepdim=keepdim), "output 1: another of equal values at 1 of")
    assert_wrong(
        judge(name, args, put(1, place, illegal), keepdim=keepdim), f"output 1: 1 of {args[0].shape[0]} indices"
    )
    assert_wrong(judge(name, args, put(1, place, args[0].shape[1]), keepdim=keepdim), "is outside of 0 to")
    assert_wrong(judge(name, args, put(1, place, -1), keepdim=keepdim), "-1 is outside of 0 to")
    assert judge(name, args, lambda outputs: outputs, keepdim=keepdim).message is None


def test_a_legal_index_does_not_excuse_a_wrong_value() -> None:
    def change(outputs: list[Any]) -> Any:
        outputs[1][0], outputs[0][0] = 2, 3.000001
        return outputs

    assert_wrong(judge("aten.max.dim", (TIES, 1), change), "output 0: 1 of 2 elements wrong")


def test_the_index_of_nan_and_of_a_number_without_dimensions() -> None:
    holed = torch.tensor([1.0, float("nan"), float("nan")])
    index = int(overload("aten.max.dim")(holed, 0)[1])
    assert_noted(judge("aten.max.dim", (holed, 0), put(1, (), 3 - index)), "another of equal values")
    assert_wrong(judge("aten.max.dim", (holed, 0), put(1, (), 0)), "points at 1, expected an index of nan")
    assert_wrong(judge("aten.max.dim", (torch.tensor(3.0), 0), put(1, (), 1)), "1 is outside of 0 to 0")


def swapped(number: int, left: int, right: int) -> Callable[[list[Any]], Any]:
    def change(outputs: list[Any]) -> Any:
        row = outputs[number][0]
        row[left], row[right] = int(row[right]), int(row[left])
        return outputs

    return change


@pytest.mark.parametrize(("name", "number"), [("aten.sort.default", 1), ("aten.argsort.default", 0)])
def test_a_sort_that_is_not_stable(name: str, number: int) -> None:
    assert_noted(judge(name, (TIES, 1), swapped(number, 0, 1)), f"output {number}: another of equal values at 2 of 10")
    assert_wrong(
        judge(name, (TIES, 1), swapped(number, 1, 2)), f"output {number}: 2 of 10 indices wrong, first at [0, 1]"
    )
    assert_wrong(judge(name, (TIES, 1), put(number, (0, 0), 4)), "the same index twice in a row")
    assert_wrong(judge(name, (TIES, 1), put(number, (0, 0), 9)), "9 is outside of 0 to 4")


def test_a_stable_sort_is_exact() -> None:
    for stable in (True, False, None):
        verdict = judge("aten.sort.stable", (TIES,), swapped(1, 0, 1), stable=stable, dim=1)
        assert verdict.ok is (stable is not True), verdict.message
    assert_wrong(judge("aten.argsort.stable", (TIES,), swapped(0, 0, 1), stable=True, dim=1), "elements wrong")
    assert_wrong(judge("aten.argmax.default", (TIES, 1), put(0, (0,), 2)), "elements wrong")


def test_topk() -> None:
    args = (TIES, 3, 1)
    assert_noted(judge("aten.topk.default", args, swapped(1, 0, 1)), "output 1: another of equal values")
    assert_wrong(judge("aten.topk.default", args, swapped(1, 1, 2)), "output 1: 2 of 6 indices wrong")
    assert_wrong(judge("aten.topk.default", args, put(1, (0, 0), 2)), "the same index twice in a row")
    assert_wrong(judge("aten.topk.default", args, put(0, (0, 0), 2.0)), "output 0: 1 of 6 elements wrong")

    def reversed_both(outputs: list[Any]) -> Any:
        return [t.flip(1) for t in outputs]

    assert_noted(judge("aten.topk.default", args, reversed_both, sorted=False), "another of equal values")
    assert_wrong(judge("aten.topk.default", args, reversed_both), "output 1: ")

    def smaller(outputs: list[Any]) -> Any:
        outputs[0][0, 0], outputs[1][0, 0] = 1.0, 1
        return outputs

    assert_wrong(judge("aten.topk.default", args, smaller, sorted=False), "output 0: other values than the 3")


def test_gradients_follow_the_choice_of_the_forward() -> None:
    def seen(index: list[int], gradient: list[float]) -> Any:
        x = torch.tensor([[3.0, 1.0, 3.0]])
        return observe((torch.tensor([3.0]), torch.tensor(index), torch.tensor([gradient])), (x, 1), {})

    want = seen([0], [1.0, 0.0, 0.0])
    other = compare("aten.max.dim", "float32", reference=want, device=seen([2], [0.0, 0.0, 1.0]), exact=None)
    assert_noted(other, "another of equal values")
    same = compare("aten.max.dim", "float32", reference=want, device=seen([0], [0.0, 0.0, 1.0]), exact=None)
    assert_wrong(same, "output 2: 2 of 3 elements wrong")


# --- factors ---------------------------------------------------------------------------------------------------------


def matrices(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(3))


def flipped(*numbers: int, rows: tuple[int, ...] = ()) -> Callable[[list[Any]], Any]:
    """Return a change of sign (phase) of the first column of the outputs `numbers` and of the first row of `rows`."""

    def change(outputs: list[Any]) -> Any:
        phase = complex(0.6, 0.8) if outputs[numbers[0]].is_complex() else -1.0
        for number in numbers:
            outputs[number][..., :, 0] *= phase
        for number in rows:
            outputs[number][..., 0, :] *= phase.conjugate() if isinstance(phase, complex) else phase
        return outputs

    return change


DTYPES = [torch.float32, torch.float64, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("name", ["aten.linalg_qr.default", "aten._linalg_svd.default", "aten.svd.default"])
@pytest.mark.filterwarnings("ignore:torch.svd")
def test_signs_and_phases_of_qr_and_svd(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = matrices(dtype, *shape)
    short = str(dtype).removeprefix("torch.")
    change = {
        "aten.linalg_qr.default": flipped(0, rows=(1,)),
        "aten._linalg_svd.default": flipped(0, rows=(2,)),
        "aten.svd.default": flipped(0, 2),
    }[name]
    assert_noted(judge(name, (a,), change, short), "output 0: other signs, phases or order")
    assert_wrong(judge(name, (a,), flipped(0), short), "is off by")
    for number in (0, 1) if "qr" in name else (0, 2):
        assert_wrong(judge(name, (a,), put(number, (0,) * len(shape), 0.123), short), "is off by")
    assert judge(name, (a,), lambda outputs: outputs, short).message is None


def test_what_is_certain_of_a_factorization_stays_certain() -> None:
    a = matrices(torch.float32, 4, 4)
    verdict = judge("aten._linalg_svd.default", (a,), put(1, (0,), 9.0))
    assert_wrong(verdict, "is off by")
    verdict = judge("aten._linalg_svd.default", (a, False, False), put(1, (0,), 9.0))
    assert_wrong(verdict, "output 1: 1 of 4 elements wrong")

    def permuted(outputs: list[Any]) -> Any:
        u, s, vh = outputs
        return [u.flip(-1), s.flip(-1), vh.flip(-2)]

    def clone(outputs: list[Any]) -> Any:
        u, s, vh = permuted(outputs)
        return [u.mT.contiguous().mT, s, vh.contiguous()]

    found = judge("aten._linalg_svd.default", (a,), clone)
    assert not found.ok  # singular values come in descending order
    assert_wrong(judge("aten.linalg_qr.default", (a, "r"), put(1, (3, 0), 0.5)), "R below its diagonal is off by")
    assert_noted(judge("aten.linalg_qr.default", (a, "r"), lambda o: [o[0], -o[1].mT.contiguous().mT]), "other signs")
    assert_wrong(judge("aten.linalg_qr.default", (a, "r"), lambda o: [o[0], 2 * o[1]]), "R^H R against A^H A is off")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigenvectors_of_a_hermitian_matrix(dtype: torch.dtype, uplo: str) -> None:
    a, short = matrices(dtype, 2, 4, 4), str(dtype).removeprefix("torch.")
    assert_noted(judge("aten._linalg_eigh.default", (a, uplo), flipped(1), short), "output 1: other signs")
    assert_wrong(judge("aten._linalg_eigh.default", (a, uplo), put(1, (0, 0, 0), 0.2), short), "is off by")
    assert_wrong(judge("aten._linalg_eigh.default", (a, uplo, False), put(0, (0, 0), 9.0), short), "output 0: 1 of 8")

    def wrong_triangle(outputs: list[Any]) -> Any:
        return list(torch.linalg.eigh(a, "U" if uplo == "L" else "L"))

    assert_wrong(judge("aten._linalg_eigh.default", (a, uplo), wrong_triangle, short), "A V against V L is off by")


def test_any_basis_of_a_repeated_eigenvalue() -> None:
    a = torch.diag(torch.tensor([1.0, 1.0, 2.0]))
    turned = torch.tensor([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])

    def change(outputs: list[Any]) -> Any:
        return [outputs[0], turned.mT.contiguous().mT if outputs[1].stride() == (1, 3) else turned.clone()]

    assert_noted(judge("aten._linalg_eigh.default", (a,), change), "other signs, phases or order")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_eigenvalues_in_any_order(dtype: torch.dtype) -> None:
    a, short = matrices(dtype, 4, 4), str(dtype).removeprefix("torch.")

    def reversed_all(outputs: list[Any]) -> Any:
        values = outputs[0].flip(-1)
        return [values] if len(outputs) == 1 else [values, outputs[1].flip(-1).mT.contiguous().mT]

    def twice(outputs: list[Any]) -> Any:
        outputs[0][1], outputs[1][:, 1] = outputs[0][0], outputs[1][:, 0]
        return outputs

    assert_noted(judge("aten.linalg_eig.default", (a,), reversed_all, short), "output 0: other signs, phases or order")
    assert_noted(judge("aten.linalg_eig.default", (a,), flipped(1), short), "output 1: other signs, phases or order")
    assert_wrong(judge("aten.linalg_eig.default", (a,), twice, short), "the dependence of the eigenvectors")
    assert_wrong(judge("aten.linalg_eig.default", (a,), lambda o: [o[0], 2 * o[1]], short), "against 1 is off by")
    assert_noted(judge("aten.linalg_eigvals.default", (a,), reversed_all, short), "output 0: other signs")
    assert_wrong(judge("aten.linalg_eigvals.default", (a,), put(0, (0,), 9.0), short), "elements wrong")


def test_the_float64_reference_says_nothing_where_it_took_another_sign() -> None:
    """Else the CPU's own error would be 2, and a device could be as far off."""
    a = matrices(torch.float32, 3, 3)
    want = torch.linalg.eigh(a)
    exact = [want[0].double(), -want[1].double()]

    def verdict(vectors: torch.Tensor) -> Verdict:
        return compare(
            "aten._linalg_eigh.default", "float32", reference=observe(tuple(want), (a,), {}),
            device=observe((want[0], vectors), (a,), {}), exact=observe(exact, (a,), {}),
        )  # fmt: skip

    assert verdict(want[1].clone()).device_figures is not None
    assert verdict(want[1].clone()).reference_figures.max_abs < 1e-5  # type: ignore[union-attr]
    bent = want[1].clone()
    bent[0, 0] += 0.5
    assert not verdict(bent).ok


def test_gradients_follow_the_signs_of_the_forward() -> None:
    a = matrices(torch.float32, 3, 3)
    op = aten._linalg_eigh.default
    outputs, (gradient,) = perform(op, (a,), {}, "backward")

    def verdict(vectors: torch.Tensor, grad: torch.Tensor) -> Verdict:
        want = observe((*outputs, gradient), (a,), {})
        return compare(
            "aten._linalg_eigh.default", "float32", reference=want,
            device=observe((outputs[0], vectors, grad), (a,), {}), exact=None,
        )  # fmt: skip

    assert not verdict(outputs[1].clone(), gradient + 1).ok
    assert verdict(-outputs[1], gradient + 1).ok


def test_factors_of_another_implementation_pass() -> None:
    def through_float64(name: str, a: torch.Tensor) -> Callable[[list[Any]], Any]:
        def change(outputs: list[Any]) -> Any:
            fresh = overload(name)(a.double())
            return [torch.empty_strided(o.shape, o.stride()).copy_(f) for f, o in zip(fresh, outputs, strict=True)]

        return change

    for size in (1, 2, 7, 33):
        a = matrices(torch.float32, 20, size, size)
        for name in ("aten.linalg_qr.default", "aten._linalg_svd.default", "aten._linalg_eigh.default"):
            verdict = judge(name, (a,), through_float64(name, a))
            assert verdict.ok, verdict.message
