"""What `check` finds: the target on the command line, the model, its inputs, the lines that data steers."""

import json
import linecache
import socket
import subprocess
import sys
import types

import pytest
import torch
from neuron_ops.cli.main import run
from neuron_ops.cli.target import requested
from neuron_ops.op_tests.capture.branches import may_steer
from neuron_ops.op_tests.capture.causes import explanation
from neuron_ops.op_tests.capture.entries import FunctionEntry
from neuron_ops.op_tests.capture.finding import find_model
from neuron_ops.op_tests.capture.guesses import guessed_inputs
from neuron_ops.op_tests.capture.hub import configured
from neuron_ops.op_tests.capture.inputs import Inputs, accepted, converted, describe, described_inputs
from neuron_ops.op_tests.capture.offline import NetworkRefused, wanted_network
from neuron_ops.op_tests.capture.programs import stored
from neuron_ops.op_tests.records import BadInput
from torch import nn

PLAIN = {"function": None, "train": False, "evaluate": False, "inputs": ()}


def module(source):
    made = types.ModuleType("user")
    made.__file__ = "/there/user.py"
    exec("import torch\nfrom torch import nn\n" + source, made.__dict__)
    return made


# --- the target ------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a package, a configuration and stored files, which is also the working directory."""
    for name in (
        "pkg/__init__.py",
        "pkg/model.py",
        "net/config.json",
        "pipe/unet/config.json",
        "w.safetensors",
        "p.pt2",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "file", "attribute"),
    [
        ("pkg/model.py", "pkg/model.py", None),
        ("pkg/model.py:Net.part", "pkg/model.py", "Net.part"),
        ("pkg.model:Net", "pkg/model.py", "Net"),
        ("pkg:build_model", "pkg/__init__.py", "build_model"),
        ("pkg", "pkg/__init__.py", None),
        ("net", "net", None),
        ("net/config.json", "net/config.json", None),
        ("p.pt2", "p.pt2", None),
    ],
)
def test_a_target_is_a_file_a_folder_or_a_module(project, text, file, attribute):
    request = requested(text, **PLAIN)
    assert (request.file, request.attribute) == (str(project / file), attribute)
    assert "pkg" not in sys.modules  # its code is the user's: only the child may run it


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none.model:Net", "there is no file 'none.model'"),
        ("pipe", "it has unet: name one, such as pipe/unet"),
        ("w.safetensors", "weights without a model"),
        ("pkg/model.py:a b", "'a b' is no name"),
    ],
)
def test_a_wrong_target_is_answered_in_one_sentence(project, text, words):
    del project
    with pytest.raises(BadInput) as error:
        requested(text, **PLAIN)
    assert words in str(error.value)


def test_a_function_is_named_once(project):
    del project
    assert requested("pkg/model.py", **{**PLAIN, "function": "step"}).call is True
    with pytest.raises(BadInput, match="both name something"):
        requested("pkg/model.py:Net", **{**PLAIN, "function": "step"})


# --- inputs ----------------------------------------------------------------------------------------------------------


def test_inputs_from_the_command_line():
    specs = [
        "float32[2,3]",
        "ids:int64[1,16]>=5<9",
        "mask:bool[4]",
        "scale:float32[]",
        "use_cache:False",
        "z:complex64[2]",
    ]
    found = described_inputs(specs)
    assert describe(found) == (
        "float32[2, 3], ids=int64[1, 16], mask=bool[4], scale=float32[], use_cache=False, z=complex64[2]"
    )
    assert (found.kwargs["ids"].min() >= 5, found.kwargs["ids"].max() < 9) == (True, True)
    assert describe(described_inputs(["int64[9]"]).args[0]) == "int64[9]"
    assert described_inputs(["int64[99]"]).args[0].max() == 1  # every embedding has two rows
    assert torch.equal(found.args[0], described_inputs(specs).args[0])  # the same report on each run


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("x:float33[1]", "'float33'"),
        ("x:Tensor[1]", "'Tensor'"),
        ("x:float32[1", "is no input"),
        ("x:int64[1]>=4<4", "is empty"),
    ],
)
def test_a_wrong_input_is_answered_in_one_sentence(spec, words):
    with pytest.raises(BadInput, match="; expected ") as error:
        described_inputs([spec])
    assert words in str(error.value)


def test_inputs_that_forward_does_not_take():
    with pytest.raises(BadInput, match=r"Linear.forward cannot be called with y=float32\[2\].*missing.*change --input"):
        accepted(nn.Linear(2, 2), Inputs((), {"y": torch.ones(2)}), "--input")


