"""Whole programs as child processes of a test: started with a log, awaited, ended with the test."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.support.common import PATIENCE_S, ROOT, Stopwatch, wait_until
from tests.support.events import until

__all__ = ["VIL_BRIDGE", "Program", "output", "queued_s", "run"]

VIL_BRIDGE: Final = (sys.executable, "-m", "vil_bridge")
# A killed test run takes its programs along. A shell lets its background programs ignore
# interrupts, `nohup` hang-ups.
_PREFIX: Final = ("setpriv", "--pdeathsig", "KILL", "env", "--default-signal=INT,HUP")
_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_TAIL: Final = 3000


class Program(subprocess.Popen[bytes]):
    """Child process whose output goes to a log; the end of the block ends it."""

    def __init__(
        self,
        *words: object,
        log: Path | None = None,
        split: bool = False,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            words: command line.
            log: file that the output is appended to; None = memory.
            split: give standard error a log of its own, see :meth:`error_text`.
            stdin: as for Popen.
            stdout: as for Popen; None = the log.
            cwd: working directory.
            env: further variables.
        """
        self._log, self._begin = _open(log)
        self._errors = _open(None)[0] if split else self._log
        for fd in {self._log, self._errors}:
            weakref.finalize(self, os.close, fd)
        super().__init__(
            _command(words),
            stdin=stdin,
            stdout=self._log if stdout is None else stdout,
            stderr=self._errors,
            cwd=cwd,
            env=_environment(env),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self.poll() is None:
                self._stop(signal.SIGTERM, PATIENCE_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()
            super().__exit__(kind, value, traceback)

    # --- what it says --------------------------------------------------------------------------

    def text(self) -> str:
        """Return what it wrote so far."""
        return _read(self._log, self._begin)

    def error_text(self) -> str:
        """Return what it wrote to standard error so far, where ``split`` is set."""
        return _read(self._errors, 0)

    def said(self, pattern: str) -> re.Match[str] | None:
        """Return the first place of a regular expression in the log."""
        return re.search(pattern, self.text(), re.MULTILINE)

    def await_text(self, pattern: str, limit_s: float = PATIENCE_S) -> re.Match[str]:
        """Wait until the log holds a regular expression; fails when the program ends before."""
        self.await_that(lambda: self.said(pattern), pattern, limit_s)
        found = self.said(pattern)
        assert found is not None
        return found

    def await_that(
        self, condition: Callable[[], object], what: str, limit_s: float = PATIENCE_S
    ) -> None:
        """Wait for a condition; fails when the program ends before."""
        wait_until(
            lambda: self._met(condition, what),
            limit_s,
            lambda: f"{what}\n{self._tail()}",
            period_s=0.02,
        )

    async def until(
        self, condition: Callable[[], object], what: str, limit_s: float = PATIENCE_S
    ) -> None:
        """Do the same in a test whose loop has other things to do."""
        await until(lambda: self._met(condition, what), limit_s)

    def _met(self, condition: Callable[[], object], what: str) -> bool:
        if condition():
            return True
        assert self.poll() is None or condition(), (
            f"not {what}, ended with {self.returncode}:\n{self._tail()}"
        )
        return False

    # --- its end -------------------------------------------------------------------------------

    def kill(self) -> None:
        """End it without a word (SIGKILL), and wait for it."""
        super().kill()
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended.

        TimeoutExpired has its log and where its threads wait as a note.
        """
        try:
            return super().wait(timeout)
        except subprocess.TimeoutExpired as late:
            late.add_note(f"{self._tail()}\nits threads wait in: {_waits_in(self.pid)}")
            raise

    def end(self, number: signal.Signals = signal.SIGTERM, limit_s: float = PATIENCE_S) -> int:
        """Ask it to end and return its exit code.

        Raises TimeoutExpired after the limit, and kills it.
        """
        try:
            return self._stop(number, limit_s)
        finally:
            self.kill()

    def end_waiting(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Ask it to end.

        Its exit code and the seconds in which it waited: no thread wanted a processor.
        """
        stopwatch, waited_s, begun_s, pause = Stopwatch(), 0.0, time.monotonic(), threading.Event()
        self.send_signal(number)
        self.send_signal(signal.SIGCONT)
        while self.poll() is None and time.monotonic() - begun_s < PATIENCE_S:
            before_s = stopwatch.seconds
            pause.wait(0.01)
            stopwatch.turn()
            waited_s += 0.0 if _wants_processor(self.pid) else stopwatch.seconds - before_s
        return self.end(number, 0.0), waited_s

    def _stop(self, number: signal.Signals, limit_s: float) -> int:
        self.send_signal(number)
        self.send_signal(signal.SIGCONT)
        return self.wait(limit_s)

    def _tail(self) -> str:
        errors = "" if self._errors == self._log else self.error_text()
        return (self.text() + errors)[-_TAIL:]


def run(
    *words: object,
    limit_s: float = PATIENCE_S,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; arguments as those of :class:`Program`."""
    return subprocess.run(
        _command(words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=_environment(env),
        timeout=limit_s,
        check=False,
    )


def output(
    *words: object,
    limit_s: float = PATIENCE_S,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program that must end well, and return its standard output."""
    done = run(*words, limit_s=limit_s, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _waits_in(pid: int) -> str:
    """Return each thread's name and the kernel's function in which it waits."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found.append(
                f"{(thread / 'comm').read_text().strip()}: {(thread / 'wchan').read_text()}"
            )
    return ", ".join(found)


def _command(words: Iterable[object]) -> list[str]:
    return [*_PREFIX, *map(str, words)]


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **_THREADS, **(more or {})}


def queued_s(pids: Iterable[int]) -> float:
    """Return for how long threads of this process and of others have waited for a processor so
    far.
    """
    waited_ns = 0
    for pid in (os.getpid(), *pids):
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # it has ended
                waited_ns += int(thread.read_text().split()[1])
    return 1e-9 * waited_ns


def _wants_processor(pid: int) -> bool:
    """Return True when a thread of a process runs, or waits for a processor or a disk."""
    states = set[str]()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            states.add(thread.read_text().rpartition(")")[2].split()[0])
    return not states.isdisjoint("RD")


def _open(path: Path | None) -> tuple[int, int]:
    """Return a log's descriptor and its present size."""
    if path is None:
        return os.memfd_create("log"), 0
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    return fd, os.fstat(fd).st_size


def _read(fd: int, begin: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size - begin, begin).decode(errors="replace")
