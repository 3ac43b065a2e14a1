"""A report as `neuron-ops check --json` prints it, with whatever the test needs in it."""

from __future__ import annotations

ROUTES = ("error", "unsupported", "fallback", "translated", "native through composite", "native")


def operator(overload="aten.gelu.default", route="fallback", status="C", **changed):
    return {
        "overload": overload, "dtypes": ["float32"], "count": 2, "phase": "forward", "route": route, "status": status,
        "reason": "unimplemented", "where": {"file": "/home/ada/net.py", "line": 7, "module": "layers.0"},
        "count_by_route": {route: 2}, "parts": [], "message": None, "shapes": [[2, 3]], "bytes_in": 24, "bytes_out": 24,
        "flops": 0, "signatures": ["0123456789ab"], "finding": "fallback",
        "known": {"closeness": "exact case", "status": "C", "k": 1, "n": 1, "detail": "", "source": "", "evidence": "simulated"},
        "advice": [], **changed,
    }  # fmt: skip


def report(operators=(), **changed):
    rows = list(operators) or [operator()]
    by_route = {"total": len(rows)} | {route: sum(one["route"] == route for one in rows) for route in ROUTES}
    price = dict.fromkeys(("calls", "host_calls", "flops", "host_flops", "trips", "bytes_to_host", "bytes_to_device", "syncs", "compilations"), 0)  # fmt: skip
    return {
        "schema": 2, "file": "/home/ada/net.py", "model": "Net", "inputs": "float32[2,3]",
        "mode": {"train": False, "eval": True, "as_is": False, "gradients": False, "dtype": None, "autocast": None,
                 "fake_tensors": False},
        "verdict": "1 of 1 operators falls back", "complete": True, "complete_for_this_input": True,
        "evidence": "simulated", "evidence_note": "Nothing ran on hardware.", "versions": {"torch": "2.13.0"},
        "counts": {"operators": by_route, "calls": by_route, "metadata_only": {"operators": 0, "calls": 0}, "syncs": 0},
        "operators": rows, "waits": [], "notes": [{"text": "eval mode", "where": None}], "failure": None,
        "printed": "token=secret", "price": {**price, "seconds": 0, "compile_seconds": [0, 1], "constants": {}},
        "catalogues": [], **changed,
    }  # fmt: skip
