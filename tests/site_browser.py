"""The site served to a real browser, for the tests that need one."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from neuron_ops.web import create_app
from playwright.sync_api import sync_playwright
from site_database import NEW, fill
from werkzeug.serving import make_server

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
BEFORE = {**NEW, "aten.gelu.default": {**NEW["aten.gelu.default"], "bfloat16": ["native"]}}
"""The run before NEW: gelu in bfloat16 is native there and an error in NEW."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "x.sqlite"
    fill(path, (BEFORE, NEW))
    app = create_app(str(path))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    app.extensions["neuron_ops_engine"].dispose()


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        reason = f"there is no Chromium at {CHROMIUM}; install it or name one with CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def tab(chromium, address, *, width=1280, scripts=False, **options):
    """Open a tab, by default with scripts off; at its end no complaint may be on the console and no request may have left."""
    context = chromium.new_context(java_script_enabled=scripts, viewport={"width": width, "height": 800}, **options)
    opened, complaints, requests = context.new_page(), [], []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    # a click may leave a page before its icon has come: the browser drops that request, which is nobody's fault
    opened.on("requestfailed", lambda r: complaints.append(r.url) if r.failure != "net::ERR_ABORTED" else None)
    context.on("request", lambda request: requests.append(request.url))
    yield opened
    context.close()
    assert complaints == []
    assert requests
    assert [url for url in requests if not url.startswith(f"{address}/")] == []
