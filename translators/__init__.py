"""Verified replacements for operators that a target lacks: a registry, one file an operator family, and what installs them.

Imports torch and nothing of ours. Imported by op_tests, cli and workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuron_ops.translators.installation import install, installed, uninstall
    from neuron_ops.translators.tables import decomposition_table

__all__ = ["decomposition_table", "install", "installed", "uninstall"]

_WHERE = {
    "decomposition_table": "tables",
    "install": "installation",
    "installed": "installation",
    "uninstall": "installation",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
