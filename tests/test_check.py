"""`check` tells how a model would be served, in which line, and whose fault a failure is."""

import json
import types
from pathlib import Path

import pytest
import torch
from neuron_ops.cli.main import run
from neuron_ops.op_tests.capture.assessment import assess
from neuron_ops.op_tests.capture.finding import find_model
from neuron_ops.op_tests.capture.importing import import_folder
from neuron_ops.op_tests.capture.inputs import Inputs, converted, describe, given_inputs, missing_inputs
from neuron_ops.op_tests.capture.places import Places
from neuron_ops.op_tests.capture.report import Report
from neuron_ops.op_tests.capture.rows import CallRoute, Failure, Request, Row, sorted_rows
from neuron_ops.op_tests.records import BadInput

MODELS = Path(__file__).parent / "models"


def check(capsys, file, *options):
    """Run the command; returns exit code, standard output and standard error."""
    code = run(["check", str(file), *options])
    out, err = capsys.readouterr()
    return code, out, err


def check_json(capsys, file, *options):
    code, out, err = check(capsys, file, "--json", *options)
    report = json.loads(out)
    return code, report, by_operator(report), err


def by_operator(report):
    """Return overload → its worst row, with the `calls` and `places` of all its rows."""
    found = {}
    for row in report["operators"]:
        all_rows = found.setdefault(row["overload"], {**row, "calls": 0, "places": []})
        all_rows["calls"] += row["count"]
        all_rows["places"].append(row["where"])
    return found


