"""Decides what a standalone script of one case looks like: tensors rebuilt bit for bit, the call, the comparison."""

from __future__ import annotations

import base64
import textwrap
import zlib
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.axes import axis_named, prepare
from neuron_ops.op_tests.packing import ON_HOST

if TYPE_CHECKING:
    from neuron_ops.op_tests.packing import Sample
    from neuron_ops.op_tests.records import Case

_HEAD = '''\
"""Case {key}: {overload}, {dtype}, {variant}, sample {sample}, recorded with torch {torch}.

Needs only PyTorch{needs}. Run it as: python script.py [device], the device defaults to {device}.
"""

import base64
import sys
import zlib

import torch
{imports}
DEVICE = "{device}"


def storage(text, dtype):
    data = bytearray(zlib.decompress(base64.b64decode(text)))
    flat = torch.empty(len(data), dtype=torch.uint8)
    if data:
        flat.copy_(torch.frombuffer(data, dtype=torch.uint8))
    return flat.view(dtype)


def arguments(device):
{storages}
    args = [
{args}
    ]
    kwargs = {{
{kwargs}
    }}
    return args, kwargs

'''

_CALLS = {
    "forward": """
def call(device):
    args, kwargs = arguments(device)
    torch.manual_seed({seed})
    return torch.ops.{overload}(*args, **kwargs)

""",
    "backward": """
def call(device):
    args, kwargs = arguments(device)
    leaves, spared = [], {spared}  # spared: the first input asks for no gradient

    def leaf(value):
        if isinstance(value, list):
            return [leaf(item) for item in value]
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            if spared:
                return (value.detach(), spared.pop())[0]
            leaves.append(value.detach().requires_grad_())
            return leaves[-1]
        return value

    args, kwargs = leaf(args), {{name: leaf(value) for name, value in kwargs.items()}}
    torch.manual_seed({seed})
    outputs = torch.ops.{overload}(*args, **kwargs)
    flat = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    ends = [out for out in flat if isinstance(out, torch.Tensor) and out.requires_grad]
{gradients}
    return outputs, torch.autograd.grad(ends, leaves, grads, allow_unused=True)

""",
    "must_raise": """
def call(device):
    args, kwargs = arguments(device)
    torch.manual_seed({seed})
    try:
        torch.ops.{overload}(*args, **kwargs)
    except Exception as error:
        print(f"{{device}} refuses it: {{type(error).__name__}}: {{error}}")
        return torch.tensor(True)
    return torch.tensor(False)

""",
    "repeat": """
def call(device):
    results = []
    for _ in range(3):
        args, kwargs = arguments(device)
        torch.manual_seed({seed})
        results.append(torch.ops.{overload}(*args, **kwargs))
    return results

""",
}

_GRADIENTS = """\
    grads = [torch.linspace(0.5, 1.5, max(out.numel(), 1), dtype=torch.float64)[: out.numel()] for out in ends]
    grads = [grad.reshape(out.shape).to(out.dtype).to(device) for grad, out in zip(grads, ends)]"""

_EXPANDED_GRADIENTS = """\
    grads = [torch.tensor(0.75, dtype=out.dtype).to(device).expand(out.shape) for out in ends]"""

_TAIL = """
def on_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    return [on_cpu(item) for item in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else DEVICE)
    expected, found = on_cpu(call(torch.device("cpu"))), on_cpu(call(device))
    print("cpu:", expected)
    print(f"{device}:", found)
    torch.testing.assert_close(found, expected, equal_nan=True, check_stride=True)
    print("equal within torch.testing's default tolerances")
"""


def script(case: Case, sample: Sample, *, target: str, device: str) -> str:
    """Return the source of a script that repeats the case on the CPU and on the target's device.

    `sample` is the bank's; the arguments in the script are those that the case's variant makes of it.
    """
    simulated = target == "sim"
    prepared = prepare(case.variant, catalogue.resolve(case.overload), sample)
    writer, sample = _Writer(prepared.sample), prepared.sample
    on_host = (*ON_HOST.get(case.overload, ()), *prepared.on_host)
    args = [writer.expression(node, "cpu" if i in on_host else "device") for i, node in enumerate(sample.tree["args"])]
    kwargs = [
        f"{name!r}: {writer.expression(node, 'cpu' if name in on_host else 'device')}"
        for name, node in sample.tree["kwargs"].items()
    ]
    head = _HEAD.format(
        key=case.key,
        overload=case.overload,
        dtype=case.dtype,
        variant=case.variant,
        sample=case.sample,
        torch=torch.__version__.partition("+")[0],
        needs=" and neuron-ops for its simulated device" if simulated else "",
        device=device,
        imports="\nimport neuron_ops.op_tests.targets.sim  # makes the simulated neuron device\n" if simulated else "",
        storages=textwrap.indent("\n".join(writer.lines) or "pass", "    "),
        args=textwrap.indent("".join(f"{a},\n" for a in args).rstrip("\n"), "        "),
        kwargs=textwrap.indent("".join(f"{k},\n" for k in kwargs).rstrip("\n"), "        "),
    )
    return head + _call(case) + _TAIL


def _call(case: Case) -> str:
    """Return the function that makes the calls of the case's variant."""
    axis = axis_named(case.variant)
    kind = "must_raise" if axis.must_raise else "backward" if axis.name.startswith("backward") else axis.name
    text = _CALLS.get(kind, _CALLS["forward"])
    return text.format(
        overload=case.overload,
        seed=case.seed,
        spared="[True]" if axis.name == "backward_partial" else "[]",
        gradients=_EXPANDED_GRADIENTS if axis.name == "backward_expanded" else _GRADIENTS,
    )


class _Writer:
    """Writes argument trees as Python expressions, and one line for each storage that they use."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._names: dict[tuple[int, str, str], str] = {}
        self.lines: list[str] = []

    def expression(self, node: Any, device: str) -> str:
        if isinstance(node, list):
            return "[" + ", ".join(self.expression(item, device) for item in node) + "]"
        if not isinstance(node, dict):
            return repr(node)
        if "storage" in node:
            return self._tensor(node, device)
        ((kind, value),) = node.items()
        if kind == "float":
            return f'float("{value}")'
        if kind == "complex":
            return f"complex({self.expression(value[0], device)}, {self.expression(value[1], device)})"
        return "device" if kind == "device" else f"torch.{value}"

    def _tensor(self, node: dict[str, Any], device: str) -> str:
        name = self._storage(node["storage"], node["dtype"], device)
        text = f"{name}.as_strided({tuple(node['shape'])}, {tuple(node['stride'])}, {node['offset']})"
        text = f"torch._conj({text})" if node.get("conj") else text
        return f"torch._neg_view({text})" if node.get("neg") else text

    def _storage(self, number: int, dtype: str, device: str) -> str:
        key = (number, dtype, device)
        if key not in self._names:
            self._names[key] = f"s{len(self._names)}"
            sibling = next(
                (n for (i, _, d), n in self._names.items() if i == number and d == device and n != self._names[key]),
                None,
            )
            if sibling is None:
                text = base64.b64encode(zlib.compress(self._sample.storages[number], 9)).decode()
                place = '"cpu"' if device == "cpu" else "device"
                self.lines.append(f'{self._names[key]} = storage("{text}", torch.{dtype}).to({place})')
            else:
                self.lines.append(f"{self._names[key]} = {sibling}.view(torch.{dtype})")
        return self._names[key]
