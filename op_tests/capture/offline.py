"""Refuses the network to the code of this process, and says afterwards what it wanted there."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DIFFUSERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1", "WANDB_MODE": "disabled", "DO_NOT_TRACK": "1",
}  # fmt: skip
"""What libraries read to know that they are offline: they then look into their caches at once, not after retries."""

_NAMES = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
_CALLS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"})
_OFFLINE_ERRORS = frozenset({"OfflineModeIsEnabled", "LocalEntryNotFoundError", "ConnectionError", "ConnectError"})
_PROGRAMS = frozenset({"wget", "curl", "aria2c", "huggingface-cli", "hf", "gsutil", "aws"})
"""Programs that do nothing without the network; they are no Python code, so their sockets are not seen here."""


class NetworkRefused(ConnectionRefusedError):  # noqa: N818 - an answer, not a fault
    """The code wanted the network."""


def refuse_network() -> None:
    """Make every use of the network by Python code in this process raise NetworkRefused, for the rest of its life.

    An audit hook, because it also sees libraries that call `_socket` directly. Sockets between processes of this
    machine's file system (AF_UNIX) go on: data loaders talk over them.
    """
    os.environ.update(SETTINGS)
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event in _NAMES and args[0] not in (None, "", "localhost", socket.gethostname()):
        raise NetworkRefused(f"a check has no network: {':'.join(str(part) for part in args[:2] if part)}")
    if event in _CALLS and args[0].family in (socket.AF_INET, socket.AF_INET6):
        if event == "socket.bind":
            return  # asking for a free port harms nobody, and nothing can come in
        raise NetworkRefused(f"a check has no network: {':'.join(str(part) for part in args[1][:2])}")
    if event in ("subprocess.Popen", "os.system"):
        name = _program(args[1] if event == "subprocess.Popen" else args[0])
        if name in _PROGRAMS:
            raise NetworkRefused(f"a check has no network: {name}")


def _program(command: Any) -> str:
    """Return the program's name, in a shell's command that of its first word."""
    words = [os.fsdecode(word) for word in (command if isinstance(command, (list, tuple)) else [command])]
    if len(words) > 2 and words[1] == "-c":
        words = words[2:]
    return Path((words[0].split() or [""])[0]).name if words else ""


def wanted_network(error: BaseException) -> str | None:
    """Return what the code asked for when the error, or one behind it, came from the missing network; else None."""
    for one in chain(error):
        if isinstance(one, NetworkRefused):
            return str(one).rpartition("network: ")[2]
        if type(one).__name__ in _OFFLINE_ERRORS or "offline mode" in str(one):
            return "the Hugging Face hub" if "uggingface" in f"{type(one).__module__} {one}" else "a server"
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those that led to it, each once."""
    seen: set[int] = set()
    following: list[BaseException | None] = [error]
    while following:
        one = following.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            following += [one.__context__, one.__cause__]