def write(folder, source, name="user_model.py"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("import torch\nfrom torch import nn\n" + source)
    return file


def line_of(file, text):
    return (
        f"{file}:{file.read_text().splitlines().index(next(x for x in file.read_text().splitlines() if text in x)) + 1}"
    )


def same_place(where, file, text):
    if isinstance(where, str):
        where = dict(zip(("file", "_", "line"), where.rpartition(":"), strict=True))
    return f"{Path(where['file']).absolute()}:{where['line']}" == line_of(file, text)


# --- real models -----------------------------------------------------------------------------------------------------


def test_a_cnn_in_eval_mode(capsys):
    code, report, rows, _ = check_json(capsys, MODELS / "cnn.py")
    assert code == 0
    assert report["schema"] == 2
    assert report["complete_for_this_input"] is True
    convolution, norm = rows["aten.convolution.default"], rows["aten.native_batch_norm.default"]
    assert (convolution["status"], convolution["dtypes"], convolution["calls"]) == ("N", ["float32"] * 2, 5)
    assert any(same_place(where, MODELS / "cnn.py", "self.pool(self.stem(x))") for where in convolution["places"])
    assert sorted(where["module"] for where in convolution["places"]) == [
        "blocks.0.conv1", "blocks.0.conv2", "blocks.1.conv1", "blocks.1.conv2", "stem",
    ]  # fmt: skip
    assert (norm["status"], norm["reason"], norm["calls"]) == ("C", "unimplemented", 4)
    assert any(same_place(where, MODELS / "cnn.py", "y = torch.relu(self.norm1") for where in norm["places"])
    assert not {"aten.copy_.default", "aten.empty_strided.default"} & set(rows)  # moving the model is ours
    assert "printed while importing" in report["printed"]
    assert report["inputs"] == "float32[2, 3, 32, 32]"
    assert report["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert [row["route"] for row in report["operators"]] == sorted(
        (row["route"] for row in report["operators"]), key=[str(r) for r in CallRoute].index
    )


def test_fallbacks_are_findings_where_the_user_says_so(capsys):
    code, out, err = check(capsys, MODELS / "cnn.py", "--fail-on", "fallback")
    assert code == 1
    assert "6 of 8 operators run natively on the simulated device, 2 fall back to the host CPU" in out
    assert "  C  aten.native_batch_norm.default in float32 falls back to the host CPU (unimplemented); 2 calls" in out
    assert out.index("native_batch_norm") < out.index("aten.convolution.default")
    assert "complete for this input" in out
    assert "nothing of device numerics, speed or memory" in out
    assert "printed while importing" in err
    assert "printed while importing" not in out


def test_an_lstm_is_unsupported_and_the_list_goes_on(capsys):
    code, report, rows, _ = check_json(capsys, MODELS / "lstm_tagger.py")
    assert code == 1
    cell = rows["aten._thnn_fused_lstm_cell.default"]
    assert (cell["status"], cell["route"], cell["calls"]) == ("U", "unsupported", 4)
    assert same_place(cell["where"], MODELS / "lstm_tagger.py", "self.lstm(self.embedding(ids))")
    assert (rows["aten.linear.default"]["status"], rows["aten.linear.default"]["calls"]) == ("N", 1)
    assert report["counts"]["operators"]["unsupported"] == 1
    assert report["counts"]["calls"]["unsupported"] == 4
    assert report["counts"]["calls"]["total"] == sum(
        row["count"] for row in report["operators"] if row["route"] != "metadata only"
    )
    assert report["counts"]["metadata_only"]["calls"] > 0
    assert report["verdict"].endswith("1 is unsupported: the model would not run as it is.")
    assert report["inputs"] == "ids=int64[2, 4]"


def test_fail_on_never(capsys):
    assert check(capsys, MODELS / "lstm_tagger.py", "--fail-on", "never")[0] == 0


def test_a_gpt_takes_the_attention_of_the_device(capsys):
    code, out, _ = check(capsys, MODELS / "gpt.py", "--all")
    assert code == 0
    lines = {line.split()[1]: line for line in out.splitlines() if line.startswith(("N  ", "C  ", "U  "))}
    attention = lines["aten._scaled_dot_product_fused_attention_overrideable.default"]
    assert " native " in attention
    assert "gpt.py:21" in attention
    assert "metadata only" in lines["aten.transpose.int"]
    assert "eval mode, no gradients" in out


def test_training_in_bfloat16_lists_backward_and_optimizer(capsys):
    _, report, rows, _ = check_json(capsys, MODELS / "gpt.py", "--train", "--dtype", "bfloat16")
    assert report["complete_for_this_input"] is True
    assert report["mode"] == {
        "train": True, "eval": False, "as_is": False, "gradients": True, "dtype": "bfloat16", "autocast": None, "fake_tensors": False,
    }  # fmt: skip
    backward = rows["aten._scaled_dot_product_fused_attention_overrideable_backward.default"]
    assert (backward["dtypes"][0], backward["phase"]) == ("bfloat16", "backward")
    assert {row["phase"] for row in report["operators"]} == {"forward", "backward", "optimizer step"}
    assert any(name.startswith("aten._foreach_") for name in rows)
    assert "aten.ones_like.default" not in rows  # ours: where backward starts from


# --- failures and whose they are -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("raises.py", ("LookupError: planted at import", "raises.py:1", 'File "')),
        ("exits.py", ("sys.exit(0)", "exits.py:3")),
        ("leaves.py", ("exit status 0", "the import of the file")),
    ],
)
def test_code_that_ends_at_import_is_no_success(capsys, file, words):
    code, report, rows, err = check_json(capsys, MODELS / file)
    assert code == 3
    assert report["complete_for_this_input"] is False
    assert report["failure"]["phase"] == "import"
    assert not rows
    for word in words:
        assert word in err
    assert "capture" not in err  # no frame of ours
    assert "importlib" not in err


def test_an_endless_loop_leaves_what_was_recorded(capsys):
    code, report, rows, err = check_json(capsys, MODELS / "endless.py", "--timeout", "1")
    assert code == 3
    assert rows["aten.sin.default"]["calls"] == 1
    assert report["failure"]["kind"] == "timeout"
    file, _, line = report["failure"]["where"].rpartition(":")
    assert Path(file).absolute() == MODELS / "endless.py"
    assert "while True" in "".join((MODELS / "endless.py").read_text().splitlines()[int(line) - 2 : int(line)])
    assert "stopped after 1 s (--timeout) in the forward pass" in err
    assert "did not reach its end" in report["verdict"]


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        ("import ctypes; ctypes.string_at(0)", "crash", "SIGSEGV"),
        ("self.hog = bytearray(1 << 30)\n        while True: pass", "memory", "768 MiB of --memory"),
        ("raise ValueError('mine')", "raised", "ValueError: mine"),
    ],
)
def test_a_fault_of_the_code_keeps_what_was_recorded(capsys, tmp_path, act, kind, words):
    source = f"class Net(nn.Module):\n    def forward(self, x):\n        y = x.cos()\n        {act}\nexample_inputs = torch.ones(2)\n"
    file = write(tmp_path, source)
    code, report, rows, err = check_json(capsys, file, "--memory", "768MiB")
    assert code == 3
    assert report["failure"]["kind"] == kind
    assert report["failure"]["device_only"] is False
    assert rows["aten.cos.default"]["calls"] == 1
    assert words in err


