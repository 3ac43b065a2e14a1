"""Decides what a model of Hugging Face's libraries is called with at full size, and its labels in training."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

_PROMPT, _SENTENCE = 512, 128  # tokens of one prompt, and of each text in a batch
_BATCH = 8  # of models that do not generate: with one alone, sums over the batch would be missing from backward
_SAMPLES = 16000
_SIDE, _LARGE_SIDE = 224, 800
_GENERATING = ("ForCausalLM", "LMHeadModel")
_WITH_TOKEN_LABELS = (*_GENERATING, "ForMaskedLM", "ForConditionalGeneration", "ForTokenClassification")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def inputs_for(model: torch.nn.Module, labelled: bool) -> Inputs | None:
    """Return inputs by the names that `forward` takes, with labels where asked; None for models of other libraries."""
    config = getattr(model, "config", None)
    if config is None or not type(model).__module__.startswith(("transformers.", "diffusers.")):
        return None
    names = inspect.signature(model.forward).parameters
    found = _of_diffusion(config) if "sample" in names and "input_ids" not in names else _of_transformers(model, config)
    found = {name: value for name, value in found.items() if name in names}
    if not found:
        return None
    labels = _labels(type(model).__name__, found) if labelled and "labels" in names else None
    if labels is not None:
        found["labels"] = labels
    return Inputs((), found, "the configuration, at full size")


def default_dtype(model: torch.nn.Module) -> torch.dtype | None:
    """Return bfloat16 for a float32 mixture of experts, whose grouped product has no other dtype, else None."""
    config = getattr(model, "config", None)
    experts = any(getattr(config, name, None) for name in _EXPERTS)
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    return torch.bfloat16 if experts and first is not None and first.dtype is torch.float32 else None


def _of_transformers(model: torch.nn.Module, config: Any) -> dict[str, Any]:
    kind = type(model).__name__
    alone = kind.endswith((*_GENERATING, "ForObjectDetection"))
    batch = 1 if alone else _BATCH
    get = _reader(config)
    tokens = torch.ones(
        batch, min(_PROMPT if alone else _SENTENCE, get("max_position_embeddings") or _PROMPT), dtype=torch.int64
    )
    side = get("image_size") or (_LARGE_SIDE if alone else _SIDE)
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    main = getattr(model, "main_input_name", "input_ids")
    found: dict[str, Any] = {}
    if main == "input_ids":
        found["input_ids"] = tokens
        if not kind.endswith(_GENERATING):
            found["attention_mask"] = torch.ones_like(tokens)
    if main == "pixel_values" or get("vision_config") is not None:
        found["pixel_values"] = torch.zeros(batch, get("num_channels") or 3, height, width)
        found["pixel_mask"] = torch.ones(batch, height, width, dtype=torch.int64)
    if main == "input_features":
        found["input_features"] = torch.zeros(
            batch, get("num_mel_bins") or 80, 2 * (get("max_source_positions") or 1500)
        )
    if main == "input_values":
        found["input_values"] = torch.zeros(batch, _SAMPLES)
    if getattr(config, "is_encoder_decoder", False) and main != "pixel_values":
        found["decoder_input_ids"] = torch.ones(batch, _SENTENCE, dtype=torch.int64)
    return found


def _reader(config: Any) -> Callable[[str], Any]:
    """Return a function that reads a setting from the configuration, else from those of its parts."""
    parts = [config, getattr(config, "text_config", None), getattr(config, "vision_config", None)]

    def read(name: str) -> Any:
        return next((value for part in parts if (value := getattr(part, name, None)) is not None), None)

    return read


def _of_diffusion(config: Any) -> dict[str, Any]:
    size = config.get("sample_size") or 64
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    wide = config.get("cross_attention_dim") or 1280
    return {
        "sample": torch.zeros(1, config.get("in_channels") or 4, height, width),
        "timestep": torch.tensor(1),
        "encoder_hidden_states": torch.zeros(1, 77, wide if isinstance(wide, int) else wide[0]),
    }


def _labels(kind: str, found: dict[str, Any]) -> torch.Tensor | None:
    """Return labels for the model's own loss, or None where its task needs others."""
    batch = next(iter(found.values())).shape[0]
    if kind.endswith("Classification") and not kind.endswith("TokenClassification"):
        return torch.zeros(batch, dtype=torch.int64)
    if kind.endswith("ForSemanticSegmentation"):
        return torch.zeros(batch, *found["pixel_values"].shape[-2:], dtype=torch.int64)
    tokens: torch.Tensor | None = found.get("decoder_input_ids", found.get("input_ids"))
    return tokens.clone() if tokens is not None and kind.endswith(_WITH_TOKEN_LABELS) else None
