"""Names the files that register translators, one an operator family, and loads them.

Imported by translators.sources.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from neuron_ops.translators.registry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.translators.registry import Translator

FAMILIES = (
    "activations", "arithmetic", "bessel", "complex_functions", "complexes", "convolution", "counting", "ctc",
    "distances", "eigenvalues", "elementary", "embedding_bags", "errors", "factories", "factorization", "foreach",
    "fourier", "gamma", "group_norm", "histograms", "incomplete", "indefinite", "indexing", "least_squares",
    "losses", "masking", "matrix_exponential", "maxima", "normalization", "optimizers", "padding", "polynomials",
    "pooling", "products", "quantization", "random", "recurrent", "reductions", "resampling", "rounding", "sampling",
    "scans", "segments", "sorting", "spectral", "triangular",
)  # fmt: skip
"""Modules of this package. A new family is one file and one name here."""


@functools.cache
def load() -> Mapping[str, Translator]:
    """Return overload → translator of all families; the first call imports them (40 ms after torch).

    Raises Unregistrable where one does not fit this torch.
    """
    for family in FAMILIES:
        importlib.import_module(f"neuron_ops.translators.{family}")
    return REGISTRY
