"""Translators go into the dispatcher and out again, and serve what they should and nothing else."""

import gc
import threading
import warnings
import weakref
from dataclasses import replace

import pytest
import torch
from neuron_ops import translators
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.records import Route
from neuron_ops.op_tests.targets import sim
from neuron_ops.translators import choices, installation
from neuron_ops.translators.installation import install_candidates
from neuron_ops.translators.registry import Refused
from neuron_ops.translators.sources import Candidate
from neuron_ops.translators.variants import derive

TARGET = sim.Sim()
aten = torch.ops.aten


def offered(overload, function, dtypes=None):
    return install_candidates([(Candidate(overload, "ours", function), dtypes)])


def served(overload, *args, **kwargs):
    """Return the result of a call on the device and how it was served."""
    TARGET.clear()
    result = catalogue.resolve(overload)(*args, **kwargs)
    return result, TARGET.served(overload)


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    translators.uninstall()
    assert translators.installed() == {}


def hardswish(self):
    return self * torch.clamp(self + 3, 0, 6) / 6


def test_a_translated_call_says_so_and_names_its_parts():
    x = torch.randn(4, device="neuron")
    assert served("aten.hardswish.default", x)[1].route is Route.FALLBACK
    with offered("aten.hardswish.default", hardswish) as added:
        assert added.overloads == ("aten.hardswish.default",)
        assert translators.installed() == {"aten.hardswish.default": "ours"}
        result, how = served("aten.hardswish.default", x)
        torch.testing.assert_close(result.cpu(), torch.nn.functional.hardswish(x.cpu()))
        assert (how.route, how.composite) == (Route.TRANSLATED, True)
        assert {part.overload.split(".")[1] for part in how.parts} == {"mul", "add", "clamp", "div"}
    assert served("aten.hardswish.default", x)[1].route is Route.FALLBACK


def test_a_part_on_the_host_makes_the_call_a_fallback():
    with offered("aten.hardswish.default", lambda self: torch.lgamma(self)):
        assert served("aten.hardswish.default", torch.ones(2, device="neuron"))[1].route is Route.FALLBACK


def test_what_the_device_serves_itself_is_left_alone():
    assert "aten.relu.default" in torch.neuron.native_overloads()
    assert offered("aten.relu.default", lambda self: self + 1).overloads == ()
    own = install_candidates(
        [(Candidate("aten.hardswish.default", "ours", hardswish), None)], {"aten.hardswish.default"}
    )
    assert own.overloads == ()


def test_dtypes_that_were_not_verified_are_served_as_before():
    with offered("aten.hardswish.default", hardswish, ("float32",)):
        assert served("aten.hardswish.default", torch.ones(2, device="neuron"))[1].route is Route.TRANSLATED
        half = torch.ones(2, device="neuron", dtype=torch.bfloat16)
        assert served("aten.hardswish.default", half)[1].route is Route.FALLBACK


def test_a_call_that_the_translator_refuses_is_served_as_before():
    def refuses(self):
        raise NotImplementedError("complex numbers")

    with offered("aten.hardswish.default", refuses):
        result, how = served("aten.hardswish.default", torch.ones(2, device="neuron"))
    assert how.route is Route.FALLBACK
    torch.testing.assert_close(result.cpu(), torch.nn.functional.hardswish(torch.ones(2)))


def test_a_refusal_leaves_no_trace_of_the_translator():
    def refuses(self):
        raise NotImplementedError("no")

    x = torch.ones(2, device="neuron")
    for overload, route in (("aten.hardswish.default", Route.FALLBACK), ("aten.square.default", Route.NATIVE)):
        _, before = served(overload, x)
        with offered(overload, refuses) as added:
            assert added.overloads == (overload,)
            assert served(overload, x)[1] == before
        assert (before.route, before.composite) == (route, route is Route.NATIVE)


def test_a_cpu_tensor_beside_device_tensors_is_refused_as_without_translators():
    x, host = torch.ones(2, device="neuron"), torch.ones(2)
    calls = (lambda: torch.atan2(x, host), lambda: torch.atan2(x, x, out=host))
    for call in calls:
        said = []
        for only in ("aten.hardswish.default", "aten.atan2*"):
            with translators.install(only=only), pytest.raises(RuntimeError) as error:
                call()
            said.append(str(error.value))
        assert "same device" in said[0]
        assert said[1] == said[0]
    with translators.install(only="aten.atan2*"):
        assert (
            served("aten.atan2.default", x, torch.tensor(1.0))[1].route is Route.TRANSLATED
        )  # a number may be anywhere


def test_a_structured_overload_is_native_where_its_out_form_is():
    both = [(Candidate(name, "ours", torch.lt), None) for name in ("aten.lt.Scalar", "aten.lt_.Scalar")]
    assert install_candidates(both, {"aten.lt.Scalar_out"}).overloads == ()
    assert install_candidates(both, {"aten.lt.Tensor_out"}).overloads == ("aten.lt.Scalar", "aten.lt_.Scalar")


def test_a_backend_without_any_kernel_for_the_overload():
    op, has = aten.hardswish.default, torch._C._dispatch_has_kernel_for_dispatch_key
    before = torch._C._dispatch_dump_table(op.name())
    with translators.install(device="xla", only="aten.hardswish*") as added:
        assert str(op) in added.overloads
        assert has(op.name(), "XLA")
    assert torch._C._dispatch_dump_table(op.name()) == before
    with pytest.raises(NotImplementedError, match=r"Could not run 'aten::hardswish' .* 'XLA' backend"):
        installation._before(op, "XLA")(torch.ones(2))


