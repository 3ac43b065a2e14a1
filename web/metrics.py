"""Counts and times requests by route for Prometheus, so that thousands of addresses make a few dozen series."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from flask import Blueprint, Response, current_app, g, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from flask import Flask

site = Blueprint("metrics", __name__)

_SECONDS = (0.005, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0, 3.0)
"""The bounds are the site's budgets: 304 10 ms, search 60 ms, operator 100 ms, matrix and difference 300 ms."""


def measure(app: Flask) -> None:
    """Time every request of this application."""
    registry = CollectorRegistry()
    histogram = Histogram(
        "neuron_ops_request_seconds", "Time to answer, by route.", ("route", "method", "status"), buckets=_SECONDS,
        registry=registry,
    )  # fmt: skip
    app.extensions["neuron_ops_metrics"] = registry

    def begin() -> None:
        g.began = time.perf_counter()

    def end(response: Response) -> Response:
        if "began" in g:
            route = request.url_rule.rule if request.url_rule else "none"
            seconds = time.perf_counter() - g.began
            histogram.labels(route, request.method, str(response.status_code)).observe(seconds)
        return response

    app.before_request(begin)
    app.after_request(end)


@site.get("/metrics")
def page() -> Response:
    """Return the counters of all processes of this server, or of this one where PROMETHEUS_MULTIPROC_DIR is not set."""
    registry: CollectorRegistry = current_app.extensions["neuron_ops_metrics"]
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
