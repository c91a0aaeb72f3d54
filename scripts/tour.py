"""Runs the commands of a page of documentation in order and puts what they print below them.

    python scripts/tour.py docs/start/tour.md            # runs everything, rewrites the outputs
    python scripts/tour.py docs/start/tour.md --check    # runs everything, writes nothing

A block of ``sh`` is run by a shell in the current folder, and the ``text`` block behind it becomes
its output. A comment right before a block says more: ``<!-- until: WORDS -->`` leaves it running
once it has printed those words (it is ended behind the page), ``<!-- exit: 3 -->`` expects that
exit code, ``<!-- lines: 30 -->`` keeps so many lines, ``<!-- no output -->`` shows none. The first
command that does something else ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(
    r"(?P<notes>(?:<!-- [^>]* "
    r"-->\n)*)```sh\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?",
    re.DOTALL,
)
_NOTE: Final = re.compile(r"<!-- (until|exit|lines|no output)(?:: (.*?))? -->")
_LIMIT_S: Final = 300.0
_LINES: Final = 60
_WIDTH: Final = "100"


@dataclass(frozen=True, slots=True)
class Step:
    """One block: its commands and what is expected of them."""

    code: str
    until: str
    exit_code: int
    lines: int
    shown: bool


def step_of(match: re.Match[str]) -> Step:
    """Return a block as the page writes it."""
    notes = {name: text or "" for name, text in _NOTE.findall(match["notes"])}
    return Step(
        match["code"],
        notes.get("until", ""),
        int(notes.get("exit", "0")),
        int(notes.get("lines", _LINES)),
        "no output" not in notes,
    )


class Tour:
    """The running of a page's steps in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left: list[subprocess.Popen[bytes]] = []
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {
            **os.environ,
            "PATH": path,
            "COLUMNS": _WIDTH,
            "TERM": "dumb",
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, step: Step) -> str:
        """Return the output of a step.

        Raises:
            RuntimeError: it ends otherwise than expected, or does not end.
        """
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(
                ["/bin/sh", "-e"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
            assert child.stdin is not None
            child.stdin.write(step.code.encode())
            child.stdin.close()
            printed = self._watched(child, step, out.fileno())
        return self._tidied(printed, step.lines)

    def close(self) -> None:
        """End what was left running, the last one first."""
        for child in reversed(self._left):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10.0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def _watched(self, child: subprocess.Popen[bytes], step: Step, out: int) -> str:
        ends_at = time.monotonic() + _LIMIT_S
        while time.monotonic() < ends_at:
            printed = os.pread(out, 1 << 20, 0).decode(errors="replace")
            if step.until and step.until in printed:
                self._left.append(child)
                return printed
            code = child.poll()
            if code is not None:
                printed = os.pread(out, 1 << 20, 0).decode(errors="replace")
                if step.until or code != step.exit_code:
                    wanted = (
                        f"to print {step.until!r}" if step.until else f"exit code {step.exit_code}"
                    )
                    raise RuntimeError(
                        f"expected {wanted}, got exit code {code}:\n{step.code}\n{printed}"
                    )
                return printed
            time.sleep(0.1)
        self._left.append(child)
        raise RuntimeError(f"still running after {_LIMIT_S:.0f} s:\n{step.code}\n{printed}")

    def _tidied(self, printed: str, lines: int) -> str:
        """Remove colours, overwritten progress and this machine's folders."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed).replace(
            str(self._folder), "~/vil-bridge"
        )
        shown = [
            line.rpartition("\r")[2].rstrip()
            for line in text.replace("\r\n", "\n").strip("\n").split("\n")
        ]
        if len(shown) > lines:
            shown = [*shown[:lines], f"... ({len(shown) - lines} more lines)"]
        return "\n".join(shown)


def toured(page: str, folder: Path) -> Iterator[str]:
    """Yield the page in pieces, with its commands run and their outputs renewed."""
    place = 0
    tour = Tour(folder)
    try:
        for match in _BLOCK.finditer(page):
            step = step_of(match)
            sys.stdout.write(step.code)
            sys.stdout.flush()
            printed = tour.run(step)
            yield page[place : match.start()] + f"{match['notes']}```sh\n{match['code']}```\n"
            if step.shown and printed:
                yield f"\n```text\n{printed}\n```\n"
            place = match.end()
        yield page[place:]
    finally:
        tour.close()


def main() -> None:
    """Run a page."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    try:
        page = "".join(toured(given.page.read_text(), Path.cwd()))
    except RuntimeError as exc:
        sys.exit(str(exc))
    if not given.check:
        given.page.write_text(page)


if __name__ == "__main__":
    main()