def test_rows_that_this_torch_has_no_use_for_are_skipped_with_the_reason(monkeypatch):
    row = choices.shipped_choices()["aten.hardswish.default"]
    table = {"aten.gone.default": row, "aten.relu6.default": replace(row, source="torch post_autograd, derived")}
    monkeypatch.setattr(installation, "shipped_choices", lambda: table)
    with translators.install() as added:
        assert added.overloads == ()
        assert added.skipped == {
            "aten.gone.default": f"there is no such overload in torch {torch.__version__}",
            "aten.relu6.default": f"torch post_autograd, derived has no function for it in torch {torch.__version__}",
        }


def test_a_translator_that_reaches_itself_is_served_as_before_with_one_warning():
    installation._warned.clear()
    x = torch.ones(2, device="neuron")
    with offered("aten.hardswish.default", lambda self: torch.nn.functional.hardswish(self)):
        with pytest.warns(UserWarning, match="aten.hardswish.default reaches aten.hardswish.default again"):
            result, how = served("aten.hardswish.default", x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            served("aten.hardswish.default", x)
    assert how.route is Route.FALLBACK
    torch.testing.assert_close(result.cpu(), torch.nn.functional.hardswish(torch.ones(2)))


def test_gradients_go_through_the_backward_overload():
    x = torch.randn(4, device="neuron", requires_grad=True)
    y = x.detach().cpu().requires_grad_()
    with offered("aten.hardswish.default", hardswish):
        torch.nn.functional.hardswish(x).sum().backward()
    torch.nn.functional.hardswish(y).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.grad)


def test_vmap_functional_call_autocast_and_compile_still_work():
    x = torch.randn(3, 4, device="neuron")
    want = torch.nn.functional.hardswish(x.cpu())
    module = torch.nn.Hardswish()
    with offered("aten.hardswish.default", hardswish):
        torch.testing.assert_close(torch.vmap(torch.nn.functional.hardswish)(x).cpu(), want)
        torch.testing.assert_close(torch.func.functional_call(module, {}, (x,)).cpu(), want)
        with torch.autocast("neuron", dtype=torch.bfloat16):
            torch.testing.assert_close(module(x).cpu(), want)
        compiled = torch.compile(module, backend="aot_eager")
        torch.testing.assert_close(compiled(x).cpu(), want)


def test_the_dispatcher_is_afterwards_what_it_was_before():
    names = [o.name for o in catalogue.operators() if o.excluded is None]

    def tables():
        return {
            name: (torch._C._dispatch_dump(op := catalogue.resolve(name).name()), torch._C._dispatch_dump_table(op))
            for name in names
        }

    before = tables()
    with translators.install() as added:
        assert len(added.overloads) > 100
        assert tables() != before
    assert tables() == before


def test_installing_twice_adds_nothing_and_threads_do_not_disturb_each_other():
    with translators.install() as first:
        assert translators.install().overloads == ()
        x = torch.ones(2, device="neuron")
        errors = []

        def call():
            try:
                for _ in range(50):
                    torch.nn.functional.hardswish(x)
            except RuntimeError as error:
                errors.append(error)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        translators.uninstall(first.overloads[::2])
        for thread in threads:
            thread.join()
        assert not errors
        assert set(translators.installed()) == set(first.overloads[1::2])


def test_a_kernel_outlives_its_removal_for_threads_that_looked_it_up(monkeypatch):
    x = torch.ones(2, device="neuron")

    def used():
        def function(self):
            return self * 1

        with offered("aten.hardswish.default", function):
            torch.nn.functional.hardswish(x)
        return weakref.ref(function)

    kept = used()
    gc.collect()
    assert kept() is not None
    monkeypatch.setattr(installation, "_GRACE_SECONDS", -1)
    used()
    gc.collect()
    assert kept() is None


def test_choosing_by_name_and_glob():
    with translators.install(only=["aten.hardswish*"], exclude=["*backward*"]) as added:
        assert added.overloads
        assert all("hardswish" in name and "backward" not in name for name in added.overloads)
    with pytest.raises(ValueError, match=r"no translator matches 'aten\.nope\*'"):
        translators.install(only=["aten.nope*"])
    with pytest.raises(ValueError, match="unknown device 'toaster'"):
        translators.install(device="toaster")


class TestRefusalsOfFunctionsThatWrite:
    """A call whose arguments were changed is never served a second time."""

    def test_a_late_refusal_is_an_error(self):
        def spoiled(self):
            self.fill_(7.0)
            raise NotImplementedError("an operator below has no kernel")

        x = torch.ones(3, device="neuron")
        with offered("aten.floor_.default", spoiled), pytest.raises(NotImplementedError, match="an operator below"):
            x.floor_()
        assert x.cpu().tolist() == [7.0] * 3

    def test_an_early_refusal_is_served_by_the_device(self):
        def refusing(self):
            raise Refused("not this call")

        x = torch.full((3,), 1.5, device="neuron")
        with offered("aten.floor_.default", refusing):
            x.floor_()
        assert x.cpu().tolist() == [1.0] * 3

    def test_a_derived_form_refuses_before_it_writes(self):
        def functional(self):
            raise NotImplementedError("an operator below has no kernel")

        derived = derive(torch.ops.aten.floor_.default, functional)
        x = torch.full((3,), 1.5, device="neuron")
        with offered("aten.floor_.default", derived):
            x.floor_()
        assert x.cpu().tolist() == [1.0] * 3
