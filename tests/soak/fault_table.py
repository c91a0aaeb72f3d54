"""Runs all fault drills and writes what was seen.

``python -m tests.soak.fault_table [docs/concepts/reliability.md]``.

The table stands between the two marks of that page; everything else of it stays. Exit code 1 = a
drill failed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.soak.drills import DRILLS, Drill, Seen
from tests.soak.site import Site
from tests.support.common import ROOT

PAGE: Final = ROOT / "docs" / "concepts" / "reliability.md"
BEGIN: Final = "<!-- fault table -->"
END: Final = "<!-- end of the fault table -->"
LONGEST_WORDS: Final = 120


def table(rows: list[tuple[Drill, Seen]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| fault | expected | seen | noticed after | well again after |",
        "| --- | --- | --- | --- | --- |",
    ]
    for drill, seen in rows:
        told = re.sub(r"(?<=\s)/\S+/", "…/", seen.words)  # where this run kept its files
        words = told if len(told) <= LONGEST_WORDS else told[:LONGEST_WORDS].rstrip() + " …"
        noticed = "" if seen.noticed_s is None else f"{seen.noticed_s:.1f} s"
        again = f"{seen.recovered_s:.1f} s" if seen.recovered_s else "at once"
        lines.append(
            f"| {drill.fault} | {drill.expected} | {words.replace('|', '/')} | {noticed} "
            f"| {again} |"
        )
    return "\n".join(lines)


def run_all() -> tuple[list[tuple[Drill, Seen]], list[str]]:
    """What was seen, and which drills failed."""
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as folder, Site(Path(folder)) as site:
        site.start_all()
        for drill in DRILLS:
            try:
                seen = drill.run(site)
            except pytest.skip.Exception as exc:
                print(f"{drill.name}: skipped: {exc}", flush=True)
                continue
            except (AssertionError, OSError) as exc:
                failed.append(f"{drill.name}: {exc}")
                print(f"{drill.name}: failed: {exc}", flush=True)
                continue
            noticed = "-" if seen.noticed_s is None else f"{seen.noticed_s:.2f}"
            print(
                f"{drill.name}: noticed {noticed} s, again {seen.recovered_s:.2f} s: {seen.words}",
                flush=True,
            )
            rows.append((drill, seen))
    return rows, failed


def main() -> int:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    rows, failed = run_all()
    before, mark, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        print(f"{page} lacks the lines {BEGIN} and {END}", file=sys.stderr)
        return 1
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    page.write_text(
        f"{before}{BEGIN}\n{table(rows)}\n\nMeasured in one run ({load}).\n{END}{after}"
    )
    for problem in failed:
        print(problem, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
