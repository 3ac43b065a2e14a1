"""The translations that keep missing operators on the device, and where the vendor's word and the results differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db.declared import disagreements, vendor_list
from neuron_ops.coverage_db.queries import every_overload
from neuron_ops.coverage_db.translations import DEVICES, translations
from neuron_ops.op_tests.records import Evidence
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import SCHEMA_VERSION, document, split_suffix
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flask import Response
    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.declared import Disagreement
    from neuron_ops.coverage_db.translations import Choice

site = Blueprint("translations", __name__)

DEVICE_WORDS = {
    "neuron": "a device with the registrations of the vendor’s source",
    "core": "a device with the operators of torch’s core tag and runtime primitives",
}


@site.get("/translators")
def listing() -> str:
    """Return the translations for the vendor's device."""
    return _page(DEVICES[0])


@site.get("/translators.json")
def listing_twin() -> Response:
    """Return the same as JSON."""
    arguments()
    return _twin(DEVICES[0])


@site.get("/translators/<device>")
def device(device: str) -> ResponseReturnValue:
    """Return the translations for one kind of device, or their JSON; answers 404 with the known kinds for another."""
    wanted, as_json = split_suffix(device)
    if wanted not in DEVICES:
        raise NotFound(f"There are no translations for {wanted}: the devices are {', '.join(DEVICES)}.")
    if as_json:
        arguments()
        return _twin(wanted)
    return _page(wanted)


@site.get("/disagreements")
def differing() -> str:
    """Return where the run and the vendor's declared list contradict each other, both directions."""
    arguments()
    run, declared = shown_run(), vendor_list()
    found = disagreements(connection(), run, declared) if run else None
    return render_template(
        "disagreements.html", run=run, declared=declared, found=found, twin=link("translations.differing_twin")
    )


@site.get("/disagreements.json")
def differing_twin() -> Response:
    """Return the same as JSON."""
    arguments()
    run, declared = shown_run(), vendor_list()
    if run is None:
        return jsonify(document(None, declared=declared.title))
    found = disagreements(connection(), run, declared)
    return jsonify(
        document(
            run, declared=declared.title, declared_evidence=Evidence.DECLARED, agreeing=found.agreeing,
            declared_not_native=_rows(found.not_native), on_device_not_declared=_rows(found.not_declared),
            unmatched=list(found.unmatched),
        )
    )  # fmt: skip


def choice_json(choice: Choice) -> dict[str, Any]:
    """Return a translation; all of them were verified on the simulated device."""
    return {**asdict(choice), "host_bytes_avoided": 2 * choice.bytes, "evidence": Evidence.SIMULATED}


def _page(device: str) -> str:
    arguments()
    chosen = translations(device)
    return render_template(
        "translators.html", device=device, devices=DEVICES, device_words=DEVICE_WORDS, choices=chosen,
        sources=Counter(one.source for one in chosen.values()).most_common(),
        partial=sum(bool(one.note) for one in chosen.values()),
        present={op.name for op in every_overload(connection())}, twin=link("translations.device", device=f"{device}.json"),
    )  # fmt: skip


def _twin(device: str) -> Response:
    told = [choice_json(one) for one in translations(device).values()]
    return jsonify(schema_version=SCHEMA_VERSION, device=device, about=DEVICE_WORDS[device], translations=told)


def _rows(found: Iterable[Disagreement]) -> list[dict[str, Any]]:
    return [
        {
            "overload": one.overload, "declaration": asdict(one.declaration) if one.declaration else None,
            "cells": {dtype: mark.status for dtype, mark in one.marks.items()},
        }
        for one in found
    ]  # fmt: skip
