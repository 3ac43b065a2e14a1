"""Finds overloads by the names that people write for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What stands before an operator's own name in user code, longest first. ATen prefixes the rest of a submodule's
# functions with its name: torch.linalg.inv is aten.linalg_inv.
_PREFIXES = (
    "torch.nn.functional.", "nn.functional.", "torch.tensor.", "torch.ops.", "torch.nn.", "tensor.", "torch.", "nn.",
    "f.",
)  # fmt: skip
_SUBMODULES = ("linalg.", "fft.", "special.")
# The operator in an error line, such as: Could not run 'aten::add.Tensor' with arguments from the 'Neuron' backend.
_QUALIFIED = re.compile(r"\b[a-z_]\w*::\w+(?:\.\w+)?", re.IGNORECASE)

EXACT = 1
"""The worst rank of a name that was asked for in full."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a user typed, brought to our spelling: lower-case words, and the words as one name."""

    words: tuple[str, ...]
    joined: str


def read_spelling(text: str) -> Spelling:
    """Return what `text` asks for: a name in any usual spelling, an error line that holds one, or words."""
    found = _QUALIFIED.search(text)
    words = tuple(word for word in map(_plain, (found.group() if found else text).split()) if word)
    return Spelling(words, "_".join(words))


def rank(name: str, spelling: Spelling) -> int | None:
    """Return how well an overload's name fits, 0 best, or None where it does not.

    0 the overload, 1 its packet, 2 the packet but for outer underscores, 3 the beginning of the packet, 4 somewhere in
    the name, 5 the same with all underscores ignored (``layernorm``), 6 each word somewhere in the name.
    """
    lower = name.lower()
    packet, _, overload = lower.rpartition(".")
    base = packet.rpartition(".")[2]
    asked = spelling.joined
    fits = (
        asked in (lower, f"{base}.{overload}"),
        asked in (packet, base),
        bool(asked.strip("_")) and asked.strip("_") == base.strip("_"),
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