def test_tensors_inside_other_objects_are_moved():
    class Cache:
        def __init__(self):
            self.layers = [types.SimpleNamespace(keys=torch.ones(2), owner=self)]
            self.name = "cache"

    cache = Cache()
    moved = converted({"past": cache, "kind": types.SimpleNamespace(a=1)}, lambda tensor: tensor + 1)
    assert moved["past"].layers[0].keys.tolist() == [2, 2]
    assert moved["past"].layers[0].owner is moved["past"]
    assert (cache.layers[0].keys.tolist(), cache.layers[0].owner is cache) == ([1, 1], True)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, ids):
        return self.head(self.table(ids))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x):
        _, steps, _ = x.shape
        return self.cell(x) / steps


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1)), "float32[1, 3, 224, 224] (assumed from the first layer, Conv2d)"),
        (nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten(), nn.Linear(676, 2)), "float32[1, 1, 28, 28] (assumed from the first layer, Conv2d)"),
        (Words(), "int64[1, 7] (assumed from the first layer, Embedding)"),
        (Rows(), "float32[2, 8, 3] (assumed from the first layer, Linear)"),
        (nn.Linear(3, 2).double(), "float64[2, 3] (assumed from the first layer, Linear)"),
        (nn.Sequential(nn.LayerNorm(5)), "float32[2, 5] (assumed from the first layer, LayerNorm)"),
        (nn.Sequential(nn.BatchNorm1d(5)).train(), "float32[2, 5] (assumed from the first layer, BatchNorm1d)"),
    ],
)  # fmt: skip
def test_guessed_inputs_say_so(model, inputs):
    before, training = torch.get_rng_state(), model.training
    assert describe(guessed_inputs("net.py", model)) == inputs
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training is training


def test_what_cannot_be_guessed_names_the_parameters():
    with pytest.raises(BadInput, match=r"example_inputs = \(<query>, <key>, <value>\)"):
        guessed_inputs("net.py", nn.MultiheadAttention(4, 2))
    with pytest.raises(BadInput, match="guessed from the first layer, Embedding, but forward raised IndexError"):
        guessed_inputs("net.py", nn.Sequential(nn.Embedding(2, 2), nn.Unflatten(3, (1, 2))))
    with pytest.raises(BadInput, match=r"example_inputs = \(<input>,\)"):
        guessed_inputs("net.py", nn.Sequential(nn.ReLU()))


# --- functions -------------------------------------------------------------------------------------------------------

STEP = (
    "net = nn.Linear(2, 2)\nother = nn.Linear(2, 2)\ndef inner(x): return net(x)\ndef step(x): return inner(x)\n"
    "def no_inputs(): return step(1)\n"
)


def test_a_function_moves_the_models_that_it_reaches():
    made = module(STEP)
    found = find_model(made, "step", call=True).build()
    assert isinstance(found, FunctionEntry)
    assert list(found.reached) == [made.net]
    method = find_model(module("net = nn.Linear(2, 2)"), "net.forward").build()
    assert [type(part) for part in method.reached] == [nn.Linear]


def test_a_function_with_arguments_is_the_model_where_the_file_gives_inputs():
    source = "def step(x): return x\n"
    with pytest.raises(BadInput, match="has no model"):
        find_model(module(source), None)
    assert find_model(module(source + "example_inputs = torch.ones(1)"), None).name == "step"
    assert find_model(module(source + "def get_inputs(): return torch.ones(1)"), "step").name == "step"


# --- stored models and configurations --------------------------------------------------------------------------------


def test_weights_are_no_model(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    (tmp_path / "x.bin").write_bytes(b"abc")
    with pytest.raises(BadInput, match="holds weights and no model"):
        stored(tmp_path / "w.pt", "cpu", unsafe=False)
    with pytest.raises(BadInput, match="is neither"):
        stored(tmp_path / "x.bin", "cpu", unsafe=False)


def test_a_configuration_of_hugging_face(tmp_path, capsys):
    transformers = pytest.importorskip("transformers", reason="the test extra brings it")
    small = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=99,
        architectures=["BertForMaskedLM"],
    )  # fmt: skip
    small.save_pretrained(tmp_path)
    found = configured(tmp_path)
    assert found.name == "BertForMaskedLM"
    assert run(["check", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"] == "BertForMaskedLM (BertForMaskedLM)"
    assert report["inputs"].startswith("input_ids=int64[3, 5] (assumed from")
    assert "aten.embedding.default" in {row["overload"] for row in report["operators"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "holds a list"),
        ('{"hidden": 3}', "names no model"),
        ('{"model_type": "mine"}', "does not know"),
    ],
)
def test_a_wrong_configuration_is_answered_in_one_sentence(tmp_path, text, words):
    if "model_type" in text:
        pytest.importorskip("transformers", reason="the test extra brings it")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadInput) as error:
        configured(tmp_path)
    assert words in str(error.value)


