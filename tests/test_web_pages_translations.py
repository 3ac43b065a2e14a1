"""Translations on their page and on the operators' pages, and the vendor's word beside the results."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("flask")

from neuron_ops.coverage_db.declared import vendor_list
from neuron_ops.coverage_db.translations import DEVICES, translations
from site_database import fill
from site_reading import get, opened, page, strict


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    fill(path)
    with opened(path) as app:
        yield app


@pytest.mark.parametrize("device", DEVICES)
def test_translations_page_shows_what_the_table_has(site, device):
    told = strict(get(site, f"/translators/{device}.json"))["translations"]
    assert {one["overload"] for one in told} == set(translations(device))
    shown = page(site, f"/translators/{device}")
    assert f"{len(told):,} overloads that" in shown.text
    assert all(one["overload"] in shown.text.replace("\u200b", "") for one in told)
    linked = [link for link in shown.links() if link.startswith("/op/")]
    assert linked
    assert all(page(site, link) for link in linked)  # what the database does not hold has no page
    assert "the devices are neuron, core" in page(site, "/translators/nothing", 404).text


def test_operator_page_tells_its_translation_and_the_vendors_word(site):
    choice = translations("neuron")["aten.sort.default"]
    shown = page(site, "/op/aten.sort.default")
    assert f"{choice.launches} device call" in shown.text
    assert f"Verified in {', '.join(choice.dtypes)}" in shown.text
    assert all(name in shown.text for name in choice.needs)
    assert strict(get(site, "/op/aten.sort.default.json"))["translations"]["neuron"]["launches"] == choice.launches
    said = vendor_list().by_overload["aten.add.Tensor"]
    assert said.source in page(site, "/op/aten.add.Tensor").text
    assert "Not registered." in page(site, "/op/aten.add.Scalar").text


def test_disagreements_go_both_ways(site):
    told = strict(get(site, "/disagreements.json"))
    declared = {row["overload"]: row["cells"] for row in told["declared_not_native"]}
    found = {row["overload"]: row["cells"] for row in told["on_device_not_declared"]}
    assert declared["aten.add.Tensor"] == {"bfloat16": "W", "int64": "U"}
    assert found["aten.add.Scalar"] == {"float32": "N", "bfloat16": "D"}
    assert all(vendor_list().by_overload[name].host is False for name in declared)
    shown = page(site, "/disagreements")
    assert "is built from this very list" in shown.text
    assert "/op/aten.add.Tensor/bfloat16" in shown.links()


def test_a_narrowed_dtype_says_so(site):
    assert "compute in int32" in page(site, "/dtype/int64").text
    assert "compute in" not in page(site, "/dtype/float32").text


def test_the_site_needs_no_torch():
    code = "import sys; import neuron_ops.web; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
