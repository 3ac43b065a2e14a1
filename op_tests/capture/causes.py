"""Knows why code that runs elsewhere does not run here, and says what to change instead of showing a stack."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from neuron_ops.op_tests.capture.offline import chain, wanted_network

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
_SPARSE = re.compile(
    r"Sparse(CPU|Csr|Meta|CUDA|PrivateUse1)|sparse_(coo|csr|csc|bsr|bsc)|_sparse_\w+_tensor|aten::_?sparse",
    re.IGNORECASE,
)


def explanation(error: BaseException, folder: Path) -> str | None:
    """Return a sentence's end that says what is missing here and what to do, or None where the code itself is at fault.

    `folder` is what the user's file is imported from: a module that is missing there is their mistake.
    """
    own_modules = {path.stem for path in folder.iterdir()}
    for one in chain(error):
        if isinstance(one, ModuleNotFoundError) and one.name and one.name.partition(".")[0] not in own_modules:
            return _missing(one.name)
        if isinstance(one, SystemExit):
            return _left(one)
        if _CUDA.search(str(one)):
            return (
                "it asks for a CUDA device, and a check has none; take the device from an argument or from the inputs, or "
                "ask torch.cuda.is_available() first"
            )
        found = _SPARSE.search(str(one).partition("\n")[0])
        if found:
            layout = "sparse_csr" if "csr" in found[0].lower() else "sparse_coo"
            return (
                f"it uses a sparse tensor (layout {layout}), and the device has dense ones alone ({first_words(one)}); keep it "
                "dense, or write the product with index_select and index_add"
            )
        if isinstance(one, FileNotFoundError) and one.filename and (folder / str(one.filename)).exists():
            return f"there is no {one.filename!r} in {Path.cwd()}, but beside the file; run the check from {folder}"
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


def _left(error: SystemExit) -> str:
    """Return what to do about code that ends its process."""
    frames = traceback.extract_tb(error.__traceback__)
    if any(Path(frame.filename).name == "argparse.py" for frame in frames):
        return (
            "it reads the command line and misses arguments there; give them after --, such as "
            "`neuron-ops check FILE.py -- --width 5`"
        )
    code = "" if error.code is None else repr(error.code)
    return (
        f"the code called sys.exit({code}), so nothing was judged; a check imports the file, so put what ends the process "
        'under `if __name__ == "__main__"`'
    )


def first_words(error: BaseException) -> str:
    """Return the first sentence of the error's text."""
    return str(error).partition("\n")[0].partition(". ")[0]


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
