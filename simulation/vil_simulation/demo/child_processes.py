"""Child processes: our own verbs with logs in a folder, and Python functions behind a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from vil_bridge.core.errors import VilBridgeError

_T = TypeVar("_T")
_ASSIGNED: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUALLY_ASSIGNED: Final = 32_768
_FIRST_PORT: Final = 10_000
_FEWEST_PORTS: Final = 10_000
_STOP_TIMEOUT_S: Final = 5.0
_LOOK_S: Final = 0.2
_SAY_EVERY_S: Final = 5.0
_LOG_LINES: Final = 15
_BUSY_SHARE: Final = 0.1


def free_ports(count: int, kind: socket.SocketKind, host: str = "127.0.0.1") -> list[int]:
    """Find free ports of an address of this host, all different, below those that the system
    assigns by itself.

    Such a port stays free until its owner has started, or starts again: no socket without a port of
    its own gets it.
    """
    end = int(_ASSIGNED.read_text().split()[0]) if _ASSIGNED.exists() else _USUALLY_ASSIGNED
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    chosen: list[int] = []
    while len(chosen) < count:
        port = random.SystemRandom().randrange(_FIRST_PORT, max(end, _FIRST_PORT + _FEWEST_PORTS))
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind((host, port))
            if port not in chosen:
                chosen.append(port)
    return chosen


class ProcessGroup:
    """Verbs of ``vil-bridge`` as child processes; all ended when the block is left.

    Args:
        log_dir: folder of their logs.
        environment: variables of the children; None = this process's own.

    Attributes:
        idle_limit_s: :meth:`wait` gives up when no child has made progress for so long.
        limit_s: and after so long in any case.
    """

    program: ClassVar[Sequence[str]] = (sys.executable, "-m", "vil_bridge")
    idle_limit_s: ClassVar[float] = 30.0
    limit_s: ClassVar[float] = 600.0

    def __init__(self, log_dir: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log_dir = log_dir
        self._environment = environment
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[str, tuple[str, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self, name: str, *arguments: str) -> None:
        """Run ``vil-bridge ARGUMENTS``; its output goes to ``NAME.log``."""
        again = name in self._arguments
        self._arguments[name] = arguments
        with (self._log_dir / f"{name}.log").open("ab" if again else "wb") as log:
            self._children[name] = subprocess.Popen(  # noqa: S603 - our own program and arguments
                [*self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def check(self, revivable: Collection[str] = ()) -> list[str]:
        """Start those of ``revivable`` again that were killed; return their names.

        Raises:
            VilBridgeError: another child has died, or one by itself; with the end of its log.
        """
        dead = [(name, child) for name, child in self._children.items() if child.poll() is not None]
        for name, child in dead:
            if name in revivable and child.returncode < 0:
                self.start(name, *self._arguments[name])
            else:
                raise VilBridgeError(
                    f"{name} ended with code {child.returncode}; {self._end_of_log(name)}"
                )
        return [name for name, _ in dead]

    def wait(
        self,
        what: str,
        look: Callable[[], _T | None],
        children: Collection[str],
        say: Callable[[str], None],
        revivable: Collection[str] = (),
    ) -> _T:
        """Wait for something that children bring about, for as long as one of them makes progress.

        Progress is a log that grows, and time that a child computes or waits for a processor: a
        busy machine makes everything slow, and nothing idle.

        Args:
            what: is waited for, for people; said every 5 s.
            look: returns it; None = not yet.
            children: that bring it about.
            say: gets a line for people.
            revivable: see :meth:`check`.

        Returns:
            What ``look`` returned.

        Raises:
            VilBridgeError: a child died, or all have been idle; with the end of the log.
        """
        begun_s = progress_s = said_s = time.monotonic()
        watches = {name: _Watch(self._log_path(name)) for name in children}
        while (found := look()) is None:
            for name in self.check(revivable):
                say(f"{name} was killed: started again")
            now_s = time.monotonic()
            progress = [
                watch.progressed(self._children[name].pid, now_s) for name, watch in watches.items()
            ]
            if any(progress):
                progress_s = now_s
            if now_s - progress_s > self.idle_limit_s or now_s - begun_s > self.limit_s:
                self._give_up(what, children, now_s - begun_s, now_s - progress_s)
            if now_s - said_s > _SAY_EVERY_S:
                said_s = now_s
                logs = ", ".join(str(self._log_path(name)) for name in children)
                say(f"{now_s - begun_s:5.1f} s  waiting for {what} ({logs})")
            time.sleep(_LOOK_S)
        return found

    def stop(self) -> dict[str, int]:
        """Send SIGTERM to all, SIGKILL to those left after 5 s; return the exit codes."""
        for child in self._children.values():
            if child.poll() is None:
                child.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for child in self._children.values():
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        codes = {name: int(child.returncode) for name, child in self._children.items()}
        self._children.clear()
        return codes

    def _log_path(self, name: str) -> Path:
        return self._log_dir / f"{name}.log"

    def _end_of_log(self, name: str) -> str:
        log = self._log_path(name)
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return f"the end of {log}:\n" + "\n".join(lines or ["(empty)"])

    def _give_up(
        self, what: str, children: Collection[str], waited_s: float, idle_s: float
    ) -> None:
        who = " and ".join(children)
        idle = ""
        if idle_s > self.idle_limit_s:
            idle = f"; {who} made no progress for {idle_s:.0f} s"
        ends = "\n".join(self._end_of_log(name) for name in children)
        raise VilBridgeError(
            f"waited {waited_s:.0f} s for {what}{idle}. {ends[0].upper()}{ends[1:]}"
        )


class _Watch:
    """Progress of a child since the last check."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._size = -1
        self._busy_s = 0.0
        self._looked_s = time.monotonic()

    def progressed(self, pid: int, now_s: float) -> bool:
        """Return True if the log has grown, or a tenth of the time went to computing or waiting
        for a processor.
        """
        size = self._log.stat().st_size
        busy_s = _busy_s(pid)
        share = (busy_s - self._busy_s) / max(now_s - self._looked_s, 1e-3)
        grown = size != self._size
        self._size = size
        self._busy_s = busy_s
        self._looked_s = now_s
        return grown or share > _BUSY_SHARE


def _busy_s(pid: int) -> float:
    """Return the time that a process's threads have run or waited for a processor.

    0 where that is unknown.
    """
    total_ns = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            ran, waited, _ = (task / "schedstat").read_text().split()
            total_ns += int(ran) + int(waited)
    except (OSError, ValueError):
        return 0.0
    return total_ns / 1e9


_SPAWN = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def child(target: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """Run a peer in its own process until the block ends."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        with contextlib.suppress(BrokenPipeError):
            ours.send("stop")
        process.join(5.0)
        if process.is_alive():
            process.terminate()
            process.join()


def stop_and_report(conn: Connection) -> Any:
    """End a peer and return its report."""
    conn.send("stop")
    return conn.recv()