# --- what data steers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "steers"),
    [
        ("if x.sum() > 0:  # here\n        return x", True),
        ("n = int(x.max().item())  # here\n    return x[:, :n]", False),
        ("n = int(x.max())  # here\n    return self.layer(x[:n])", False),
        ("n = x.max().item()  # here\n    return x.view(n, -1)", False),
        ("n = x.max().item()  # here\n    return self.helper(x, n)", True),
        ("n = x.max().item()  # here\n    for _ in range(n):\n        x = x + 1", True),
        ("n = x.max().item()  # here\n    m = n * 2\n    if m > 3:\n        x = x + 1", True),
        ("n = x.max().item()  # here\n    return n", True),
        ("n = x.max().item()  # here\n    self.n = n", True),
        ("e = x.argmax().item()  # here\n    return self.experts[e](x)", True),
        ("k = x.tolist()  # here\n    return torch.stack([self.w[j] for j in k])", False),
        ("return self.layer(x, 3 if x.any() else 4)  # here", True),
        ("print('mean', x.mean().item())  # here", False),
        ("assert x.isfinite().all()  # here", True),
        ("while bool((x > 1).any()):  # here\n        x = x / 2", True),
        ("y = x.cpu()  # here\n    return torch.stack([y, y])", False),
        ("ok = torch.equal(x, x)  # here\n    return x if ok else -x", True),
    ],
)
def test_whether_a_value_steers_is_read_from_the_source(body, steers):
    assert may_steer(*written(body)) is steers


@pytest.mark.parametrize(
    ("body", "steers"),
    [
        ("y = x[x > 0]  # here\n    return self.layer(y)", False),
        ("i = (x > 0).nonzero()  # here\n    return x[i]", False),
        ("i = (x > 0).nonzero()  # here\n    for k in i:\n        x = x + k", True),
        ("i = (x > 0).nonzero()  # here\n    if i.numel() == 0:\n        return x", True),
        ("i = (x > 0).nonzero()  # here\n    if i is None:\n        return x", False),
        ("for i in x.nonzero():  # here\n        x = x + i", True),
    ],
)
def test_whether_a_size_steers_is_read_from_the_source(body, steers):
    file, line = written(body)
    assert may_steer(file, line, sized=True) is steers


def written(body):
    """Return the name of a file that holds the body in a function, and the line marked `# here`."""
    text = f"def forward(self, x):\n    {body}\n"
    name = f"<steering {hash(body)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name, next(n for n, line in enumerate(text.splitlines(), 1) if "# here" in line)


def test_what_cannot_be_read_counts_as_steering():
    assert may_steer("<nowhere>", 3) is True


# --- no network, known causes ----------------------------------------------------------------------------------------

OFFLINE = """
import socket, subprocess, sys, threading
from neuron_ops.op_tests.capture.offline import refuse_network
refuse_network()
def tried(call):
    try:
        call()
    except ConnectionRefusedError as error:
        return str(error)
    return "went through"
print(tried(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)))
print(tried(lambda: socket.getaddrinfo("example.org", 80)))
print(tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))))
print(tried(lambda: subprocess.run(["wget", "http://127.0.0.1"])))
a, b = socket.socketpair()
print(tried(lambda: (a.send(b"x"), b.recv(1))))
"""


def test_python_code_gets_no_network():
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, timeout=60, check=True)
    refused = "a check has no network: "
    assert done.stdout.splitlines() == [
        f"{refused}127.0.0.1:9", f"{refused}example.org:80", f"{refused}127.0.0.1:9", f"{refused}wget", "went through",
    ]  # fmt: skip


def chained(error, behind):
    error.__cause__ = behind
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("No module named 'triton'", name="triton"), "for CUDA alone"),
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), "'a.b' is not installed"),
        (AssertionError("Torch not compiled with CUDA enabled"), "asks for a CUDA device"),
        (RuntimeError("Default process group has not been initialized"), "process group"),
        (
            chained(OSError("x"), NetworkRefused("a check has no network: h:1")),
            "it wanted h:1, and a check has no network",
        ),
        (
            NotImplementedError("Could not run 'aten::_sparse_coo_tensor' from the 'neuron' backend"),
            "layout sparse_coo",
        ),
        (SystemExit(0), "nothing was judged"),
        (FileNotFoundError(2, "no", "c.yaml"), "but beside the file"),
    ],
)
def test_known_causes_say_what_to_change(tmp_path, error, words):
    (tmp_path / "c.yaml").touch()
    assert words in explanation(error, tmp_path)


def test_a_fault_of_the_code_has_no_explanation(tmp_path):
    (tmp_path / "mine.py").touch()
    assert explanation(ValueError("mine"), tmp_path) is None
    assert explanation(ModuleNotFoundError("No module named 'mine.part'", name="mine.part"), tmp_path) is None
    assert wanted_network(socket.gaierror("none")) is None
