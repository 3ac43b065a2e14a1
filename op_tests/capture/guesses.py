"""Makes inputs for a model whose file gives none; everything here is marked as assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.inputs import Inputs, missing_inputs, needed
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_WORDS, _STEPS, _SAMPLES, _FRAMES = 16, 8, 16000, 3000
_PICTURES = (224, 64, 32, 28)
"""Heights and widths to try: most networks take 224; those of small data sets only theirs."""


def hub_inputs(model: torch.nn.Module) -> Inputs | None:
    """Return what a model of Hugging Face's transformers says that it takes, or None where it is none of these."""
    kind, config = getattr(model, "main_input_name", None), getattr(model, "config", None)
    if not isinstance(kind, str) or config is None or not hasattr(model, "dummy_inputs"):
        return None
    made = _by_kind(kind, config, model)
    if made is None:
        return None
    return Inputs((), made, f"{type(model).__name__}'s configuration")


def _by_kind(kind: str, config: Any, model: Any) -> Mapping[str, torch.Tensor] | None:
    generator = torch.Generator().manual_seed(0)
    config = getattr(config, "vision_config", config) if kind == "pixel_values" else config
    if kind == "input_ids":
        ids = {
            name: value % _vocabulary(config) if "ids" in name else value for name, value in model.dummy_inputs.items()
        }
        if (
            getattr(config, "vision_config", None) is not None and "pixel_values" not in ids
        ):  # CLIP and its like take both
            pictures = _by_kind("pixel_values", config, model)
            return {**ids, **(pictures or {})} if "pixel_values" in _names(model) else ids
        return ids
    if kind == "pixel_values":
        side = getattr(config, "image_size", None) or 224
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        return {kind: torch.randn(1, getattr(config, "num_channels", 3), height, width, generator=generator)}
    if kind == "input_values":
        return {kind: torch.randn(1, _SAMPLES, generator=generator)}
    if kind == "input_features" and hasattr(config, "num_mel_bins"):
        made = {kind: torch.randn(1, config.num_mel_bins, _FRAMES, generator=generator)}
        if getattr(config, "is_encoder_decoder", False):
            made["decoder_input_ids"] = torch.ones(1, 4, dtype=torch.int64)
        return made
    return None


def _names(model: torch.nn.Module) -> str:
    return str(getattr(model.forward, "__code__", model.forward.__doc__) and model.forward.__code__.co_varnames)


def _vocabulary(config: Any) -> int:
    text = getattr(config, "text_config", None) or config
    return getattr(text, "vocab_size", None) or 2


def guessed_inputs(file: str, model: torch.nn.Module) -> Inputs:
    """Return an input that the first layer takes and forward goes through with on the CPU; raises BadInput without one.

    Only for a forward that needs one argument: a float tensor in place of the others would be an invention.
    """
    parameters = needed(model)
    if parameters is None or len(parameters) != 1:
        raise missing_inputs(file, model)
    (parameter,) = parameters
    layer, name = _first_layer(model)
    if layer is None:
        raise missing_inputs(file, model)
    told = f"the first layer, {name}"
    failed = ""
    for value in _values(layer):
        named = parameter.kind is parameter.KEYWORD_ONLY
        inputs = Inputs((), {parameter.name: value}, told) if named else Inputs((value,), {}, told)
        error = _fails(model, inputs)
        if error is None:
            return inputs
        failed = failed or f" (guessed from {told}, but forward raised {type(error).__name__})"
    raise missing_inputs(file, model, failed)


def _fails(model: torch.nn.Module, inputs: Inputs) -> BaseException | None:
    """Return what a call on the CPU raises of the errors that a wrong shape, dtype or structure causes."""
    was = model.training
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            model.eval()
            model(*inputs.args, **inputs.kwargs)
        except (RuntimeError, ValueError, IndexError, TypeError, KeyError, AttributeError, AssertionError) as error:
            return error
        finally:
            model.train(was)
    return None


def _first_layer(model: torch.nn.Module) -> tuple[nn.Module | None, str]:
    """Return the first part, in the order in which parts were made, whose input is known, and its type's name."""
    for layer in model.modules():
        if isinstance(layer, tuple(kind for kind, _ in _KNOWN)):
            return layer, type(layer).__name__
    return None, ""


_Sizes = tuple[tuple[int, ...], ...]
_KNOWN: tuple[tuple[type[nn.Module], Callable[[Any], _Sizes]], ...] = (
    (nn.Embedding, lambda layer: ((1, min(_WORDS, layer.num_embeddings)), (_STEPS,))),
    (nn.EmbeddingBag, lambda layer: ((1, min(_WORDS, layer.num_embeddings)),)),
    (nn.Conv1d, lambda layer: tuple((1, layer.in_channels, length) for length in (_SAMPLES, 64))),
    (nn.Conv2d, lambda layer: tuple((1, layer.in_channels, side, side) for side in _PICTURES)),
    (nn.Conv3d, lambda layer: tuple((1, layer.in_channels, side, side, side) for side in (32, 16))),
    (nn.modules.conv._ConvNd, lambda layer: ((1, layer.in_channels, *(16 for _ in layer.kernel_size)),)),
    (nn.LazyLinear, lambda _: ((2, _WORDS),)),
    (nn.Linear, lambda layer: ((2, layer.in_features), (2, _STEPS, layer.in_features))),
    (nn.RNNBase, lambda layer: ((2, _STEPS, layer.input_size),)),
    (nn.RNNCellBase, lambda layer: ((2, layer.input_size),)),
    (nn.MultiheadAttention, lambda layer: ((2, _STEPS, layer.embed_dim),)),
    (nn.LayerNorm, lambda layer: ((2, *layer.normalized_shape), (2, _STEPS, *layer.normalized_shape))),
    (nn.RMSNorm, lambda layer: ((2, *layer.normalized_shape), (2, _STEPS, *layer.normalized_shape))),
    (nn.GroupNorm, lambda layer: tuple((2, layer.num_channels, *rest) for rest in ((32, 32), (32,), ()))),
    (nn.modules.batchnorm._NormBase, lambda layer: tuple((2, layer.num_features, *r) for r in ((32, 32), (), (32,)))),
)
"""Kind of layer → sizes that it takes, the most likely first; the first kind that fits counts."""


def _values(layer: nn.Module) -> Iterator[torch.Tensor]:
    """Yield tensors that the layer takes, the most likely first."""
    generator = torch.Generator().manual_seed(0)
    sizes = next(sizes for kind, sizes in _KNOWN if isinstance(layer, kind))(layer)
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        yield from (torch.randint(0, max(1, layer.num_embeddings), size, generator=generator) for size in sizes)
        return
    own = next(layer.parameters(), None)
    dtype = own.dtype if own is not None and own.dtype.is_floating_point else torch.float32
    yield from (torch.randn(size, generator=generator).to(dtype) for size in sizes)
