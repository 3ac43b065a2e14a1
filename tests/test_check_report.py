"""What `check` says: rows by line and module, findings, price, advice, and every format of them."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
import torch
from neuron_ops.cli.main import run
from neuron_ops.op_tests.bank import Bank
from neuron_ops.op_tests.capture.advice import Rule, advise, shipped_rules
from neuron_ops.op_tests.capture.assessment import Kind, assess, by_place, folded
from neuron_ops.op_tests.capture.documents import to_html, to_markdown
from neuron_ops.op_tests.capture.evidence import (
    Catalogue,
    Closeness,
    Source,
    StoredCase,
    closest,
    collect,
    read_catalogue,
    write_catalogue,
)
from neuron_ops.op_tests.capture.exporting import Exporter
from neuron_ops.op_tests.capture.measure import Measured, measure
from neuron_ops.op_tests.capture.price import price, traffic
from neuron_ops.op_tests.capture.prose import bytes_text, place_text, price_lines, seconds_text
from neuron_ops.op_tests.capture.report import SYNC, Report
from neuron_ops.op_tests.capture.rows import CallRoute, Failure, PartOfRow, Request, Row, Wait, WaitKind, sorted_rows
from neuron_ops.op_tests.capture.sarif import repository, to_sarif
from neuron_ops.op_tests.records import BadInput, Evidence, Status

MODELS = Path(__file__).parent / "models"
REPOSITORY = Path(__file__).parent.parent
SARIF = json.loads((Path(__file__).parent / "data" / "schemas" / "sarif-2.1.0.json").read_text())
SCHEMA = json.loads((REPOSITORY / "op_tests" / "data" / "check_report.schema.json").read_text())
GAPS = MODELS / "five_gaps.py"
LACKING = {
    "aten.i0.default": "torch.special.i0(x)",
    "aten.cumprod.default": "torch.cumprod(x, 1)",
    "aten.digamma.default": "torch.special.digamma(x)",
    "aten.sort.default": "x.sort(dim=1)",
    "aten.upsample_linear1d.default": "nn.functional.interpolate",
}
SIMULATED = Source("run r on sim", "2026-12-01", Evidence.SIMULATED)
MEASURED = Source("run h on neuron", "2026-12-02", Evidence.HARDWARE)


@pytest.fixture(autouse=True)
def no_database(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURON_OPS_DATA", str(tmp_path))


def line_of(file, text):
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)


def check(capsys, *options):
    code = run(["check", *map(str, options)])
    return code, capsys.readouterr().out


def row(overload="aten.i0.default", dtypes=("float32",), route="FALLBACK", count=1, **rest):
    return Row(overload, dtypes, {CallRoute[route]: count}, **rest)


def assessed(*rows, catalogues=(), failure=None, train=False, file="/repo/model.py"):
    versions = {"torch": "2.13.0"}
    report = Report(Request(file, train=train), "Net", "float32[2]", versions, sorted_rows(rows), failure)
    return assess(report, catalogues)


def case(status, overload="aten.i0.default", dtype="float32", sample="s", variant="forward", ranks=None):
    return StoredCase(overload, dtype, sample, variant, Status(status), ranks)


# --- measuring -------------------------------------------------------------------------------------------------------


def test_a_call_is_measured_by_its_tensors():
    x, w = torch.zeros(2, 3), torch.zeros(3, 5)
    told = measure("aten.mm.default", (x, w), {}, torch.zeros(2, 5))
    assert (told.dtypes, told.shapes) == (("float32", "float32"), ((2, 3), (3, 5)))
    assert (told.bytes_in, told.bytes_out, told.flops) == (24 + 60, 40, 2 * 2 * 3 * 5)
    assert measure("aten.mm.default", (x + 1, w), {}, torch.zeros(2, 5)).signature == told.signature
    out = measure("aten.mm.out", (x, w), {"out": torch.zeros(2, 5)}, torch.zeros(2, 5))
    assert (out.bytes_in, out.flops) == (84, 60)  # what is only written need not be read
    lists = measure("aten.cat.default", ([x, x, x.double()],), {}, torch.zeros(6, 3))
    assert (lists.dtypes, lists.bytes_in) == (("float32", "float64"), 24 + 24 + 48)
    assert measure("aten.arange.default", (3,), {}, torch.arange(3)).dtypes == ("int64",)
    assert measure("aten.mm.default", (x, w), {}, None).flops == 0  # it raised


@pytest.mark.parametrize("other", [1.0, True, 2, (1,), "1", None])
def test_static_arguments_make_another_compilation(other):
    x = torch.zeros(2)
    assert (
        measure("aten.add.Scalar", (x, other), {}, x).signature != measure("aten.add.Scalar", (x, 1), {}, x).signature
    )


def test_attention_and_linear_count_their_products():
    q, k = torch.zeros(2, 4, 5, 8), torch.zeros(2, 4, 7, 8)
    name = "aten._scaled_dot_product_fused_attention_overrideable"
    forward = measure(f"{name}.default", (q, k, k), {}, q).flops
    assert forward == 2 * (2 * 2 * 4 * 5 * 7 * 8)
    assert measure(f"{name}_backward.default", (q, q, k, k), {}, (q, k, k)).flops == forward * 5 // 2
    x, g, w = torch.zeros(3, 8), torch.zeros(3, 4), torch.zeros(4, 8)
    assert measure("aten.linear.default", (x, w), {}, g).flops == 2 * 3 * 8 * 4
    assert (
        measure("aten.linear_backward.default", (x, g, w, [True, True, False]), {}, (x, w)).flops == 2 * 2 * 3 * 8 * 4
    )
    assert measure("aten.linear_backward.default", (x, g, w, [False, True, True]), {}, (w,)).flops == 2 * 3 * 8 * 4


# --- one run, every format -------------------------------------------------------------------------------------------


def test_five_gaps_in_five_functions_are_five_findings_on_the_right_lines(capsys):
    code, out = check(capsys, GAPS, "--sarif", "--fail-on", "fallback")
    assert code == 1
    log = json.loads(out)
    jsonschema.validate(log, SARIF)
    results = log["runs"][0]["results"]
    assert len(results) == 5
    found = {}
    for result in results:
        assert (result["ruleId"], result["level"]) == ("neuron-ops/fallback", "warning")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "tests/models/five_gaps.py", "uriBaseId": "%SRCROOT%"}
        found[result["message"]["text"].split()[0]] = place["region"]["startLine"]
    assert found == {overload: line_of(GAPS, text) for overload, text in LACKING.items()}
    assert len({result["partialFingerprints"]["neuronOps/v1"] for result in results}) == 5


def test_the_json_report_of_a_training_step_fits_its_schema(capsys):
    code, out = check(capsys, MODELS / "gpt.py", "--train", "--json")
    assert code == 0
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    assert report["complete"] is True
    rows = report["operators"]
    backward = next(r for r in rows if r["overload"] == "aten.gelu_backward.default")
    assert backward["where"] == {
        "file": str((MODELS / "gpt.py").relative_to(Path.cwd())) if MODELS.is_relative_to(Path.cwd()) else str(MODELS / "gpt.py"),
        "line": line_of(MODELS / "gpt.py", "self.mlp("), "module": backward["where"]["module"],
    }  # fmt: skip
    assert re.fullmatch(r"blocks\.[01]\.mlp\.1", backward["where"]["module"])  # of the forward call that it derives
    linear = next(r for r in rows if r["overload"] == "aten.linear.default" and r["where"]["module"] == "blocks.0.qkv")
    (batch, length, width), (out_width, _), _ = linear["shapes"]
    assert linear["flops"] == 2 * batch * length * width * out_width
    assert linear["bytes_in"] == 4 * (batch * length * width + out_width * width + out_width)
    assert linear["bytes_out"] == 4 * batch * length * out_width
    assert (linear["known"]["closeness"], linear["known"]["status"]) == ("nearest case", "N")
    assert report["catalogues"][0]["evidence"] == "simulated"


def test_the_text_groups_by_line_and_names_what_to_do(capsys):
    code, out = check(capsys, MODELS / "cnn.py")
    assert code == 0
    head = f"cnn.py:{line_of(MODELS / 'cnn.py', 'y = torch.relu(self.norm1')}  blocks.*.norm1\n"
    assert out.count(head) == 1
    section = out.split(head)[1].split("\n\n")[0]
    assert "2 calls, 16 KiB over the host link" in section
    assert "neuron_ops.translators.install() translates aten.native_batch_norm.default" in section
    assert "torch.nn.utils.fuse_conv_bn_eval" in section
    assert "5 of 22 (22.7 %) calls" in out
    assert "compilations: 7 distinct" in out


def test_markdown_and_html_of_a_file(capsys):
    code, text = check(capsys, GAPS, "--markdown")
    assert code == 0
    assert text.count("**CPU fallback**") == 5
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in text.splitlines() if "**CPU fallback**" in line)
    code, page = check(capsys, GAPS, "--html")
    assert code == 0
    tags = _Tags()
    tags.feed(page)
    assert tags.seen.count("section") == 5
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)


def test_two_formats_are_refused_before_the_model_runs(capsys):
    assert run(["check", str(GAPS), "--json", "--sarif"]) == 2
    assert "--json and --sarif both say what to print" in capsys.readouterr().err


def test_exported_calls_run_in_a_sweep_and_are_known_exactly_afterwards(capsys, tmp_path, monkeypatch):
    folder = tmp_path / "cases"
    code, out = check(capsys, GAPS, "--export-cases", folder, "--json")
    assert code == 0
    before = json.loads(out)
    assert "7 calls written as cases" in before["notes"][0]["text"]
    called = next(r for r in before["operators"] if r["overload"] == "aten.digamma.default")
    bank = Bank(folder)
    (exported,) = bank.cases("aten.digamma.default", "float32")
    assert exported.sample == "check/" + called["signatures"][0]
    assert [tensor["shape"] for tensor in bank.sample(exported).tensors()] == called["shapes"]
    monkeypatch.setenv("NEURON_OPS_CACHE", str(folder))
    assert run(["sweep", "--dtypes", "float32", "--jobs", "1", "--json"]) == 0
    capsys.readouterr()
    again = json.loads(check(capsys, GAPS, "--export-cases", tmp_path / "more", "--json")[1])
    assert {r["known"]["closeness"] for r in again["operators"] if r["finding"]} == {"exact case"}
    assert "no call to export" in again["notes"][0]["text"]
    assert not (tmp_path / "more").exists()
    assert run(["check", str(GAPS), "--export-cases", str(folder)]) == 2
    assert "has a sample bank already" in capsys.readouterr().err


def test_exported_calls_hold_no_weights():
    exporter = Exporter(["known0"])
    weight, index = torch.full((2, 3), 7.5).t(), torch.tensor([[2, 1]])
    for signature, args in (("first0", (weight, index)), ("known0", (weight,)), ("sparse", (weight.to_sparse(),))):
        exporter.take("aten.add.Tensor", Measured(("float32",), signature=signature), args, {})
    exporter.take("aten.add.Tensor", Measured(("float32",), signature="large0"), (torch.zeros(1 << 20),), {})
    samples = exporter._samples["float32"]
    assert list(samples) == ["first0"]
    (drawn, kept), _ = samples["first0"][1].unpack()
    assert (drawn.shape, drawn.stride()) == (weight.shape, weight.stride())
    assert not (drawn == 7.5).any()
    assert torch.equal(kept, index)
    assert exporter._left_out == {"sparse", "large0"}


# --- judging ---------------------------------------------------------------------------------------------------------


def test_evidence_is_never_more_than_it_is():
    called = row(shapes=((2, 3),), signatures=("ab" * 6,))
    exact = collect(SIMULATED, [case("C", sample="check/" + "ab" * 6), case("W")])
    known = closest(called, [exact])
    assert (known.closeness, known.status, known.n) == (Closeness.EXACT, Status.FALLBACK, 1)
    near = collect(
        SIMULATED,
        [
            case("N", ranks=(2,)),
            case("C", ranks=(4,)),
            case("W", variant="large:65537", ranks=(2,)),
            case("–", ranks=(2,)),
        ],
    )
    known = closest(called, [near])
    assert (known.closeness, known.status, known.k, known.n) == (Closeness.NEAREST, Status.NATIVE, 1, 1)
    assert "rank 2" in known.detail
    other = collect(SIMULATED, [case("N", dtype="bfloat16")])
    known = closest(called, [other])
    assert (known.closeness, known.status) == (Closeness.OVERLOAD, None)
    assert "cases in bfloat16, none in float32" in known.detail
    assert closest(called, [collect(SIMULATED, [case("N", overload="aten.i1.default")])]).closeness is Closeness.UNKNOWN
    assert closest(called, []).closeness is Closeness.UNKNOWN
    assert closest(called, [other, near, exact]).source is SIMULATED
    assert closest(called, [other, near, exact]).closeness is Closeness.EXACT
    two = row(signatures=("ab" * 6, "cd" * 6))
    assert closest(two, [exact]).closeness is Closeness.NEAREST  # one of its two calls is not known


def test_a_wrong_result_of_a_stored_run_is_a_finding():
    native = row(route="NATIVE", shapes=((2,),))
    wrong = collect(SIMULATED, [case("W", ranks=(1,)), case("N", ranks=(1,))])
    (finding,) = assessed(native, catalogues=[wrong]).findings
    assert finding.kind is Kind.WRONG
    assert assessed(native, catalogues=[wrong]).verdict.endswith(
        "runs natively on the simulated device: the model would run on the device. In stored runs 1 of its operators gave "
        "wrong results."
    )
    assert "wrong results in 1 of 2" in finding.text
    assert [assessed(native, catalogues=[wrong]).found(level) for level in ("unsupported", "wrong", "unknown")] == [
        False, True, True,
    ]  # fmt: skip


def test_what_hardware_did_counts_for_more_than_the_simulation():
    native = row(route="NATIVE", shapes=((2,),))
    for letter, kind in (("C", Kind.FALLBACK), ("X", Kind.UNSUPPORTED), ("T", Kind.UNSUPPORTED)):
        (finding,) = assessed(native, catalogues=[collect(MEASURED, [case(letter, ranks=(1,))])]).findings
        assert finding.kind is kind
    assert not assessed(native, catalogues=[collect(SIMULATED, [case("C", ranks=(1,))])]).findings


def test_an_operator_without_evidence_is_a_finding_where_the_user_says_so():
    found = assessed(row(route="NATIVE"), catalogues=[collect(SIMULATED, [])])
    assert [found.found(level) for level in ("never", "unsupported", "wrong", "fallback", "unknown")] == [
        False, False, False, False, True,
    ]  # fmt: skip
    assert not assessed(row("aten.view.default", route="METADATA"), catalogues=[collect(SIMULATED, [])]).findings


def test_layers_of_the_same_kind_are_one_finding():
    rows = [row(where="m.py:3", module=f"layers.{i}.norm", count=2, bytes_in=10, bytes_out=6) for i in range(12)]
    (finding,) = assessed(*rows).findings
    assert (finding.module, finding.count, finding.bytes_moved) == ("layers.*.norm", 24, 12 * 16)
    (alone,) = assessed(rows[7]).findings
    assert alone.module == "layers.7.norm"
    assert folded("0.block2.10.x1") == "*.block2.*.x1"
    assert folded(None) is None


def test_a_catalogue_survives_its_file():
    made = collect(
        MEASURED, [case("C", ranks=(1, 2)), case("N", variant="large:9"), case("W", sample="check/0123456789ab")]
    )
    data = write_catalogue(made)
    assert read_catalogue(data, "x") == Catalogue(
        MEASURED,
        {key: sorted(forms, key=lambda f: (f.axis, f.ranks or ())) for key, forms in made.forms.items()},
        made.exact,
    )
    assert write_catalogue(made) == data
    for broken in (b"", b"x", data[:40], data[:-40] + b"0" * 40):
        with pytest.raises(BadInput, match="x is no catalogue"):
            read_catalogue(broken, "x")


def test_the_shipped_catalogue_knows_the_core_operators():
    from neuron_ops.cli.stored import shipped_catalogue

    (shipped,) = shipped_catalogue({"aten.add.Tensor"})
    assert shipped.source.evidence is Evidence.SIMULATED
    known = shipped.lookup(row("aten.add.Tensor", ("float32", "float32"), "NATIVE", shapes=((2, 3), (2, 3))))
    assert (known.closeness, known.status) == (Closeness.NEAREST, Status.NATIVE)
    assert {name for name, _ in shipped.forms} == {"aten.add.Tensor"}


def test_a_catalogue_that_is_none_is_answered_in_one_sentence(capsys, tmp_path):
    file = tmp_path / "c.gz"
    assert run(["check", str(GAPS), "--catalogue", str(file)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    file.write_text("text")
    assert run(["check", str(GAPS), "--catalogue", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "is no catalogue" in err


# --- the price -------------------------------------------------------------------------------------------------------


def test_the_price_adds_up_what_fallbacks_move():
    whole = row(count=3, bytes_in=300, bytes_out=90, flops=30)
    composite = Row(
        "aten.erf.default", ("float32",), {CallRoute.FALLBACK: 1}, bytes_in=999,
        parts=(PartOfRow("aten.erf.out", CallRoute.FALLBACK, 1, 40, 20), PartOfRow("aten.x.out", CallRoute.TRANSLATED, 1, 7, 7)),
    )  # fmt: skip
    half = Row("aten.a.default", (), {CallRoute.FALLBACK: 1, CallRoute.NATIVE: 1}, bytes_in=8, bytes_out=4, flops=10)
    native = row("aten.mm.default", route="NATIVE", count=2, flops=60, signatures=("a" * 12, "b" * 12))
    again = row("aten.mm.default", route="NATIVE", where="m.py:2", signatures=("a" * 12,))
    wait = row(SYNC, route="NATIVE", count=4, signatures=("c" * 12,))
    view = row("aten.view.default", route="METADATA", count=50)
    waits = [Wait(WaitKind.VALUE, SYNC, "m.py:1", 3, True), Wait(WaitKind.COPY, "aten.copy_.default", None, 1, False)]
    told = price([whole, composite, half, native, again, wait, view], waits)
    assert (told.calls, told.host_calls, told.flops, told.host_flops) == (13, 5, 100, 35)
    assert (told.trips, told.bytes_to_host, told.bytes_to_device, told.syncs) == (5, 344, 112, 4)
    assert (told.compilations, told.compile_seconds) == (2, (2.8, 10.2))
    assert told.seconds == pytest.approx(5 * (60e-6 + 2 * 100e-6) + 456 / 16e9 + 4 * 100e-6)
    assert traffic(native).seconds == 0
    assert told.to_json()["constants"]["transfer_bytes_per_second"] == 16e9


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (20 << 20, "20 MiB"), (3 << 50, "3072 TiB")]
)
def test_bytes_in_words(number, text):
    assert bytes_text(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(9e-5, "90 µs"), (1.54e-3, "1.5 ms"), (0.25, "250 ms"), (2.81, "2.8 s"), (62, "62 s"), (244, "4 min")],
)
def test_seconds_in_words(number, text):
    assert seconds_text(number) == text


def test_the_price_in_words():
    assert price_lines(price([])) == []
    waits = [Wait(WaitKind.VALUE, SYNC, "m.py:1", 1, True)]
    (line,) = price_lines(price([row(SYNC, route="NATIVE")], waits))
    assert line.startswith("host: 1 wait; about 100 µs without")
    (line,) = price_lines(price([row(count=2, bytes_in=2048, bytes_out=1024, flops=3)]))
    assert line.startswith(
        "host: 2 of 2 (100.0 %) calls, 3 of 3 (100.0 %) FLOPs; 2 round trips move 2.0 KiB to the host and 1.0 KiB back; about"
    )
    assert place_text("/v/lib/python3.11/site-packages/timm/a.py:3") == "timm/a.py:3"
    assert place_text("src/a.py:3") == "src/a.py:3"


# --- advice ----------------------------------------------------------------------------------------------------------


def test_a_translator_is_advised_with_its_price():
    small, large = (row(count=1, bytes_in=n, bytes_out=n) for n in (64, 1 << 30))
    (advice,) = advise(small, (), train=False)
    assert advice.kind == "translator"
    assert "neuron_ops.translators.install() translates aten.i0.default, estimated slower" in advice.text
    (advice,) = advise(large, (), train=False)
    assert "a call in place of" in advice.text
    (advice,) = advise(row(dtypes=("quint8",)), (), train=False)
    assert "not in quint8" in advice.text
    assert not advise(row(route="NATIVE"), (), train=False)


def test_the_dtype_that_passes_is_advised_from_stored_results():
    stored = collect(MEASURED, [case("N", dtype="bfloat16"), case("N", dtype="float16"), case("C", dtype="float16")])
    advice = [a for a in advise(row(), [stored], train=False) if a.kind == "dtype"]
    assert [(a.text, a.evidence) for a in advice] == [
        ("aten.i0.default runs natively in bfloat16", "every plain case of run h on neuron, measured")
    ]


def test_rules_fit_only_their_calls():
    rule = Rule(("aten.topk.*",), "dtype", "a", "e", dtypes=("int64",), mode="eval")
    assert rule.fits(row("aten.topk.default", ("int64",)), train=False)
    assert not rule.fits(row("aten.topk.default", ("int64",)), train=True)
    assert not rule.fits(row("aten.topk.default"), train=False)
    assert not rule.fits(row("aten.topk.default", ("int64",), "NATIVE"), train=False)
    assert not rule.fits(row("aten.sort.default", ("int64",)), train=False)


def test_every_rule_with_an_example_helps(capsys, tmp_path):
    rules = [rule for rule in shipped_rules() if rule.before is not None]
    assert len(rules) >= 8
    file = tmp_path / "examples.py"
    lines = ["import torch", "from torch import nn", "class Net(nn.Module):", "    def forward(self, x, i, m):"]
    lines += [f"        {rule.before}\n        {rule.after}" for rule in rules]
    lines += [
        "        return x",
        "example_inputs = (torch.rand(4, 8), torch.ones(4, 8, dtype=torch.int64), torch.rand(4, 8) > 0.5)",
    ]
    file.write_text("\n".join(lines) + "\n")
    _, out = check(capsys, file, "--json")
    report = json.loads(out)
    assert report["failure"] is None
    texts = {}
    for operator in report["operators"]:
        for advice in operator["advice"]:
            texts.setdefault(operator["where"]["line"], set()).add(advice["text"])
    for number, rule in enumerate(rules):
        before, after = texts.get(5 + 2 * number, set()), texts.get(6 + 2 * number, set())
        assert rule.advice in before, rule.before
        assert rule.advice not in after, rule.after


# --- places ----------------------------------------------------------------------------------------------------------


def test_a_line_of_a_package_is_shown_on_the_checked_file(tmp_path):
    file = tmp_path / "model.py"
    found = assessed(
        row(where="/usr/lib/python3/site-packages/timm/layer.py:9"), row("aten.i1.default"), file=str(file)
    )
    log = to_sarif(found, tmp_path)
    jsonschema.validate(log, SARIF)
    places = [r["locations"][0]["physicalLocation"] for r in log["runs"][0]["results"]]
    assert {(p["artifactLocation"]["uri"], p["region"]["startLine"]) for p in places} == {("model.py", 1)}
    assert (
        "timm/layer.py:9"
        in log["runs"][0]["results"][0]["message"]["text"] + log["runs"][0]["results"][1]["message"]["text"]
    )


def test_a_failure_of_the_device_without_an_operator_is_a_result(tmp_path):
    failure = Failure("crash", "forward", "it died", where=str(tmp_path / "a b.py") + ":7", device_only=True)
    log = to_sarif(assessed(failure=failure, file=str(tmp_path / "a b.py")), tmp_path)
    jsonschema.validate(log, SARIF)
    (result,) = log["runs"][0]["results"]
    assert (result["level"], result["message"]["text"]) == ("error", "it died")
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("a%20b.py", 7)


def test_the_repository_of_a_file(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    file = tmp_path / "repo" / "src" / "m.py"
    assert repository(file) == tmp_path / "repo"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert repository(file) == tmp_path


def test_names_cannot_break_a_document():
    nasty = row("aten.<b>|`x`.default", where="a|b<i>.py:1", module="a|<script>")
    found = assessed(nasty)
    page, text = to_html(found), to_markdown(found)
    assert "<script>" not in page
    assert "<i>" not in page
    (line,) = (line for line in text.splitlines() if "CPU fallback" in line)
    assert "<b>" not in line
    assert len(re.findall(r"(?<!\\)\|", line)) == 4
    assert list(by_place(found.findings)) == ["a|b<i>.py:1"]
