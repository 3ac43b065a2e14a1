"""Finds overloads by the names that people write for them."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

# What stands before an operator's own name in user code, longest first. ATen prefixes the rest of a submodule's
# functions with its name: torch.linalg.inv is aten.linalg_inv.
_PREFIXES = (
    "torch.nn.functional.", "nn.functional.", "torch.tensor.", "torch.ops.", "torch.nn.", "tensor.", "torch.", "nn.",
    "f.",
)  # fmt: skip
_SUBMODULES = ("linalg.", "fft.", "special.")
# The operator in an error line, such as: Could not run 'aten::add.Tensor' with arguments from the 'Neuron' backend.
_QUALIFIED = re.compile(r"\b[a-z_]\w*::\w+(?:\.\w+)?", re.IGNORECASE)
# The kernel in another one: "addmm_impl_cpu_" not implemented for 'Half'. What follows its operator's name goes.
_KERNEL = re.compile(r'"(\w+?)(?:_impl|_out|_kernel|_template|_cpu|_cuda|_neuron|Kernel|Impl)*_?" not implemented for')
# A call in a line of a traceback, of which the last is where it broke.
_CALL = re.compile(r"\b(?:torch(?:\.\w+)+|(?:F|nn|aten)\.\w+(?:\.\w+)?)(?=\()")
_SHORTEST_INITIALS = 3

EXACT = 1
"""The worst rank of a name that was asked for in full."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a user typed, brought to our spelling: lower-case words, the words as one name, and what torch calls so.

    `packets` are the packets that torch's own table gives for a public name that is no operator's, such as nn.GELU.
    """

    words: tuple[str, ...]
    joined: str
    packets: frozenset[str] = frozenset()


def read_spelling(text: str) -> Spelling:
    """Return what `text` asks for: a name in any usual spelling, an error that holds one, or words."""
    words = tuple(word for word in map(_plain, _named_in(text).split()) if word)
    joined = "_".join(words)
    return Spelling(words, joined, aliases().get(joined, frozenset()))


@cache
def aliases() -> dict[str, frozenset[str]]:
    """Return each public name of torch that is no operator's own, as `read_spelling` writes it → its packets."""
    found: dict[str, frozenset[str]] = {}
    table = resources.files("neuron_ops.coverage_db").joinpath("data/aliases.csv")
    for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines()):
        name = _plain(row["name"])
        found[name] = found.get(name, frozenset()) | frozenset(row["packets"].split())
    return found


def _named_in(text: str) -> str:
    """Return the operator that an error names, or the text as it is."""
    found = _QUALIFIED.search(text)
    if found:
        return found.group()
    kernel = _KERNEL.search(text)
    calls = _CALL.findall(text) if len(text.split()) > 1 else []
    return kernel.group(1) if kernel else calls[-1] if calls else text


def rank(name: str, spelling: Spelling) -> int | None:
    """Return how well an overload's name fits, 0 best, or None where it does not.

    0 the overload, 1 its packet or what torch calls so, 2 the packet but for outer underscores, 3 the initials of the
    packet's words (``sdpa``), 4 the beginning of the packet, 5 somewhere in the name, 6 the same with all underscores
    ignored (``layernorm``), 7 each word somewhere in the name.
    """
    lower = name.lower()
    packet, _, overload = lower.rpartition(".")
    base = packet.rpartition(".")[2]
    asked = spelling.joined
    fits = (
        asked in (lower, f"{base}.{overload}"),
        asked in (packet, base) or packet in spelling.packets,
        bool(asked.strip("_")) and asked.strip("_") == base.strip("_"),
        len(asked) >= _SHORTEST_INITIALS and asked == "".join(word[0] for word in base.split("_") if word),
        base.startswith(asked),
        asked in lower,
        asked.replace("_", "") in lower.replace("_", ""),
        all(word in lower for word in spelling.words),
    )
    return next((number for number, fit in enumerate(fits) if fit), None)


def order(name: str) -> tuple[int, str, bool, str]:
    """Return the sort key within a rank: short packets first, the default overload before the others."""
    packet, _, overload = name.rpartition(".")
    return len(packet), packet, overload != "default", name


def _plain(word: str) -> str:
    """Return one word in lower case without its call, its quotes and what stands before the operator's own name."""
    word = word.strip("'\"`,;").partition("(")[0].replace("::", ".").lower()
    prefix = next((p for p in _PREFIXES if word.startswith(p)), "")
    word = word.removeprefix(prefix)
    if any(word.startswith(submodule) for submodule in _SUBMODULES):
        word = word.replace(".", "_", 1)
    return word.rstrip(".")
