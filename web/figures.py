"""How figures, moments and names are written on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime


def percent(n: int, m: int) -> str:
    """Return `n` of `m` as a percentage with one digit, or – for m = 0; cut, so that 100.0 % is said only of all."""
    return f"{n * 1000 // m / 10:.1f} %" if m else "–"


def share(n: int, m: int) -> str:
    """Return `n` of `m` as a length for SVG, in percent."""
    return f"{n * 100 / m:.3f}%" if m else "0%"


def count(number: int) -> str:
    """Return a whole count with its thousands apart."""
    return f"{number:,}"


def figure(number: float) -> str:
    """Return a measured figure with two significant digits."""
    return f"{number:.2g}"


def moment(when: datetime) -> str:
    """Return a moment to the minute."""
    return f"{when:%Y-%m-%d %H:%M}"


def breakable(name: str) -> Markup:
    """Return a name that a narrow column may break at its dots and underscores."""
    return Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))  # noqa: S704 - escaped above


def table(twin: str, form: str) -> str:
    """Return the address of a page's table (csv or ndjson) from that of its JSON."""
    path, question, query = twin.partition("?")
    return f"{path.removesuffix('json')}{form}{question}{query}"


def lower_first(text: str) -> str:
    """Return a sentence to be continued in the middle of another."""
    return text[:1].lower() + text[1:]


def denominator_rows(denominators: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) for what a run recorded of its denominators, exclusions last, one row a reason."""
    for name, value in denominators.items():
        if name != "excluded":
            yield name, count(value) if isinstance(value, int) else str(value)
    for reason, number in denominators.get("excluded", {}).items():
        yield f"excluded: {reason}", count(number)


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (count, figure, moment, breakable, table, lower_first, denominator_rows)
}
