"""The three steps of README's "How to add a translator" work as they are written there."""

import re
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from conftest import write_bank
from neuron_ops import translators
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.records import Route
from neuron_ops.op_tests.targets import sim
from neuron_ops.op_tests.translation.trials import Trial, refused_because, try_all
from neuron_ops.translators import families, registry
from neuron_ops.translators.installation import install_candidates
from neuron_ops.translators.sources import Candidate, function_of

HARDSWISH, IN_PLACE = "aten.hardswish.default", "aten.hardswish_.default"
README = Path(__file__).parents[1] / "README.md"


def guide():
    """Return the code of step 1."""
    text = README.read_text("utf-8").partition("- **a translator**, in three steps:")[2].partition("\n- **")[0]
    assert "`FAMILIES` of `translators/families.py`" in text
    assert f"neuron-ops translators plan '{HARDSWISH.removesuffix('.default')}*' --write" in text
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return textwrap.dedent(code)


@pytest.fixture
def added(monkeypatch, tmp_path):
    """Steps 1 and 2: a family file with the guide's code, the only one that is named."""
    (tmp_path / "guide_family.py").write_text(guide(), "utf-8")
    monkeypatch.setattr(translators, "__path__", [*translators.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "REGISTRY", {})
    monkeypatch.setattr(families, "REGISTRY", registry.REGISTRY)
    monkeypatch.setattr(families, "FAMILIES", ("guide_family",))
    families.load.cache_clear()
    yield families.load()
    families.load.cache_clear()
    del sys.modules["neuron_ops.translators.guide_family"]


def test_steps_one_and_two_register_it(added):
    assert list(added) == [HARDSWISH]
    assert added[HARDSWISH].source == "Howard et al. 2019"


def test_step_three_verifies_it_and_its_derived_form(added, tmp_path):
    matrix = torch.linspace(-4, 4, 12).reshape(3, 4)
    for dtype in ("float32", "bfloat16"):
        calls = {name: [((matrix.to(getattr(torch, dtype)),), {})] for name in (HARDSWISH, IN_PLACE)}
        write_bank(tmp_path, calls, dtype)
    trials = [
        Trial(HARDSWISH, "ours", ("float32", "bfloat16")),
        Trial(IN_PLACE, "ours, derived", ("float32", "bfloat16")),
    ]
    found = {(r.trial.overload, r.dtype): refused_because(r) for r in try_all(tmp_path, trials, {})}
    assert found == {(name, dtype): "" for name in (HARDSWISH, IN_PLACE) for dtype in ("float32", "bfloat16")}


def test_installed_it_serves_the_device_and_a_refusal_goes_to_the_host(added):
    target, call = sim.Sim(), catalogue.resolve(HARDSWISH)
    with install_candidates([(Candidate(HARDSWISH, "ours", function_of(HARDSWISH, "ours")), None)]):
        for values, route in ((torch.randn(4), Route.TRANSLATED), (torch.randn(4).to(torch.complex64), Route.FALLBACK)):
            x = values.to("neuron")
            target.clear()
            if route is Route.TRANSLATED:
                torch.testing.assert_close(call(x).cpu(), torch.nn.functional.hardswish(values))
            else:
                with pytest.raises(RuntimeError, match="not implemented for"):
                    call(x)
            assert target.served(HARDSWISH).route is route
