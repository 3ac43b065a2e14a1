"""Decides which model and inputs a Hugging Face configuration stands for: built from the configuration, without weights."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.loading import Inputs
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from pathlib import Path

_TOKENS, _SENTENCE = 512, 128  # of one prompt, and of each in a batch
_BATCH = 8  # of models that do not generate: with one alone, sums over the batch would be missing from backward
_SECONDS_OF_SOUND, _SAMPLE_RATE = 1, 16000


@dataclass(frozen=True, slots=True)
class Configured:
    """A model that a configuration names, and the class that builds it."""

    config: Any
    kind: type[torch.nn.Module]
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """Return the name of the class."""
        return self.kind.__name__

    def build(self) -> torch.nn.Module:
        """Return the model with its parameters in the dtype, not initialised from any weights."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        try:
            if hasattr(self.kind, "_from_config"):
                model: torch.nn.Module = self.kind._from_config(self.config)
            else:
                model = self.kind.from_config(self.config)  # type: ignore[attr-defined]
        finally:
            torch.set_default_dtype(before)
        return model


def is_configuration(path: Path) -> bool:
    """Return whether the path is a configuration: a JSON file, or a folder with a config.json."""
    return path.suffix == ".json" or (path / "config.json").is_file()


def read(path: Path) -> Configured:
    """Return what the configuration names; raises BadInput where it names nothing that is installed."""
    file = path / "config.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{file} cannot be read as JSON ({error}); expected a config.json of Hugging Face; check the path"
        ) from error
    if not isinstance(data, dict):
        raise BadInput(f"{file} holds no object; expected a config.json of Hugging Face; check the path")
    if "_class_name" in data:
        return _of_diffusers(data, file)
    return _of_transformers(data, file)


def _of_transformers(data: dict[str, Any], file: Path) -> Configured:
    try:
        import transformers
    except ImportError as error:
        raise BadInput(
            f"{file} needs transformers, which cannot be imported ({error}); expected it for a config.json; run `pip install transformers`"
        ) from error
    model_type = data.get("model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        raise BadInput(
            f"{file}: model_type {model_type!r} is unknown to transformers {transformers.__version__}; expected one of its "
            "models; install a version that has it, or check a Python file that builds the model"
        )
    config = transformers.CONFIG_MAPPING[model_type].from_dict(data)
    named = [name for name in data.get("architectures") or [] if hasattr(transformers, name)]
    kind = getattr(transformers, named[0]) if named else _first_class(config, file)
    return Configured(config, kind, _dtype(config, data))


def _first_class(config: Any, file: Path) -> type[torch.nn.Module]:
    """Return the class that transformers itself takes for a configuration without `architectures`: the bare model last."""
    from transformers.models.auto import modeling_auto as auto

    for table in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING, auto.MODEL_MAPPING,
    ):  # fmt: skip
        if type(config) in table:
            found = table[type(config)]
            kind: type[torch.nn.Module] = found[0] if isinstance(found, tuple) else found
            return kind
    raise BadInput(
        f"{file}: transformers has no model for {type(config).__name__}; expected `architectures` in it; name the class there"
    )


def _of_diffusers(data: dict[str, Any], file: Path) -> Configured:
    try:
        import diffusers
    except ImportError as error:
        raise BadInput(
            f"{file} needs diffusers, which cannot be imported ({error}); expected it for {data['_class_name']}; run `pip install diffusers`"
        ) from error
    kind = getattr(diffusers, str(data["_class_name"]), None)
    if kind is None:
        raise BadInput(
            f"{file}: diffusers {diffusers.__version__} has no {data['_class_name']!r}; expected one of its models; "
            "install a version that has it"
        )
    return Configured(data, kind, torch.float32)


def _dtype(config: Any, data: dict[str, Any]) -> torch.dtype:
    """Return the dtype that the configuration names; else bfloat16 for experts, whose product has no other, and float32."""
    named = getattr(torch, str(data.get("dtype") or data.get("torch_dtype")), None)
    if isinstance(named, torch.dtype):
        return named
    experts = any(getattr(config, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))
    return torch.bfloat16 if experts else torch.float32