def test_a_failure_of_the_device_alone_is_a_finding(capsys, tmp_path):
    file = write(
        tmp_path,
        "class Net(nn.Module):\n    def forward(self, x):\n        return x.sin() + torch.ones(3)  # built on the CPU\n"
        "example_inputs = torch.ones(3)\n",
    )
    code, report, rows, _ = check_json(capsys, file)
    assert code == 1
    assert report["failure"]["device_only"] is True
    assert report["failure"]["operator"] == "aten.add.Tensor"
    assert same_place(report["failure"]["where"], file, "built on the CPU")
    assert rows["aten.add.Tensor"]["status"] == "E"
    assert "same device" in rows["aten.add.Tensor"]["message"]
    code, out, err = check(capsys, file, "--fail-on", "never")
    assert (code, err) == (0, "")
    assert "fails on the simulated device in aten.add.Tensor at " in out
    assert "and works on the CPU" in out


def test_an_operator_that_no_kernel_of_the_device_sees_is_named(capsys, tmp_path):
    file = write(
        tmp_path,
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('a', torch.eye(3).to_sparse())\n"
        "    def forward(self, x):\n        return torch.sparse.mm(self.a, x)\nexample_inputs = torch.ones(3, 2)\n",
    )
    code, report, rows, _ = check_json(capsys, file)
    assert code == 1
    assert (report["failure"]["phase"], report["failure"]["device_only"]) == ("move", True)
    assert list(rows) == [report["failure"]["operator"]]
    assert "sparse" in report["failure"]["operator"]


def test_gradients_inside_forward_and_mutated_inputs(capsys, tmp_path):
    file = write(
        tmp_path,
        "class Net(nn.Module):\n    def forward(self, x):\n        x = x.detach().requires_grad_(True)\n"
        "        return torch.autograd.grad(x.sigmoid().sum(), x)[0]  # here\nexample_inputs = torch.ones(3)\n",
    )
    code, report, rows, _ = check_json(capsys, file)
    assert code == 0
    assert report["mode"]["gradients"] is True
    assert rows["aten.sigmoid_backward.default"]["calls"] == 1
    assert same_place(rows["aten.sigmoid_backward.default"]["where"], file, "# here")


def test_a_package_a_neighbour_and_arguments(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    parts = write(
        tmp_path, "class Part(nn.Module):\n    def forward(self, x):\n        return x.tan()\n", "pkg/parts.py"
    )
    file = write(
        tmp_path,
        "import sys\nfrom .parts import Part\nassert len(sys.argv) == 1\nassert not sys.stdin.read()\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Part()\n"
        "    def forward(self, x, *, scale):\n        return self.part(x) * scale if x.sum() > 0 else x\n"
        "example_inputs = {'x': torch.ones(2), 'scale': 2.0}\n",
        "pkg/model.py",
    )
    code, report, rows, _ = check_json(capsys, f"{file}:Net")
    assert code == 0
    assert same_place(rows["aten.tan.default"]["where"], parts, "x.tan()")
    assert report["counts"]["syncs"] == 1
    assert report["inputs"] == "x=float32[2], scale=2.0"
    assert not list(tmp_path.rglob("__pycache__"))


# --- wrong usage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (MODELS / "none.py", ("there is no file", "check the path")),
        (f"{MODELS / 'none.py'}:Net", ("there is no file",)),
        (MODELS, ("is no file", "FILE.py:NAME")),
        (Path(__file__).parent.parent / "pyproject.toml", ("not Python",)),
        (f"{MODELS / 'gpt.py'}:a-b", ("'a-b' is no name",)),
    ],
)
def test_a_wrong_argument_is_answered_in_one_sentence(capsys, argument, words):
    code, out, err = check(capsys, argument)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_several_models_are_listed(capsys):
    code, out, err = check(capsys, MODELS / "several.py")
    assert (code, out) == (2, "")
    assert "(encoder, decoder, whole)" in err
    assert "several.py:encoder" in err


