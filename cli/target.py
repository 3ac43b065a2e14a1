"""Turns what `neuron-ops check` is given into a request: a file, a folder or a module of Python, and a name in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from neuron_ops.op_tests.capture.rows import Request
from neuron_ops.op_tests.records import BadInput

STORED = (".pt2", ".pt", ".pth", ".pkl", ".bin", ".ckpt", ".torchscript", ".ts")
"""Endings of files that may hold a model; what is in them tells its kind."""
ELSEWHERE = {
    ".safetensors": "weights without a model", ".onnx": "a graph of another framework's operators",
    ".ipynb": "a notebook", ".gguf": "weights without a model",
}  # fmt: skip


def requested(
    text: str, *, function: str | None, train: bool, evaluate: bool, inputs: tuple[str, ...], **options: Any
) -> Request:
    """Return the request for what the command line names; raises BadInput."""
    file, attribute = _split(text)
    if function is not None:
        if attribute is not None:
            raise BadInput(f"{text!r} and --call {function} both name something; expected one of them; leave one out")
        attribute = function
    if evaluate and not train:
        evaluate = False  # without --train the model is in eval mode anyway
    return Request(
        str(file),
        _name(text, attribute),
        call=function is not None,
        train=train,
        eval=evaluate,
        inputs=inputs,
        **options,
    )


def _name(text: str, attribute: str | None) -> str | None:
    if attribute is not None and not all(part.isidentifier() for part in attribute.split(".")):
        raise BadInput(
            f"{attribute!r} is no name in a Python file; expected FILE.py:NAME, such as "
            f"{text.rpartition(':')[0] or text}:Net; write one"
        )
    return attribute


def _split(text: str) -> tuple[Path, str | None]:
    """Return the absolute path and the attribute of ``FILE.py[:ATTR]``, ``package.module[:ATTR]`` and the like."""
    path, attribute = text, None
    if not Path(text).exists() and ":" in text:
        path, _, attribute = text.rpartition(":")
    file = Path(path).absolute()
    if not file.exists():
        found = _of_module(path)
        if found is None:
            raise BadInput(f"there is no file {path!r}; expected a Python file; check the path")
        return found, attribute
    if file.is_dir():
        return _of_folder(file, path), attribute
    if file.suffix not in (".py", ".json", *STORED):
        what = ELSEWHERE.get(file.suffix, "a file that is not Python")
        raise BadInput(
            f"{path!r} is {what}; expected FILE.py or FILE.py:NAME, a program of torch.export.save or a config.json; write "
            "a Python file that builds the model"
        )
    return file, attribute


def _of_folder(folder: Path, path: str) -> Path:
    if (folder / "config.json").is_file():
        return folder
    if (folder / "__init__.py").is_file():
        return folder / "__init__.py"
    parts = sorted(part.parent.name for part in folder.glob("*/config.json"))
    there = f"; it has {', '.join(parts)}: name one, such as {path}/{parts[0]}" if parts else "; name a file in it"
    raise BadInput(
        f"{path!r} is no file; expected FILE.py, FILE.py:NAME or a folder with the config.json of one model{there}"
    )


def _of_module(name: str) -> Path | None:
    """Return the file of a dotted module name, found without importing its packages: their code is the user's."""
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    below = Path(*name.split("."))
    for folder in (Path.cwd(), *map(Path, sys.path)):
        for file in (folder / below / "__init__.py", (folder / below).with_suffix(".py")):
            if file.is_file():
                return file.absolute()
    return None
