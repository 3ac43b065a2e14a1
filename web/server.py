"""Settings of gunicorn: ``gunicorn -c python:neuron_ops.web.server 'neuron_ops.web:create_app()'``.

Options of its command line and of GUNICORN_CMD_ARGS come before these.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import Any

bind = "127.0.0.1:8000"
worker_class = "gthread"
workers = 2
threads = 4
keepalive = 30
"""Seconds; longer than that of the proxy before it would be wrong, of which most wait 15."""
max_requests = 20_000
max_requests_jitter = 2_000
control_socket_disable = True  # nobody needs it, and it would lie in the home of whoever starts this

# Each process counts in a file of its own; /metrics adds them up. Chosen before the library is imported.
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="neuron-ops-metrics-")

    def _clean(owner: int = os.getpid()) -> None:
        if os.getpid() == owner:  # and not a worker that ends
            shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)

    atexit.register(_clean)


def child_exit(_server: object, worker: Any) -> None:
    """Forget the counters that mean nothing once their process is gone."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