def inputs_for(model: torch.nn.Module, config: Any, labelled: bool) -> Inputs:
    """Return inputs by the names that `forward` takes, with labels where asked; raises BadInput where no name is known."""
    names = list(inspect.signature(model.forward).parameters)
    get = config.get if isinstance(config, dict) else lambda name, default=None: getattr(config, name, default)
    if "sample" in names and ("timestep" in names or "sample_posterior" in names):
        return _of_diffusion(names, get)
    generates = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
    detects = type(model).__name__.endswith("ForObjectDetection")  # large pictures, one at a time
    found: dict[str, Any] = {}
    for name, make in _MAKERS.items():
        if name in names and (name not in _SECOND_CHOICE or not found):
            value = make(get, 1 if generates or detects else _BATCH)
            if value is not None:
                found[name] = value
    if "attention_mask" in names and "input_ids" in found and not generates:
        found["attention_mask"] = torch.ones_like(found["input_ids"])
    if "pixel_mask" in names:
        found["pixel_mask"] = torch.ones(
            found["pixel_values"].shape[0], *found["pixel_values"].shape[-2:], dtype=torch.int64
        )
    if "decoder_input_ids" in names and "pixel_values" not in found:
        found["decoder_input_ids"] = torch.ones(_BATCH, _SENTENCE, dtype=torch.int64)
    if not found:
        raise BadInput(
            f"{type(model).__name__} takes {', '.join(names)}; expected one of {', '.join(_MAKERS)}; write a Python file that builds "
            "the model and says what to call it with"
        )
    if labelled and "labels" in names:
        labels = _labels(type(model).__name__, found)
        if labels is not None:
            found["labels"] = labels
    return Inputs((), found)


def _labels(kind: str, found: dict[str, Any]) -> Any:
    """Return labels for the model's own loss, or None where its task is unknown."""
    batch = next(iter(found.values())).shape[0]
    if kind.endswith("Classification") and not kind.endswith("TokenClassification"):
        return torch.zeros(batch, dtype=torch.int64)
    if kind.endswith("ForSemanticSegmentation"):
        return torch.zeros(batch, *found["pixel_values"].shape[-2:], dtype=torch.int64)
    tokens = found.get("decoder_input_ids", found.get("input_ids"))
    generates = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForTokenClassification")
    return tokens.clone() if tokens is not None and kind.endswith(generates) else None


def _tokens(get: Any, batch: int) -> torch.Tensor:
    longest = get("max_position_embeddings") or get("n_positions") or _TOKENS
    return torch.ones(batch, min(_TOKENS if batch == 1 else _SENTENCE, longest), dtype=torch.int64)


def _pixels(get: Any, batch: int) -> torch.Tensor:
    size = get("image_size") or (224 if batch > 1 else 800)
    vision = get("vision_config")
    if vision is not None:
        size = getattr(vision, "image_size", size)
    size = size[0] if isinstance(size, (list, tuple)) else size
    return torch.zeros(batch, get("num_channels") or 3, size, size)


def _mel(get: Any, batch: int) -> torch.Tensor:
    return torch.zeros(batch, get("num_mel_bins") or 80, 2 * (get("max_source_positions") or 1500))


def _sound(get: Any, batch: int) -> torch.Tensor:
    del get
    return torch.zeros(batch, _SECONDS_OF_SOUND * _SAMPLE_RATE)


_MAKERS = {"input_ids": _tokens, "pixel_values": _pixels, "input_features": _mel, "input_values": _sound}
_SECOND_CHOICE = ("input_features", "input_values")


def _of_diffusion(names: list[str], get: Any) -> Inputs:
    channels = get("in_channels") or 4
    size = get("sample_size") or 64
    found: dict[str, Any] = {"sample": torch.zeros(1, channels, size, size)}
    if "timestep" in names:
        found["timestep"] = torch.tensor(1)
    if "encoder_hidden_states" in names:
        wide = get("cross_attention_dim") or 1280
        found["encoder_hidden_states"] = torch.zeros(1, 77, wide if isinstance(wide, int) else wide[0])
    return Inputs((), found)
