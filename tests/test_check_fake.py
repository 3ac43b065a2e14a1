"""Models on fake tensors: the operators of whole families at full size, and code that asks for values."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from neuron_ops.op_tests.capture.rows import CallRoute, Request
from neuron_ops.workers.judge import judge

if TYPE_CHECKING:
    from neuron_ops.op_tests.capture.report import Report

pytest.importorskip("torch")
FAMILIES = Path(__file__).parent / "data" / "families"
MODELS = Path(__file__).parent / "models"
EXPECTED: dict[str, dict[str, list[str]]] = json.loads((FAMILIES / "operators.json").read_text())["models"]
_NOT_CALLS = {
    "aten.detach.default",
    "aten.lift_fresh.default",
    "aten.alias.default",
    "aten._local_scalar_dense.default",
}
"""What the reference lists beside calls of the device, or we as places where the host waits."""
_SUMMED = {"aten.ones_like.default", "aten.expand.default"}
"""What the loss of the reference calls, the sum of a model's first output; ours starts from ones."""
_EXPLAINED = {
    # the second output's gradient, and the side of `if not isfinite(hidden).all(): clamp` that the reference leaves out
    "detr_r50": {"sigmoid_backward.default", "clamp.default", "ge.Scalar", "le.Scalar", "logical_and_.default",
                 "scalar_tensor.default", "where.self"},
    "fnet_base": {"slice.Tensor"},  # of the positions: our texts are shorter than the longest
}  # fmt: skip


def target(family: str) -> tuple[Path, str | None, tuple[str, ...]]:
    """Return file, attribute and the libraries that it needs."""
    file = FAMILIES / f"{family}.json"
    if file.exists():
        return file, None, ("diffusers" if "_class_name" in file.read_text() else "transformers",)
    if family == "lstm_tagger":
        return FAMILIES / "lstm_tagger.py", "Tagger", ()
    return FAMILIES / "from_timm.py", family, ("timm",)


def checked(family: str, **options: Any) -> Report:
    """Return the report, or skip where the family's library is not installed."""
    file, attribute, libraries = target(family)
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    return judge(Request(str(file), attribute, **options), seconds=300, memory=4 << 30)


_QUICK = {"bert_base", "fnet_base", "gpt2", "lstm_tagger", "vit_b16"}
"""A few seconds each; the others take up to a minute."""
_slow = pytest.mark.slow


@pytest.mark.parametrize("family", [pytest.param(f, marks=() if f in _QUICK else _slow) for f in sorted(EXPECTED)])
def test_a_training_step_calls_the_operators_of_the_reference(family: str) -> None:
    report = checked(family, train=True, fake=True)
    assert report.failure is None, report.failure
    assert report.fake
    wanted = {name for names in EXPECTED[family].values() for name in names} - _NOT_CALLS
    found = {row.overload for row in report.rows} - _NOT_CALLS
    summed = _SUMMED if "labels" not in (report.inputs or "") else set()
    assert wanted - found <= summed
    assert {name.removeprefix("aten.") for name in found - wanted} <= _EXPLAINED.get(family, set())


@_slow
@pytest.mark.parametrize(
    "family", ["clip_vit_b32", "mixtral_8x7b", "mobilenetv3", "sd_vae", "t5_base", "whisper_small"]
)
def test_other_families_run_to_their_end_at_full_size(family: str) -> None:
    report = checked(family, fake=True)
    assert (report.failure, report.fake) == (None, True)
    assert len({row.overload for row in report.working}) > 8


def test_what_goes_to_the_device_is_no_wait() -> None:
    report = checked("gpt2", fake=True)
    assert report.failure is None
    assert report.waits == ()
    assert report.complete


def test_a_configuration_of_8b_parameters_is_told_with_lines_modules_and_shapes() -> None:
    report = checked("llama3_8b", dtype="bfloat16")
    assert report.failure is None
    assert report.fake  # nobody asked: it is too big for real values
    rows = [row for row in report.rows if row.overload == "aten.linear.default"]
    assert sum(row.total for row in rows) == 225
    assert {row.dtypes for row in rows} == {("bfloat16", "bfloat16")}
    assert {row.route for row in rows} == {CallRoute.NATIVE}
    first = next(row for row in rows if row.module == "model.layers.0.self_attn.q_proj")
    assert first.shapes == ((1, 512, 4096), (4096, 4096))
    assert "modeling_llama.py" in str(first.where)
    norms = [row for row in report.rows if row.overload == "aten.pow.Tensor_Scalar"]
    assert {row.route for row in norms} == {CallRoute.COMPOSITE}


@pytest.mark.parametrize(("model", "attribute"), [("cnn", None), ("lstm_tagger", None), ("made", None)])
def test_fake_tensors_and_real_values_call_the_same(model: str, attribute: str | None) -> None:
    rows = []
    for fake in (False, True):
        report = judge(
            Request(str(MODELS / f"{model}.py"), attribute, train=model != "made", fake=fake),
            seconds=120,
            memory=4 << 30,
        )
        assert report.failure is None
        assert report.fake is fake
        # autograd adds gradients in place only where no mode watches
        called = [
            (row.overload.replace("add_.", "add."), row.dtypes, row.phase, row.where, row.module, row.route)
            for row in report.rows
        ]
        rows.append(set(called))
    assert rows[0] == rows[1]


