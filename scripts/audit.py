"""Looks for published vulnerabilities of the pinned dependencies: ``make audit``.

Python's by pip-audit against requirements.lock, the page's by npm audit against package-lock.json.
Ends with 1 when a version in use has an advisory; where the advisories cannot be reached, it says
so and passes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
WEB: Final = ROOT / "vil_bridge" / "web" / "frontend"
PATIENCE_S: Final = 60.0


def main() -> int:
    """Print what was found; the exit code."""
    found = [*_judged("Python", _python()), *_judged("npm", _npm())]
    for line in found:
        sys.stdout.write(f"audit: {line}\n")
    return 1 if found else 0


def _judged(what: str, advisories: list[str] | str) -> list[str]:
    """Advisories; none where they could not be had, which is said."""
    if isinstance(advisories, str):
        sys.stdout.write(
            f"audit: {what}: SKIPPED, the advisories cannot be reached: {advisories}\n"
        )
        return []
    sys.stdout.write(f"audit: {what}: {len(advisories)} advisories for the versions in use\n")
    return [f"{what}: {advisory}" for advisory in advisories]


def _python() -> list[str] | str:
    """One line for each advisory, or why there is no answer."""
    program = str(Path(sys.executable).with_name("pip-audit"))
    lock = ["--require-hashes", "--disable-pip", "-r", str(ROOT / "requirements.lock")]
    answer = _answer(
        [program, *lock, "--progress-spinner", "off", "--timeout", "10", "--format", "json"], ROOT
    )
    if isinstance(answer, str) or not answer.get("dependencies"):
        return answer if isinstance(answer, str) else "an unknown answer"
    looked_up = [package for package in answer["dependencies"] if "vulns" in package]
    if not looked_up:
        return str(answer["dependencies"][0].get("skip_reason", "an unknown answer"))
    if len(looked_up) < len(answer["dependencies"]):
        sys.stdout.write(
            f"audit: Python: {len(answer['dependencies']) - len(looked_up)} packages are "
            "unknown there\n"
        )
    return [
        f"{package['name']} {package['version']}: {flaw['id']}, fixed in "
        f"{', '.join(flaw['fix_versions']) or 'none'}"
        for package in looked_up
        for flaw in package["vulns"]
    ]


def _npm() -> list[str] | str:
    """Do the same for the page."""
    program = shutil.which("npm")
    if program is None:
        return "npm is not installed"
    answer = _answer(
        [
            program,
            "audit",
            "--package-lock-only",
            "--json",
            "--fetch-timeout=10000",
            "--fetch-retries=0",
        ],
        WEB,
    )
    if isinstance(answer, str) or "vulnerabilities" not in answer:
        return (
            answer if isinstance(answer, str) else str(answer.get("message", "an unknown answer"))
        )
    return [
        f"{name}: {flaw['severity']}, {flaw['range']}"
        for name, flaw in answer["vulnerabilities"].items()
    ]


def _answer(command: Sequence[str], folder: Path) -> dict[str, Any] | str:
    """Return a program's JSON, or the end of its error message."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words, no shell
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE_S:.0f} s"
    except ValueError:
        return done.stderr.strip()[-200:] or "no answer"
    return answer if isinstance(answer, dict) else "an unknown answer"


if __name__ == "__main__":
    sys.exit(main())