def module(source, name="user"):
    made = types.ModuleType(name)
    made.__file__ = f"/there/{name}.py"
    exec("import torch\nfrom torch import nn\n" + source, made.__dict__)
    return made


NET = "class Net(nn.Module):\n    def forward(self, ids, mask=None):\n        return ids\n"


@pytest.mark.parametrize(
    ("source", "attribute", "name"),
    [
        (NET, None, "Net"),
        (NET + "net = Net()", None, "net"),
        (NET + "net = Net()\nalias = net\nloss = nn.CrossEntropyLoss()", None, "net"),
        (NET + "part = Net()\nwhole = nn.Sequential(part)", None, "whole"),
        (NET + "def build_model(): return Net()", None, "build_model"),
        (NET + "def get_model(width=3): return Net()", None, "get_model"),
        (NET + "class Block(nn.Module):\n    def __init__(self, width): ...", None, "Net"),
        (NET + "class Other(nn.Module): pass", "Other", "Other"),
        (NET + "class Space:\n    net = Net()", "Space.net", "Space.net"),
    ],
)
def test_the_one_model_of_a_file(source, attribute, name):
    found = find_model(module(source), attribute)
    assert found.name == name
    assert isinstance(found.build(), torch.nn.Module)


@pytest.mark.parametrize(
    ("source", "attribute", "words"),
    [
        ("", None, "has no model"),
        ("def build(width): ...", None, "it has functions build"),
        ("class Net(nn.Module):\n    def __init__(self, width): ...", None, "it has classes Net"),
        (NET + "class Other(nn.Module): pass", None, "several models (Net, Other)"),
        (NET, "Nett", "has no 'Nett'; expected a model or what builds one; name one of: Net"),
        (
            "class Net(nn.Module):\n    def __init__(self, width): ...",
            "Net",
            "Net in /there/user.py takes arguments (width)",
        ),
        ("x = 3", "x", "is a int"),
    ],
)
def test_no_model_is_answered_in_one_sentence(source, attribute, words):
    with pytest.raises(BadInput) as error:
        find_model(module(source), attribute)
    assert words in str(error.value)
    assert str(error.value).count(";") == 2


@pytest.mark.parametrize(
    ("line", "args", "kwargs"),
    [
        ("example_inputs = torch.ones(2)", ["float32[2]"], {}),
        ("example_inputs = (torch.ones(2), None)", ["float32[2]", "None"], {}),
        ("example_inputs = {'ids': torch.ones(2).int()}", [], {"ids": "int32[2]"}),
        ("def example_inputs(): return torch.ones(3)", ["float32[3]"], {}),
        ("def get_inputs(): return [torch.ones(4)]", ["float32[4]"], {}),
    ],
)
def test_the_inputs_of_a_file(line, args, kwargs):
    found = given_inputs(module(NET + line))
    assert [describe(value) for value in found.args] == args
    assert {name: describe(value) for name, value in found.kwargs.items()} == kwargs


def test_missing_inputs_name_the_parameters():
    made = module(NET)
    with pytest.raises(BadInput, match=r"write for example `example_inputs = \(<ids>,\)`"):
        raise missing_inputs("net.py", made.Net())
    keywords = module("class Net(nn.Module):\n    def forward(self, *, batch, mask=None): ...")
    with pytest.raises(BadInput, match=r'`example_inputs = {"batch": ...}`'):
        raise missing_inputs("net.py", keywords.Net())
    with pytest.raises(BadInput, match="is a int; expected a tensor"):
        given_inputs(module("example_inputs = 3"))


