"""Builds models from the configurations of Hugging Face's libraries, with random weights and no download."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.finding import Candidate
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "config.json"
LARGEST = 1 << 30
"""Bytes of parameters up to which a configuration is built with real values."""


def configured(path: Path) -> Candidate:
    """Return the model that a config.json, or a folder with one, describes; raises BadInput."""
    file = path / CONFIG if path.is_dir() else path
    settings = _settings(file)
    if "model_type" in settings:
        return _of_transformers(file, settings)
    if "_class_name" in settings:
        return _of_diffusers(file, settings)
    if "architecture" in settings:
        return Candidate(settings["architecture"], functools.partial(_of_timm, settings))
    raise BadInput(
        f"{file} names no model; expected a configuration of transformers (model_type), diffusers (_class_name) or timm "
        "(architecture); write a Python file that builds the model"
    )


def _settings(file: Path) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} is no JSON ({error}); expected a model's configuration; mend it") from None
    if not isinstance(settings, dict):
        raise BadInput(
            f"{file} holds a {type(settings).__name__}; expected an object, a model's configuration; mend it"
        )
    return settings


def _of_transformers(file: Path, settings: dict[str, Any]) -> Candidate:
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(str(file.parent if file.name == CONFIG else file))
    except (ValueError, KeyError) as error:  # an unknown model_type, or one that needs code from the hub
        raise BadInput(
            f"transformers {transformers.__version__} does not know the model of {file} ({str(error).partition(chr(10))[0]}); "
            "expected a model_type of its own; update transformers, or write a Python file that builds the model"
        ) from None
    for name in settings.get("architectures") or ():
        cls = getattr(transformers, name, None)
        if cls is not None:
            return Candidate(name, functools.partial(cls._from_config, config))
    return Candidate(type(config).__name__, functools.partial(transformers.AutoModel.from_config, config))


def _of_diffusers(file: Path, settings: dict[str, Any]) -> Candidate:
    import diffusers

    cls = getattr(diffusers, settings["_class_name"], None)
    if cls is None or not hasattr(cls, "from_config") or not issubclass(cls, torch.nn.Module):
        raise BadInput(
            f"{settings['_class_name']!r} in {file} is no model of diffusers {diffusers.__version__}; expected one such as "
            "UNet2DConditionModel; name the folder of one model of the pipeline"
        )
    return Candidate(settings["_class_name"], functools.partial(cls.from_config, settings))


def _of_timm(settings: dict[str, Any]) -> torch.nn.Module:
    import timm

    model: torch.nn.Module = timm.create_model(
        settings["architecture"],
        pretrained=False,
        num_classes=settings.get("num_classes"),
        **settings.get("model_args", {}),
    )
    return model