_SCRIPT = """
import json, sys
from neuron_ops.op_tests.capture.rows import Request
from neuron_ops.op_tests.capture.session import capture
file, *names = sys.argv[1:]
for name in names:
    events = []
    capture(Request(file, name, train=name in ("Double", "Ctc"), fake=True), lambda *event: events.append(event))
    print("EVENTS" + json.dumps([name, events]))
"""
_ASKING = (
    "Item", "Branch", "Loop", "Refuses", "Mask", "Experts", "Unique", "Numpy", "Text", "Known", "Gru", "Custom", "Inference", "Double", "Ctc",
)  # fmt: skip


@pytest.fixture(scope="module")
def told() -> dict[str, list[Any]]:
    """Return the events of each model of asking.py; one process runs them all."""
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(MODELS / "asking.py"), *_ASKING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    lines = [line.removeprefix("EVENTS") for line in done.stdout.splitlines() if line.startswith("EVENTS")]
    return dict(json.loads(line) for line in lines)


def overloads(events: list[Any]) -> set[str]:
    return {event[1]["overload"] for event in events if event[0] == "row"}


def notes(events: list[Any]) -> list[str]:
    return [f"{text} @{Path(where).name}" for kind, text, where in (e for e in events if e[0] == "note")]


def line(text: str) -> int:
    return next(n for n, found in enumerate((MODELS / "asking.py").read_text().splitlines(), 1) if text in found)


@pytest.mark.parametrize("name", _ASKING)
def test_code_that_asks_for_values_runs_to_its_end(name: str, told: dict[str, list[Any]]) -> None:
    assert told[name][-1] == ["done"]


def test_both_sides_of_an_unknown_condition_are_listed(told: dict[str, list[Any]]) -> None:
    assert {"aten.relu.default", "aten.sigmoid.default"} <= overloads(told["Branch"])
    place = f"@asking.py:{line('if y.sum() > 0')}"
    assert [note for note in notes(told["Branch"]) if note.endswith(place) and "both sides" in note]


def test_a_side_that_raises_is_left_for_the_other(told: dict[str, list[Any]]) -> None:
    assert "aten.tanh.default" in overloads(told["Refuses"])
    assert ["again"] in told["Refuses"]


def test_a_loop_until_convergence_ends(told: dict[str, list[Any]]) -> None:
    row = [event[1] for event in told["Loop"] if event[0] == "row" and event[1]["overload"] == "aten.mul.Tensor"][-1]
    assert 0 < row["count"] <= 64


@pytest.mark.parametrize(
    ("name", "words", "where"),
    [
        ("Item", "an unknown value is read", "y.abs().mean().item()"),
        ("Mask", "nonzero of unknown values", "y[y > 0]"),
        ("Unique", "_unique2 of unknown values", "torch.unique"),
        ("Numpy", "numpy() of unknown values", ".numpy()"),
        ("Ctc", "aten::_ctc_loss.Tensor has no rule for its shapes", "ctc_loss"),
        ("Custom", "asked::plain has no rule for its shapes", "plain(x))"),
    ],
)  # fmt: skip
def test_what_was_assumed_is_noted_with_its_line(name: str, words: str, where: str, told: dict[str, list[Any]]) -> None:
    assert [note for note in notes(told[name]) if words in note and note.endswith(f":{line(where)}")]


def test_known_values_are_not_guessed(told: dict[str, list[Any]]) -> None:
    assert notes(told["Known"]) == []
    assert "aten.exp.default" in overloads(told["Known"])


def test_operators_that_only_inference_mode_hides_are_opened(told: dict[str, list[Any]]) -> None:
    found = overloads(told["Inference"])
    assert "aten._scaled_dot_product_fused_attention_overrideable.default" in found
    assert not {"aten.reshape.default", "aten.scaled_dot_product_attention.default"} & found


def test_an_operator_without_kernels_is_unsupported(told: dict[str, list[Any]]) -> None:
    rows = {event[1]["overload"]: event[1]["route"] for event in told["Gru"] if event[0] == "row"}
    assert rows["aten._thnn_fused_gru_cell.default"] == "unsupported"


def test_a_file_whose_model_is_too_big_runs_on_fake_tensors(tmp_path: Path) -> None:
    file = tmp_path / "big.py"
    file.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192) for _ in range(64)))\n"  # 16 GiB
        "example_inputs = torch.ones(2, 8192)\n"
    )
    report = judge(Request(str(file)), seconds=120, memory=4 << 30)
    assert report.failure is None
    assert report.fake
    assert sum(row.total for row in report.rows if row.overload == "aten.linear.default") == 64
