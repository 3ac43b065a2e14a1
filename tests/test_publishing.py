"""Which run the public numbers come from, and that every form of them says the same."""

from __future__ import annotations

import csv
import io
import re

import pytest
from neuron_ops.cli.main import run as neuron_ops
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.publishing import public_run, public_runs
from neuron_ops.coverage_db.queries import run_by_slug
from neuron_ops.coverage_db.recorder import finalize_run, record_operators, record_results, start_run
from neuron_ops.coverage_db.trend import core_native
from neuron_ops.op_tests.records import (
    Build,
    Case,
    Denominators,
    Evidence,
    Operator,
    Outcome,
    Result,
    Route,
)
from site_reading import get, opened, page, strict

NAMES = [f"aten.op{number:03}.default" for number in range(200)]
OPERATORS = [Operator(name, f"{name}()", ("core",), "other", "functional", "T1", None) for name in NAMES]
DOES = {
    "N": (Outcome.PASS, Route.NATIVE),
    "C": (Outcome.PASS, Route.FALLBACK),
    "T": (Outcome.TIMEOUT, None),
    "-": (Outcome.SKIPPED, None),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.sqlite"


def sweep(path, letters, target="sim", evidence=Evidence.SIMULATED):
    """Store a done run whose first overloads do these letters, one case each, and return its name."""
    engine = open_database(str(path))
    cases = [Case(name, "float32", "opinfo/x/forward/0") for name in NAMES[: len(letters)]]
    with write(engine) as conn:
        record_operators(conn, OPERATORS)
        start = start_run(
            conn, build=Build(target, evidence, {"torch": "2.13.0"}), cases=cases, seed=0, selection=str(len(letters)),
            denominators=Denominators("2.13.0", 200, 200, 200, 200, {}),
        )  # fmt: skip
        record_results(
            conn, start.run_id,
            [Result(case.key, *DOES[letter]) for case, letter in zip(cases, letters, strict=True)],
        )  # fmt: skip
        finalize_run(conn, start.run_id)
    engine.dispose()
    return start.slug


def stored(path, slug):
    engine = open_database(str(path))
    with read(engine) as conn:
        found = run_by_slug(conn, slug)
    engine.dispose()
    return found


def shown(path):
    engine = open_database(str(path))
    with read(engine) as conn:
        found = public_run(conn)
        others = list(public_runs(conn))
    engine.dispose()
    return found.slug if found else None, others


@pytest.mark.parametrize(
    ("letters", "reason"),
    [
        ("N" * 179, "It measured 179 cells and the published run {full} 200: with less than 90% of them"),
        ("N" * 179 + "-" * 21, "It measured 179 cells"),
        ("N" * 189 + "T" * 11 + "", None),  # 5.5 %, but too few cells to prove a fault
        (
            "N" * 179 + "C" * 21,
            "21 of the 200 cells that it shares with the published run {full} got worse: more than 10%",
        ),
        ("N" * 180 + "C" * 20, None),
        ("-" * 200, "It measured no cell at all."),
        ("N" * 180, None),
    ],
)
def test_a_run_is_published_or_quarantined(path, letters, reason):
    full = sweep(path, "N" * 200)
    slug = sweep(path, letters)
    if reason is None:
        assert stored(path, slug).quarantine is None
        assert shown(path)[0] == slug
    else:
        assert stored(path, slug).quarantine.startswith(reason.format(full=full))
        assert shown(path)[0] == full


def test_crashes_and_timeouts_quarantine_a_first_run_too(path):
    slug = sweep(path, "N" * 180 + "T" * 20)
    assert stored(path, slug).quarantine == ("20 of the 200 cells that it measured crashed or timed out: more than 5%.")
    assert shown(path) == (None, [])
    with opened(path) as site:
        told = page(site, "/").text
        assert "0 cells measured on hardware; 0 simulated." in told
        assert "No run is published" in told
        assert strict(get(site, "/badge/core-native.json"))["message"] == "untested"


def test_the_device_goes_first_and_translators_last(path):
    sim = sweep(path, "C" * 200)
    sweep(path, "N" * 200, "sim+translators")
    sweep(path, "N" * 200, "cuda", Evidence.HARDWARE)
    assert shown(path) == (sim, ["sim", "cuda", "sim+translators"])
    sweep(path, "N" * 20, "neuron", Evidence.HARDWARE)
    assert shown(path)[0] == sim, "a few cells on the device do not hide the whole"
    device = sweep(path, "N" * 190, "neuron", Evidence.HARDWARE)
    assert shown(path) == (device, ["neuron", "sim", "cuda", "sim+translators"])


def numbers_everywhere(site):
    """Return the number core-native as page, JSON, CSV, NDJSON, badge and API print it: n, m."""
    card = page(site, "/").text
    told = {"page": re.search(r"Core operators native on the device [\d.]+ % ([\d,]+) of ([\d,]+)", card).groups()}
    number = strict(get(site, "/index.json"))["numbers"][0]
    told["json"] = number["n"], number["m"]
    row = next(csv.DictReader(io.StringIO(get(site, "/index.csv"))))
    told["csv"] = row["n"], row["m"]
    line = strict(get(site, "/index.ndjson").splitlines()[0])
    told["ndjson"] = line["n"], line["m"]
    told["badge"] = re.match(r"([\d,]+) of ([\d,]+)", strict(get(site, "/badge/core-native.json"))["message"]).groups()
    told["definition"] = re.search(r"([\d,]+) of ([\d,]+)", page(site, "/numbers").text).groups()
    api = strict(get(site, "/api/v1/numbers"))["numbers"][0]
    told["api"] = api["n"], api["m"]
    return {form: tuple(int(str(one).replace(",", "")) for one in pair) for form, pair in told.items()}


def test_every_form_of_a_number_comes_from_the_published_run(path):
    full = sweep(path, "N" * 190 + "C" * 10)
    quarantined = sweep(path, "C" * 200)
    with opened(path) as site:
        assert set(numbers_everywhere(site).values()) == {(190, 400)}
        assert strict(get(site, "/index.json"))["run"]["slug"] == full
        assert strict(get(site, "/healthz"))["latest_run"] == full
        assert quarantined not in get(site, "/regressions.atom")
        assert quarantined not in get(site, "/changes.atom")
        assert quarantined not in get(site, "/regressions")
        told = page(site, f"/run/{quarantined}").text
        assert "Quarantined: no public number comes from this run. 190 of the 200 cells" in told
        assert "done, quarantined" in page(site, "/runs").text


def test_a_released_run_is_published(path, capsys):
    full = sweep(path, "N" * 200)
    slug = sweep(path, "C" * 200)
    assert neuron_ops(["runs", "--db", str(path)]) == 0
    assert "done, quarantined" in capsys.readouterr().out
    assert neuron_ops(["runs", "release", slug, "--db", str(path)]) == 0
    assert shown(path)[0] == slug
    with opened(path) as site:
        assert "released by hand on" in page(site, f"/run/{slug}").text
        assert set(numbers_everywhere(site).values()) == {(0, 400)}
    assert neuron_ops(["runs", "--db", str(path)]) == 0
    assert "done, released" in capsys.readouterr().out
    assert neuron_ops(["runs", "release", full, "--db", str(path)]) == 2
    assert "is done and not quarantined" in capsys.readouterr().err


def test_method_names_the_limits_in_force(path):
    sweep(path, "N")
    with opened(path) as site:
        told = page(site, "/methodology").text
    assert "more than 5% of its cells, and 20 at least" in told
    assert "less than 90% of the cells" in told
    assert "more than 10% of the cells" in told


def test_coverage_over_builds_is_the_published_number_of_each_run(path):
    slugs = [sweep(path, "N" * count + "C" * (200 - count)) for count in (180, 190, 200)]
    bad = sweep(path, "C" * 200)
    engine = open_database(str(path))
    with read(engine) as conn:
        points = core_native(conn, "sim")
        assert [point.run.slug for point in points] == slugs
        for point in points:
            number = numbers(conn, point.run.id)[0]
            assert (point.n, point.m) == (number.n, number.m)
    engine.dispose()
    with opened(path) as site:
        told = page(site, "/runs")
        columns = [a for a in told.of("rect") if "y" in a]
        assert [a["height"] for a in columns] == ["45.000%", "47.500%", "50.000%"]
        assert [a["y"] for a in columns] == ["55.000%", "52.500%", "50.000%"]
        assert "200 of 40050.0 %" in told.text, "the table beside the chart"
        assert f"{bad}: " not in told.text
