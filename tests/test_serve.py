"""`neuron-ops serve`: its address, its end, and what it refuses."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

pytest.importorskip("flask")

from click.testing import CliRunner
from neuron_ops.cli.serve import serve
from neuron_ops.op_tests.records import BadInput


def test_the_site_needs_no_torch():
    code = "import sys, neuron_ops.web, neuron_ops.cli.serve; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_serve_prints_its_address_and_stops_on_interrupt(tmp_path):
    command = [sys.executable, "-c", "from neuron_ops.cli.main import main; main()", "serve", "--port", "0"]
    with subprocess.Popen([*command, "--db", str(tmp_path / "x.sqlite")], stdout=subprocess.PIPE, text=True) as server:
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", line := server.stdout.readline())):
                assert line, "the server ended without an address"
            with urlopen(f"{found.group()}healthz", timeout=20) as response:
                assert json.load(response)["ok"] is True
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()


def test_serve_refuses_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(serve, ["--db", str(tmp_path / "x.sqlite"), "--port", str(port)])
    assert isinstance(result.exception, BadInput)
    assert f"port {port} of 127.0.0.1 is in use" in str(result.exception)


def test_serve_without_flask_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "flask" or name.startswith("neuron_ops.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flask", None)
    result = CliRunner().invoke(serve, [])
    assert isinstance(result.exception, BadInput)
    assert "pip install 'neuron-ops[site]'" in str(result.exception)
