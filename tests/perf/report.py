"""Report of the benchmarks beside the previous one.

``python -m tests.perf.report [--quick | --keep]``.

Judges :data:`tests.perf.bars.BARS` and writes ``out/perf/report.json``; ``--keep`` makes that the
previous report. The exit code is 0 whatever the figures: a bench that fails is a line with its
reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.perf.bars import BARS, RATIOS, Bar
from tests.support.common import ROOT

PREVIOUS: Final = Path(__file__).with_name("previous.json")
REPORT: Final = ROOT / "out" / "perf" / "report.json"
QUICK_S: Final = 95.0  # all benches of a quick report
LONGEST_S: Final = 600.0  # one bench of a whole report


def measured(bench: str, limit_s: float, *flags: str) -> dict[str, Any]:
    """Return a bench's JSON, or the reason why it printed none (``failed``)."""
    command = [sys.executable, "-m", "vil_bridge", "bench", bench, "--json", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=max(0.0, limit_s))
            if process.returncode:
                return {
                    "failed": (err.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
                }
            return dict(json.loads(out))
        except subprocess.TimeoutExpired:
            return {"failed": f"not done within {max(0.0, limit_s):.0f} s"}
        except ValueError:
            return {"failed": "printed no JSON"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def judged(bar: Bar, said: Mapping[str, Any], previous: Mapping[str, Any]) -> dict[str, Any]:
    """The line of one bar.

    What depends on the speed of the machine is not compared with the previous report.
    """
    rows = {row["name"]: row["value"] for row in said.get("rows", ()) if row["samples"]}
    name, sign, other = (*bar.row.split(" "), "", "")[:3]
    a, b = rows.get(name), rows.get(other) if other else 1.0
    before = [
        line["now"]
        for line in previous.get("lines", ())
        if (line["bench"], line["row"]) == (bar.bench, bar.row)
    ]
    line = {
        "bench": bar.bench,
        "row": bar.row,
        "bar": bar.text,
        "unit": bar.unit,
        "now": None,
        "met": False,
    }
    line["previous"] = before[0] if before and bar.unit in {*RATIOS, "px"} else None
    if a is None or b is None:
        return line | {"failed": said.get("failed", "no value")[:120].replace("|", "/")}
    now = a - b if sign == "-" else a / (b or math.nan)
    return line | (
        {"now": now, "met": bar.met(now)} if math.isfinite(now) else {"failed": "not a number"}
    )


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Lines as Markdown."""
    found = [
        "| row | bar | previous | now | change | met |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        now, before = line["now"], line["previous"]
        change, met = (
            "-",
            "yes"
            if line["met"]
            else f"**failed**: {line['failed']}"
            if now is None
            else "**missed**",
        )
        if now is not None and before:
            change = (
                f"{now - before:+.3f}"
                if line["unit"] == "px"
                else f"{100.0 * (now / before - 1.0):+.1f} %"
            )
        then, figure = ("-" if v is None else f"{v:.3g}" for v in (before, now))
        found.append(
            f"| {line['bench']}: `{line['row']}` | {line['bar']} | {then} | {figure} | "
            f"{change} | {met} |"
        )
    return "\n".join(found)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description="Benchmarks beside their bars and the previous report."
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--quick", action="store_true", help=f"the ratios that {QUICK_S:.0f} s are enough for"
    )
    one.add_argument("--keep", action="store_true", help="make this the previous report")
    options = parser.parse_args()
    previous: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        previous = json.loads(PREVIOUS.read_text())
    bars = [bar for bar in BARS if bar.quick or not options.quick]
    said: dict[str, dict[str, Any]] = {}
    end_s = time.monotonic() + QUICK_S
    for bench in dict.fromkeys(bar.bench for bar in bars):
        print(f"perf: {bench}", file=sys.stderr, flush=True)
        quick = (end_s - time.monotonic(), "--quick")
        said[bench] = measured(bench, *quick) if options.quick else measured(bench, LONGEST_S)
    lines = [judged(bar, said[bar.bench], previous) for bar in bars]
    machine = {
        key: text for report in said.values() for key, text in report.get("machine", {}).items()
    }
    written = json.dumps({"machine": machine, "lines": lines}, indent=1) + "\n"
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    for path in (REPORT, PREVIOUS) if options.keep else (REPORT,):
        path.write_text(written)
    for whose, known in (("This machine", machine), ("Previous", previous.get("machine", {}))):
        print(
            f"{whose}: {', '.join(f'{key} {text}' for key, text in known.items()) or 'unknown'}.\n"
        )
    print(f"## Ratios\n\n{table(line for line in lines if line['unit'] in RATIOS)}")
    if not options.quick:
        print(
            "\n## Absolute, for information\n\n"
            f"{table(line for line in lines if line['unit'] not in RATIOS)}"
        )
    print(
        f"\n{sum(line['met'] for line in lines)} of {len(lines)} bars met; "
        f"{len(BARS) - len(bars)} not measured."
    )


if __name__ == "__main__":
    main()
