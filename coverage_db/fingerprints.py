"""Tells which messages say the same: what differs from call to call is blanked out, and the rest is a fingerprint."""

from __future__ import annotations

import hashlib
import re

_BLANKS = (
    (re.compile(r"""(?<!\w)(["'])(?:(?!\1).){1,200}\1(?!\w)"""), "‹…›"),
    (re.compile(r"\baten(::|\.)\w+(\.\w+)*(\(\))?"), "‹operator›"),
    (re.compile(r"\b(torch\.)?(b?float(8_\w+|16|32|64)|u?int(8|16|32|64)|complex(32|64|128))\b"), "‹dtype›"),
    (re.compile(r"\b(BFloat16|Half|Float|Double|Byte|Char|Short|Int|Long|Bool|Complex(Half|Float|Double))\b"), "‹dtype›"),
    (re.compile(r"0x[0-9a-fA-F…]+"), "#"),
    (re.compile(r"(?<![A-Za-z_])[-+]?(\d+(_\d+)*(,\d{3})*(\.\d*)?(e[-+]?\d+)?|inf\b|nan\b)j?"), "#"),
    (re.compile(r"\b(True|False)\b"), "#"),
    (re.compile(r"#(#|%)*"), "#"),
    (re.compile(r"(\(#(, ?#)*,?\)|\[#?(, ?#)*\])"), "‹shape›"),
    (re.compile(r"(?<!\w)(?:/[\w.@-]+){2,}"), "‹path›"),
    (re.compile(r"\s+"), " "),
)  # fmt: skip
_LONGEST = 200
_DIGITS = 12
_ERROR_LINE = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit|Warning)\b.*")


def pattern(line: str) -> str:
    """Return a line with what differs from call to call blanked out: names of operators, dtypes, numbers, shapes, paths."""
    for what, blank in _BLANKS:
        line = what.sub(blank, line)
    return line.strip()[:_LONGEST]


def message_pattern(message: str) -> str:
    """Return the pattern of a stored message, whose first line says it; empty for an empty one."""
    return next((pattern(line) for line in message.splitlines() if line.strip()), "")


def fingerprint(of: str) -> str:
    """Return 12 hex digits that are equal for equal patterns."""
    return hashlib.sha256(of.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]


def asked_patterns(pasted: str) -> list[str]:
    """Return the patterns of a pasted trace, the likeliest line first: the last that names an exception, then the others."""
    lines = [line.strip() for line in pasted.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR_LINE.match(line)]
    return list(dict.fromkeys(pattern(line) for line in [*reversed(named), *lines]))
