"""Knows why code that runs elsewhere does not run here, and says what to change instead of showing a stack."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neuron_ops.op_tests.capture.offline import chain, wanted_network

if TYPE_CHECKING:
    from collections.abc import Collection

CUDA_ONLY = frozenset(
    {"triton", "flash_attn", "flash_attn_interface", "xformers", "apex", "bitsandbytes", "deepspeed", "mamba_ssm", "causal_conv1d",
     "transformer_engine", "vllm", "cupy", "pycuda", "tensorrt", "torch_tensorrt", "cutlass", "flashinfer", "exllamav2",
     "exllama_kernels", "awq_ext", "fused_layer_norm_cuda", "nvidia", "cuda", "numba.cuda", "kaolin", "spconv", "torch_scatter_cuda"}
)  # fmt: skip
"""Modules whose kernels exist for CUDA devices alone."""

_CUDA = re.compile(
    r"not compiled with CUDA|No CUDA GPUs|Found no NVIDIA|CUDA driver|NVIDIA driver|cuda\.is_available\(\) is False|"
    r"CUDA is not available|_cuda_getDeviceCount|module 'torch\._C' has no attribute '_cuda|backend 'CUDA'|device type cuda",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"[Pp]rocess group has not been initialized|init_process_group|environment variable (RANK|WORLD_SIZE|MASTER_ADDR)"
)
_NO_KERNEL = re.compile(r"(?:Could not run '|Cannot access data pointer|no kernel|not implemented for).*", re.DOTALL)


def explanation(error: BaseException, own_modules: Collection[str] = ()) -> str | None:
    """Return a sentence's end that says what is missing here and what to do, or None where the code itself is at fault.

    `own_modules` are the names of files beside the user's: a missing one of these is their mistake.
    """
    for one in chain(error):
        if isinstance(one, ModuleNotFoundError) and one.name and one.name.partition(".")[0] not in own_modules:
            return _missing(one.name)
        if _CUDA.search(str(one)):
            return (
                "it asks for a CUDA device, and a check has none; take the device from an argument or from the inputs, or "
                "ask torch.cuda.is_available() first"
            )
        if _GROUP.search(str(one)):
            return (
                "a collective or a distributed wrapper needs a process group, and a check is one process without any; "
                "check the module inside, or guard the collective with torch.distributed.is_initialized()"
            )
    wanted = wanted_network(error)
    if wanted is not None:
        return (
            f"it wanted {wanted}, and a check has no network and needs none; build the model from its configuration with "
            "random weights, or from files on this disk"
        )
    return None


def _missing(name: str) -> str:
    top = name.partition(".")[0]
    if top in CUDA_ONLY or name in CUDA_ONLY:
        return (
            f"the module {name!r} is not installed, and its kernels are for CUDA alone; guard the import with try and "
            "except ImportError and give a path in plain PyTorch"
        )
    return (
        f"the module {name!r} is not installed here; install it where neuron-ops runs, or guard the import with try and "
        "except ImportError"
    )
