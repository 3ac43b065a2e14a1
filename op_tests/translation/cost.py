"""Estimates what a translation costs against the round trip to the CPU that it replaces. Constants, no measurement."""

from __future__ import annotations

DISPATCH_SECONDS = 60e-6
"""Of one eager call: 55 to 65 µs on trn2 (xpu-perf, torch-neuronx 2.12.3, 2026)."""

LAUNCH_SECONDS = 100e-6
"""Of one kernel of the device: about 100 µs (same source)."""

TRANSFER_BYTES_PER_SECOND = 16e9
"""Between host and device, one way: what a PCIe 4.0 x8 link carries; an assumption, nobody has published a figure."""


def translated_seconds(launches: int) -> float:
    """Return the seconds of a call that is `launches` calls of the device."""
    return launches * (DISPATCH_SECONDS + LAUNCH_SECONDS)


def fallback_seconds(moved: int) -> float:
    """Return the seconds of a call on the host that moves `moved` bytes of arguments there and about as many back.

    The host's own time is left out, so that the fallback looks as good as it can.
    """
    return DISPATCH_SECONDS + 2 * LAUNCH_SECONDS + 2 * moved / TRANSFER_BYTES_PER_SECOND


def break_even_bytes(launches: int) -> int:
    """Return the bytes of arguments below which the fallback is estimated to be cheaper; 0 where it never is."""
    spare = translated_seconds(launches) - fallback_seconds(0)
    return max(0, round(spare * TRANSFER_BYTES_PER_SECOND / 2))
