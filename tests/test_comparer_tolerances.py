"""The tolerance table, its scaling, the figures, and the table of exceptions."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase

import pytest
import torch
from neuron_ops.op_tests.figures import distances, largest, summary
from neuron_ops.op_tests.records import Figures
from neuron_ops.op_tests.tolerances import (
    EXACT,
    EXCEPTIONS,
    LARGEST_SHARE,
    TOLERANCES,
    Tolerance,
    computed_as,
    load_exceptions,
    reduction_length,
    rows_for,
    scaled,
    tolerance_of,
)  # fmt: skip
from torch.testing import _comparison


def test_the_table_is_that_of_torch_testing() -> None:
    ours = {d: (t.relative, t.absolute) for d, t in TOLERANCES.items() if "float8" not in str(d)}
    theirs = {d: t for d, t in _comparison._DTYPE_PRECISIONS.items() if not str(d).startswith("torch.q")}
    assert ours == theirs


@pytest.mark.parametrize("dtype", [d for d in TOLERANCES if "float8" in str(d)], ids=str)
def test_float8_may_be_off_by_one_step(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    smallest = torch.tensor([1], dtype=torch.uint8).view(dtype).item()
    assert TOLERANCES[dtype].relative >= info.eps
    assert TOLERANCES[dtype].absolute == smallest


def test_no_tolerance_accepts_zeros() -> None:
    for tolerance in TOLERANCES.values():
        assert LARGEST_SHARE + tolerance.relative < 1


def test_scaling() -> None:
    base = Tolerance(1e-6, 1e-5)
    assert scaled(base, 1.0, 1.0, narrowed=False) == base
    assert scaled(base, 100.0, 1.0, narrowed=False).absolute == pytest.approx(1e-4)
    assert scaled(base, 100.0, 50.0, narrowed=False).absolute == pytest.approx(1e-4)
    assert scaled(base, 100.0, 50.0, narrowed=True).absolute == pytest.approx(5e-3)
    assert scaled(base, 1.0, 50.0, narrowed=True).absolute == pytest.approx(1e-5)
    assert scaled(base, 1.0, 1e-3, narrowed=False).absolute == pytest.approx(1e-8)
    assert scaled(base, 1e20, 2.0, narrowed=False).absolute == LARGEST_SHARE * 2.0
    assert scaled(base, 4.0, 0.0, narrowed=False).absolute == 0.0
    assert scaled(EXACT, 100.0, 50.0, narrowed=False) == EXACT


def test_reduction_length() -> None:
    assert reduction_length([70000], 1) == 70000
    assert reduction_length([64, 64], 64) == 2
    assert reduction_length([3], 12) == 1
    assert reduction_length([3], 0) == 1
    assert reduction_length([], 5) == 1


def test_a_narrower_arithmetic_is_of_the_outputs_kind() -> None:
    assert computed_as(torch.float64, torch.float32) is torch.float32
    assert computed_as(torch.complex128, torch.float32) is torch.complex64
    assert computed_as(torch.float32, torch.float64) is torch.float32
    assert computed_as(torch.bfloat16, torch.float16) is torch.bfloat16
    assert computed_as(torch.int64, torch.float32) is torch.int64
    assert computed_as(torch.float64, None) is torch.float64


def test_figures() -> None:
    exact = torch.tensor([1.0, -2.0, 0.0], dtype=torch.float64)
    result = torch.tensor([1 + 2.0**-23, -2.0, 0.0], dtype=torch.float64)
    figures = summary(distances(result, exact, torch.float32))
    assert figures == Figures(2.0**-23, 2.0**-23, 1.0, 2.0**-46 / 5)
    assert summary(distances(exact[:0], exact[:0], torch.float32)) is None
    low = summary(distances(torch.tensor([1.0078125], dtype=torch.float64), exact[:1], torch.bfloat16))
    assert low is not None
    assert low.max_ulp == 1.0


def test_figures_are_finite_whatever_stands_there() -> None:
    big, inf, nan = torch.finfo(torch.float64).max, math.inf, math.nan
    exact = torch.tensor([big, inf, nan, 1.0, 0.0], dtype=torch.float64)
    result = torch.tensor([-big, 1.0, 1.0, nan, 1e-300], dtype=torch.float64)
    figures = summary(distances(result, exact, torch.float64))
    assert figures is not None
    assert all(math.isfinite(x) for x in (figures.max_abs, figures.max_rel, figures.max_ulp, figures.nmse))
    assert figures.max_abs == big
    nothing = summary(distances(torch.ones(1).double(), torch.zeros(1).double(), torch.float32))
    assert nothing == Figures(1.0, 0.0, 2.0**23, 1.0)


def test_complex_figures_measure_the_modulus() -> None:
    exact, result = torch.tensor([3 + 4j]).to(torch.complex128), torch.tensor([0j]).to(torch.complex128)
    figures = summary(distances(result, exact, torch.complex64))
    assert figures is not None
    assert (figures.max_abs, figures.max_rel, figures.nmse) == (5.0, 1.0, 1.0)


def test_the_largest_figures_come_from_any_output() -> None:
    assert largest([None, Figures(1, 2, 3, 4), Figures(4, 3, 2, 1)]) == Figures(4, 3, 3, 4)
    assert largest([None]) is None


# --- exceptions ------------------------------------------------------------------------------------------------------


def test_every_exception_names_an_overload_of_the_installed_torch() -> None:
    names = [n.replace("::", ".") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    names = [n if n.count(".") == 2 else f"{n}.default" for n in names]
    dead = [row.overload for row in EXCEPTIONS if not any(fnmatchcase(name, row.overload) for name in names)]
    assert dead == []


def test_written_arguments_of_a_row_exist() -> None:
    rows = [row for row in EXCEPTIONS if row.what == "writes"]
    assert rows
    for row in rows:
        packet = getattr(torch.ops.aten, row.overload.split(".")[1])
        for variant in packet.overloads():
            names = {a.name for a in getattr(packet, variant)._schema.arguments}
            assert set(row.arguments) <= names


def test_rows_apply_by_overload_and_dtype() -> None:
    assert any(row.what == "values" for row in rows_for("aten.empty.memory_format", "float32"))
    assert not rows_for("aten.exp.default", "float32")
    assert tolerance_of(rows_for("aten.abs.default", "bfloat16"), 0, torch.bfloat16, None) == EXACT
    assert (
        tolerance_of(rows_for("aten.abs.default", "complex64"), 0, torch.complex64, None) == TOLERANCES[torch.complex64]
    )
    rows = rows_for("aten.abs.default", "float64")
    assert tolerance_of(rows, 0, torch.float64, torch.float32) == TOLERANCES[torch.float32]


def row(**changes: object) -> str:
    fields: dict[str, object] = {"overloads": ["aten.a.b"], "what": "values", "reason": "four words are enough"}
    fields.update(changes)
    lines = [f"{key} = {value!r}".replace("True", "true") for key, value in fields.items() if value is not None]
    return "\n".join(["[[row]]", *lines, ""])


def test_a_row_is_read() -> None:
    text = row(
        overloads=["aten.a.*", "aten.b.c"], dtype="float16", what="tolerance", relative=0.25, absolute=1.0, outputs=[1],
        derivation="twice the error of a table lookup",
    )  # fmt: skip
    first, second = load_exceptions(text)
    assert (first.overload, second.overload) == ("aten.a.*", "aten.b.c")
    assert (first.dtype, first.tolerance, first.covers(1), first.covers(0)) == (
        "float16",
        Tolerance(0.25, 1.0),
        True,
        False,
    )
    assert load_exceptions(row() + row(dtype="int8") + row(what="strides") + row(outputs=[0]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row() + row(), "row 2 repeats values of aten.a.b for dtype"),
        (row(overloads=["aten.a.b", "aten.a.b"]), "row 1 repeats values"),
        (row(outputs=[0, 1]) + row(outputs=[1]), "row 2 repeats values"),
        (row(overloads=["aten::a.b"]), "expected three parts such as"),
        (row(overloads=["aten.a"]), "expected three parts such as"),
        (row(overloads=[]), "has no overloads"),
        (row(overloads=None), "has no overloads"),
        (row(reason="because"), "has no reason"),
        (row(reason=None), "has no reason"),
        (row(what="anything"), "what = 'anything'; it must be one of values,"),
        (row(tolerance=1), "unknown key 'tolerance'"),
        (row(what="tolerance", relative=0.1), "both are needed"),
        (row(relative=0.1, absolute=0.1), "with what = 'tolerance', both are needed there and nowhere else"),
        (row(what="tolerance", relative=1.0, absolute=0.1), "relative must be from 0 to 0.5"),
        (row(what="tolerance", relative=0.1, absolute=0.1), "needs a derivation"),
        (row(what="tolerance", relative=0.1, absolute=0.1, derivation="a guess"), "needs a derivation"),
        (row(derivation="zero because nothing rounds here"), "needs a derivation, a sentence"),
        (row(what="writes"), "must have arguments with what = 'writes'"),
        (row(arguments=["x"]), "must have arguments with what = 'writes' and nowhere else"),
        (row(what="properties"), "must say by = one of picked,"),
        (row(what="properties", by="magic"), "must say by = one of picked,"),
        (row(by="qr"), "with what = 'properties' and nowhere else"),
    ],
)
def test_a_bad_row_stops_the_import(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^row [12]") as caught:
        load_exceptions(text)
    assert message in str(caught.value)
