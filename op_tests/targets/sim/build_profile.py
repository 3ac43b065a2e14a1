"""Write profile.csv, the support map of the simulated device, from a table of the vendor's declared registrations.

Run ``python -m neuron_ops.op_tests.targets.sim.build_profile declared_ops.csv > op_tests/targets/sim/profile.csv``. The
table has one row for each name that the vendor's source registers, with the columns op, overload, mechanism, active,
status, dtypes_limits and source_file.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

SOURCE_DATE = "2026-04-21"
COLUMNS = ("overload", "how", "narrows_64_bit", "limits", "source")
NARROWING = "64-bit non-0-dim inputs narrowed (f64>f32, i64>i32), result widened back"
ON_HOST = "computed wholly on the host CPU"


def rows(declared: Path) -> list[dict[str, str]]:
    """Return one profile row for each active registration, sorted by overload.

    `how` is native, or host where the registered kernel computes on the host CPU. `narrows_64_bit` is yes where the
    kernel narrows float64 to float32 and int64 to int32. `limits` is the vendor's remaining restriction in words.
    """
    found = {}
    with declared.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["active"] != "yes":  # names that the vendor's package never registers, or with no such overload
                continue
            limits = row["dtypes_limits"]
            overload = f"{row['op'].replace('::', '.')}.{row['overload'] or 'default'}"
            found[overload] = {
                "overload": overload,
                "how": "host" if ON_HOST in limits else "native",
                "narrows_64_bit": "yes" if NARROWING in limits else "no",
                "limits": limits.replace(NARROWING, "").strip().rstrip(";"),
                "source": row["source_file"],
            }
    return [found[name] for name in sorted(found)]


def main() -> None:
    """Write the profile to standard output, its source and date in the first line."""
    declared = Path(sys.argv[1])
    profile = rows(declared)
    print(f"# TorchNeuron source of {SOURCE_DATE}, {len(profile)} active registrations")
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(profile)


if __name__ == "__main__":
    main()
