"""What several test files share: a small bank of hand-made samples, and a session on the simulated device."""

import hashlib
import warnings
from pathlib import Path

import pytest
import torch
from neuron_ops.op_tests import bank as banks
from neuron_ops.op_tests.packing import pack


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Results and times must not depend on how many cores there are."""
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """Run first what forks children that compute gradients: torch forbids it after this process has run device backward."""
    items.sort(key=lambda item: item.get_closest_marker("forks") is None)


def write_bank(folder, samples, dtype="float32", seed=0, variants=("forward",)):
    """Write a bank file with samples {overload: [(args, kwargs), ...]}, all with the same variants."""
    path = banks.bank_file(folder, dtype, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with banks.BankWriter(path, dtype, seed) as writer:
        for overload, calls in samples.items():
            for number, (args, kwargs) in enumerate(calls):
                writer.add(overload, f"hand/{number}", pack(args, kwargs), variants)
    return folder


ROOT = Path(__file__).parents[1]
RECORDERS = (
    "agreement.py", "bank.py", "calls.py", "candidates.py", "casting.py", "catalogue.py", "derivation.py", "donors.py",
    "isolation.py", "packing.py", "recording.py", "records.py", "search.py", "shelves.py", "sources.py", "stock.py", "trials.py",
    "axes/*.py", "generators/*.py", "data/*.toml",
)  # fmt: skip


def bank_cache():
    """Return a cache folder that is new whenever the code that records has changed: recording takes a minute and more."""
    files = sorted(path for pattern in RECORDERS for path in (ROOT / "op_tests").glob(pattern))
    sources = b"".join(path.read_bytes() for path in files)
    return ROOT / "build" / f"test-bank-{hashlib.sha256(sources).hexdigest()[:12]}"


@pytest.fixture(scope="session")
def cache():
    """The folder of `bank_cache`."""
    return bank_cache()


@pytest.fixture
def bank_folder(tmp_path):
    """A folder with a bank of a handful of float32 samples."""
    torch.manual_seed(0)
    matrix, other = torch.randn(3, 4), torch.randn(3, 4)
    special = torch.tensor([[float("inf"), -float("inf"), float("nan"), 0.0], [-0.0, 1.0, 2.0, 3.0]])
    return write_bank(
        tmp_path,
        {
            "aten.add.Tensor": [((matrix, other), {}), ((special, torch.zeros(2, 4)), {})],
            "aten.add_.Tensor": [((matrix.clone(), other), {})],
            "aten.add.out": [((matrix, other), {"out": torch.zeros(3, 4)})],
            "aten.mul.Tensor": [((special, torch.ones(2, 4)), {})],
            "aten.lgamma.default": [((matrix.abs() + 1,), {})],
            "aten.atan2.default": [((matrix, other), {})],
            "aten.linear.default": [((matrix, torch.randn(2, 4), torch.randn(2)), {})],
            "aten.relu.default": [((matrix,), {})],
            "aten.empty_like.default": [((matrix,), {})],
            "aten.bitwise_and.Tensor": [((matrix, other), {})],
        },
    )


@pytest.fixture
def session(bank_folder):
    """A session on the simulated device over the small bank."""
    from neuron_ops.op_tests.runner import open_session

    with warnings.catch_warnings():
        yield open_session("sim", bank_folder, {})
