"""The words of the search box: plain words and `key:value` terms, joined by AND; a comma inside a value is OR."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import BadInput
from neuron_ops.web.words import STATUSES, status_from_text

if TYPE_CHECKING:
    from collections.abc import Mapping

FACETS = ("status", "dtype", "family", "tier", "tag", "kind")
"""The keys of the matrix, in the order in which the page lists them."""

_STATUS_HINT = ", ".join(word.anchor for word in STATUSES.values())


@dataclass(frozen=True, slots=True)
class Terms:
    """What a reader asked the matrix for: plain words, and the wanted values of each facet (OR inside, AND between)."""

    words: str = ""
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def wanted(self, facet: str) -> tuple[str, ...]:
        """Return the wanted values of one facet, empty when every value is welcome."""
        return self.facets.get(facet, ())

    def toggled(self, facet: str, value: str) -> Terms:
        """Return the same terms with one value of one facet added, or removed when it was there."""
        present = self.wanted(facet)
        changed = tuple(v for v in present if v != value) if value in present else (*present, value)
        return Terms(self.words, {**self.facets, facet: changed})

    def without_words(self) -> Terms:
        """Return the same terms with the plain words dropped."""
        return Terms("", self.facets)

    def arguments(self) -> dict[str, str]:
        """Return the query keys that lead back to these terms, those that ask for nothing left out."""
        keys = {"q": self.words} | {facet: ",".join(self.wanted(facet)) for facet in FACETS}
        return {key: value for key, value in keys.items() if value}

    def __bool__(self) -> bool:
        return bool(self.arguments())


def read_terms(text: str, facets: Mapping[str, str]) -> Terms:
    """Return the terms of a search box and of facet keys together.

    `text` may hold `status:wrong dtype:bfloat16,float32 softmax`; `facets` maps a facet to comma-separated values.
    Raises BadInput for a key that is no facet, a value that is no status, and a negated term.
    """
    words: list[str] = []
    found: dict[str, list[str]] = {facet: [] for facet in FACETS}
    for facet, value in facets.items():
        found[facet].extend(_values(facet, value))
    for term in text.split():
        key, colon, value = term.partition(":")
        if not colon or value.startswith(":"):  # aten::add.Tensor is a name, not a key
            words.append(term)
            continue
        if key not in FACETS:
            raise BadInput(_unknown_key(key))
        found[key].extend(_values(key, value))
    return Terms(" ".join(words), {key: tuple(dict.fromkeys(values)) for key, values in found.items() if values})


def _unknown_key(key: str) -> str:
    if key.startswith("-"):
        return f"“{key}:” would exclude a value, which this search cannot do: ask for the values you want instead."
    return f"“{key}:” is no search key: use one of {', '.join(FACETS)}, or leave the colon out to search the names."


def _values(facet: str, text: str) -> list[str]:
    values = [value.strip() for value in text.split(",") if value.strip()]
    return [_status(value) for value in values] if facet == "status" else values


def _status(value: str) -> str:
    letter = status_from_text(value)
    if letter is None:
        raise BadInput(f"“{value}” is no status: use a letter of the legend or one of {_STATUS_HINT}.")
    return letter
