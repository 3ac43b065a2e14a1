"""Names this process so that another one on the same machine can tell whether it still lives (Linux)."""

from __future__ import annotations

import os
import secrets
from functools import cache
from pathlib import Path


def new_owner() -> str:
    """Return a name that no other owner has: machine boot and process namespace, process, its start, random digits."""
    pid = os.getpid()
    return f"{_place()}/{pid}/{_started(pid)}/{secrets.token_hex(6)}"


def is_dead(owner: str) -> bool:
    """Return whether the owner was a process here that has ended; False for one elsewhere, which cannot be known."""
    parts = owner.rsplit("/", 3)
    if len(parts) != 4 or parts[0] != _place():
        return False
    return _started(int(parts[1])) != parts[2]


@cache
def _place() -> str:
    # Two containers of one machine share its boot id and not the numbers of their processes.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    space = Path("/proc/self/ns/pid").readlink()
    return f"{boot}/{space}"


def _started(pid: int) -> str:
    """Return when a process started, in ticks since the boot, or nothing where there is none or only its corpse."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]