def test_a_factory_that_returns_no_module(capsys, tmp_path):
    file = write(tmp_path, "def build_model():\n    return 3\nexample_inputs = torch.ones(1)\n")
    code, _, err = check(capsys, file)
    assert code == 2
    assert "build_model" in err
    assert "returns a int" in err


# --- parts -----------------------------------------------------------------------------------------------------------


def test_tensors_keep_their_identity_and_their_containers():
    x = torch.ones(2)
    pack = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 1), torch.tensor([2, 3]), enforce_sorted=False)
    args = ({"a": x, "b": [x, (x, 3)]}, x, pack, "text", torch.Size([2]))
    out = converted(args, lambda tensor: tensor + 1)
    assert out[0]["a"] is out[0]["b"][0] is out[0]["b"][1][0] is out[1]
    assert out[1] is not x
    assert out[0]["b"][1][1] == 3
    assert (out[2].data == 2).all()
    assert out[2].batch_sizes is pack.batch_sizes
    assert out[3:] == ("text", torch.Size([2]))
    assert describe(Inputs((x,), {"y": [x]})) == "float32[2], y=(float32[2])"


def test_the_import_root_of_a_file(tmp_path):
    write(tmp_path, "", "alone.py")
    assert import_folder(tmp_path / "alone.py") == (tmp_path, "alone")
    for folder in ("a", "a/b"):
        write(tmp_path, "", f"{folder}/__init__.py")
    assert import_folder(tmp_path / "a" / "b" / "c.py") == (tmp_path, "a.b.c")


def test_the_users_files_come_before_packages(tmp_path):
    places = Places(tmp_path)
    assert places.rank(str(tmp_path / "model.py")) == 0
    assert places.rank(str(tmp_path / ".venv/lib/python3.11/site-packages/timm/model.py")) == 1
    assert places.rank("/elsewhere/model.py") == 1
    assert places.rank(torch.nn.functional.__file__) == 2
    assert places.rank(json.__file__) == 2
    assert places.rank(Places.__init__.__code__.co_filename) == 2


def report(*rows, failure=None):
    return Report(Request("/model.py"), "Net", "float32[2]", {"torch": "2.13.0"}, sorted_rows(rows), failure)


def row(overload, dtype="float32", **calls):
    return Row(overload, (dtype,), {CallRoute[name]: n for name, n in calls.items()})


def test_an_operator_counts_once_at_its_worst_dtype():
    found = report(
        row("aten.mul.Tensor", NATIVE=5), row("aten.mul.Tensor", "complex64", FALLBACK=2), row("aten.t.default", METADATA=9),
        row("aten.addmm.default", COMPOSITE=1, NATIVE=2),
    )  # fmt: skip
    assert dict(found.counts) == {CallRoute.FALLBACK: 1, CallRoute.COMPOSITE: 1}
    assert found.calls.total() == 10
    assert found.calls[CallRoute.NATIVE] == 7
    assert found.verdict == (
        "1 of 2 operators runs natively on the simulated device, 1 falls back to the host CPU: the model would run, with "
        "work on the host CPU."
    )
    assert (found.rows[0].overload, found.rows[0].dtype) == ("aten.mul.Tensor", "complex64")
    assert [assess(found, ()).found(level) for level in ("never", "unsupported", "fallback")] == [False, False, True]


def test_a_row_survives_the_pipe():
    sent = row("aten.add.Tensor", NATIVE=2, ERROR=1)
    assert Row.from_json(json.loads(json.dumps(sent.to_json()))) == sent
    assert sent.route is CallRoute.ERROR


def test_verdicts():
    native = row("aten.add.Tensor", NATIVE=1)
    assert (
        report(native).verdict
        == "1 of 1 operator runs natively on the simulated device: the model would run on the device."
    )
    stopped = Failure("timeout", "forward", "stopped")
    assert report(native, failure=stopped).verdict.endswith("so other operators may follow.")
    device = Failure("raised", "forward", "refused", device_only=True)
    assert report(native, failure=device).verdict.endswith("the model would not run as it is.")
    assert assess(report(native, failure=device), ()).found("unsupported")
    assert report().verdict.endswith("nothing was called on the device.")
