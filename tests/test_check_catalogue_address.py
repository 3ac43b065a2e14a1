"""`check --catalogue` takes an https address, and http of this machine alone."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from neuron_ops.cli import fetched
from neuron_ops.cli.fetched import named_catalogue
from neuron_ops.op_tests.capture.evidence import Catalogue, Form, Source, write_catalogue
from neuron_ops.op_tests.records import BadInput, Evidence, Status

CATALOGUE = Catalogue(
    Source("a run elsewhere", "2026-11-30", Evidence.SIMULATED),
    {("aten.relu.default", "float32"): [Form((2,), "forward", {Status.NATIVE: 3})]},
)


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://example.org/catalogue")
            self.end_headers()
            return
        body = {"/good": write_catalogue(CATALOGUE), "/page": b"<html>", "/long": b"x" * 2000}.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_catalogue_is_fetched(address):
    assert named_catalogue(f"{address}/good") == CATALOGUE


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/none", "cannot be fetched"),
        ("/page", "is no catalogue"),
        ("/away", "http://example.org/catalogue is no https address"),
        ("/long", "holds more than 0 MiB"),
    ],
)
def test_what_is_no_catalogue_is_told_in_one_sentence(address, path, words, monkeypatch):
    monkeypatch.setattr(fetched, "LARGEST", 1000)
    with pytest.raises(BadInput, match=words):
        named_catalogue(address + path)


@pytest.mark.parametrize(
    "url", ["http://example.org/c", "ftp://example.org/c", "file:///etc/passwd", "http://127.0.0.1.org/c"]
)
def test_other_addresses_are_not_asked(url, monkeypatch):
    monkeypatch.setattr(fetched, "_fetched", lambda url: pytest.fail(f"asked {url}"))
    with pytest.raises(BadInput, match="is no https address"):
        named_catalogue(url)


def test_a_port_where_nobody_listens(address):
    with pytest.raises(BadInput, match="cannot be fetched"):
        named_catalogue("http://127.0.0.1:9/c")
