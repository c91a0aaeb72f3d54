"""The process of an autopilot's program.

Started, watched, started again when it ends, ended with the source.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.errors import SourceUnavailable

logger = logging.getLogger(__name__)

_FIRST_PAUSE_NS: Final = NS_PER_S // 2
_LONGEST_PAUSE_NS: Final = 10 * NS_PER_S
_LONG_RUN_NS: Final = 30 * NS_PER_S
"""A program that ran for longer is started again soon."""
_CHECK_NS: Final = NS_PER_S // 10
_PATIENCE_NS: Final = 7 * NS_PER_S // 10
"""With programs that are asked to end, and again with those that are killed."""
_POLL_S: Final = 0.01
_MOST_LOG_BYTES: Final = 1 << 24
"""Of one output.log when the program starts; it then becomes output.log.1."""
_PDEATHSIG: Final = 1


class ProgramProcess:
    """One program; one thread uses it.

    Args:
        name: of the vehicle. command: the program and its arguments. folder: in which it runs, made
            if absent; its output goes to ``output.log`` there. environment: that it gets, where the
            bridge's own does not set it.
    """

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._folder = folder
        self._environment = dict(environment or {})
        self._child: subprocess.Popen[bytes] | None = None
        self._begun_ns = self._checked_ns = 0
        self._again_ns: int | None = None
        self._pause_ns = _FIRST_PAUSE_NS

    def start(self) -> None:
        """Start the program.

        Raises:
            SourceUnavailable: there is no such program, or the folder cannot be made.
        """
        try:
            self._spawn()
        except OSError as exc:
            raise SourceUnavailable(
                f"{self._name}: cannot start {self._command[0]!r} in {self._folder}: "
                f"{exc.strerror}. Set "
                "autopilot.command to the program's path, and autopilot.folder to one "
                "that can be written"
            ) from None

    def check(self) -> bool:
        """Start the program again some time after it ended; call it often.

        Return True once when it has ended.
        """
        now_ns = machine_ns()
        if now_ns - self._checked_ns < _CHECK_NS:
            return False
        self._checked_ns = now_ns
        if self._again_ns is not None:
            if now_ns >= self._again_ns:
                self._start_again()
        elif self._child is not None and self._child.poll() is not None:
            # What it has left would have the ports of the next one.
            with contextlib.suppress(OSError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._start_later(f"ended code={self._child.returncode}")
            return True
        return False

    def signal(self, number: int) -> bool:
        """Send a signal to the program and what it started; 0 only looks.

        Return True while any of them is there.
        """
        if self._child is None:
            return False
        self._child.poll()  # one that has ended counts until then
        try:
            os.killpg(self._child.pid, number)
        except OSError:  # all of them have ended, or are another user's
            self._child = None
        return self._child is not None

    def _spawn(self) -> None:
        self._begun_ns = machine_ns()
        self._again_ns = None
        self._folder.mkdir(parents=True, exist_ok=True)
        output = self._folder / "output.log"
        if output.exists() and output.stat().st_size > _MOST_LOG_BYTES:
            output.replace(output.with_suffix(".log.1"))
        with output.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - the user's own program
                self._command,
                cwd=self._folder,
                env=self._environment | dict(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_prepare_child if sys.platform == "linux" else None,
            )

    def _start_again(self) -> None:
        try:
            self._spawn()
        except OSError as exc:  # as while the program is compiled again
            self._start_later(f"cannot be started problem={exc.strerror!r}")

    def _start_later(self, what: str) -> None:
        now_ns = machine_ns()
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)
        if now_ns - self._begun_ns > _LONG_RUN_NS:
            self._pause_ns = _FIRST_PAUSE_NS
        self._again_ns = now_ns + self._pause_ns
        pause_s = self._pause_ns / NS_PER_S
        output = self._folder / "output.log"
        logger.warning(
            "program of %s %s again_in_s=%.1f output=%s", self._name, what, pause_s, output
        )


def end_programs(programs: Iterable[ProgramProcess]) -> None:
    """End programs and what they started, all at the same time.

    Those that do not end when asked are killed.
    """
    left = list(programs)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_ns = machine_ns() + _PATIENCE_NS
        left = [program for program in left if program.signal(number)]
        while left and machine_ns() < until_ns:
            time.sleep(_POLL_S)
            left = [program for program in left if program.signal(0)]


def _prepare_child() -> None:
    """Have the kernel kill the child when the thread that started it is gone.

    Leave our real-time priority to us.

    A program that ignores a request to end would outlive its starter otherwise.
    """
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
