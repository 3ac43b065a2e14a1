"""`neuron-ops serve`: the site on this machine."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import click
from neuron_ops.coverage_db.database import shown
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from flask import Flask


@click.command()
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file; default: that of the settings.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free one.")
def serve(database: str | None, host: str, port: int) -> None:
    """Serve the read-only site until Ctrl-C.

    Meant for one machine; for the public run `gunicorn 'neuron_ops.web:create_app()'`.
    """
    app = _site(database)
    from werkzeug.serving import make_server

    listener = _listener(host, port)
    with listener:
        bound = listener.getsockname()[1]
        server = make_server(host, bound, app, threaded=True, fd=listener.fileno())
        name = f"[{host}]" if ":" in host else host
        click.echo(f"Serving {shown(app.extensions['neuron_ops_engine'].url)}")
        click.echo(f"http://{name}:{bound}/ (Ctrl-C stops)")
        server.serve_forever()  # returns on Ctrl-C


def _site(database: str | None) -> Flask:
    """Return the application; raises BadInput when Flask is not installed or the database cannot be used."""
    try:
        from neuron_ops.web.app import create_app
    except ModuleNotFoundError as error:
        if error.name not in {"flask", "werkzeug", "jinja2", "markupsafe", "apiflask", "pydantic", "prometheus_client"}:
            raise
        raise BadInput("the site needs Flask, which is not installed: run pip install 'neuron-ops[site]'.") from error
    return create_app(database)


def _listener(host: str, port: int) -> socket.socket:
    """Return a bound socket, so that a port in use is known before the server prints anything; raises BadInput."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise BadInput(f"--host {host!r} is no address of this machine: give one such as 127.0.0.1.") from error
    listener = socket.socket(found[0], found[1], found[2])
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
        listener.listen()
    except OSError as error:
        listener.close()
        raise BadInput(_refusal(error, host, port)) from error
    return listener


def _refusal(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: choose another with --port, or --port 0 for a free one."
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"port {port} of {host} needs rights that you do not have: choose one above 1023 with --port."
    return f"cannot listen on {host}, port {port} ({error.strerror}): give an address of this machine with --host."
