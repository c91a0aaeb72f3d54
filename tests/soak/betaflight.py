"""Betaflight's real program hovers through the bridge.

``python -m tests.soak.betaflight --seconds 600 --out FOLDER``.

It prints how late its states came, the largest gap between two, and the load. Exit code 0 = it held
its height and was never silent; 1 = said on stderr. States in time are judged on a quiet computer
only: Betaflight keeps real time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from tests.support.betaflight_hover import Hover, StateWatch, flown

_DEVIATION_M: Final = 0.02
_LATE_MS: Final = 1.0
_GAP_MS: Final = 20.0
_ATTEMPTS: Final = 3


def main() -> int:
    """Fly; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    with flown(options.out.resolve()) as pilot:
        for _ in range(_ATTEMPTS):
            with StateWatch(pilot.folder) as watch:
                hover = pilot.hover(options.seconds)
            if not hover.problem(_DEVIATION_M) or not hover.excuse():
                break
        figures = _figures(hover, watch.figures(options.seconds), pilot.link)
    (options.out / "summary.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print(json.dumps(figures))
    problems = _problems(hover, figures)
    for problem in problems:
        print(f"betaflight: {problem}", file=sys.stderr)
    return int(bool(problems))


def _figures(hover: Hover, states: dict[str, float], link: str) -> dict[str, Any]:
    own = {
        "deviation_m": hover.deviation_m,
        "late_steps_share": hover.late_share,
        "wait_share": hover.wait_share,
    }
    return own | states | {"link": link, "load": os.getloadavg()[0], "cores": os.cpu_count()}


def _problems(hover: Hover, figures: dict[str, Any]) -> list[str]:
    problems = [hover.problem(_DEVIATION_M)]
    if problems[0] and hover.excuse():
        problems[0] += f"; this computer cannot keep real time: {hover.excuse()}"
    if figures["link"] != "betaflight running":
        problems.append(f"it ended {figures['link']}")
    if figures["load"] <= figures["cores"]:
        for name, most in (("late_ms_p95", _LATE_MS), ("largest_gap_ms", _GAP_MS)):
            if figures[name] >= most:
                problems.append(f"{name} {figures[name]:.2f}, at most {most}")
    return [problem for problem in problems if problem]


if __name__ == "__main__":
    sys.exit(main())
