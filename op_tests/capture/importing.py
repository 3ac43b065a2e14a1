"""Imports a user's file the way its author runs it."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def import_folder(file: Path) -> tuple[Path, str]:
    """Return the folder that must be on sys.path to import the file, and its module name (``pkg.model`` in a package)."""
    folder, name = file.parent, file.stem
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder, name = folder.parent, f"{folder.name}.{name}"
    return folder, name.removesuffix(".__init__")


def load_file(file: Path) -> ModuleType:
    """Import the file as if it were found on sys.path, its folder first; raises whatever its code raises.

    The working directory comes last, for absolute imports of the project's own packages. The module's name is never
    ``__main__``, so that guarded blocks do not run.
    """
    folder, name = import_folder(file)
    sys.path.insert(0, str(folder))
    sys.path.append(str(Path.cwd()))
    if "." in name or file.name == "__init__.py":
        return importlib.import_module(name)
    try:
        return _load_alone(file, name)
    except ImportError as error:
        if "no known parent package" not in str(error):
            raise
    sys.path.insert(0, str(folder.parent))  # a package without __init__.py
    return importlib.import_module(f"{folder.name}.{name}")


def _load_alone(file: Path, name: str) -> ModuleType:
    if name in sys.modules or name in sys.stdlib_module_names:  # a file called types.py must not replace that module
        name = f"checked_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # files beside it may import it, and dataclasses look themselves up here
    spec.loader.exec_module(module)
    return module


def run_as_script(file: Path) -> None:
    """Run the file as ``python FILE`` does, guarded blocks too; raises whatever its code raises.

    Its parents are no packages then, which is also what ``python FILE`` does.
    """
    sys.path.insert(0, str(file.parent))
    runpy.run_path(str(file), run_name="__main__")
