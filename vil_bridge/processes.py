"""Our own verbs as child processes: started with their logs in a folder, stopped by pid."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Self

from vil_bridge.core.errors import VilBridgeError

__all__ = ["ProcessGroup", "free_ports", "process_age_s"]

_STOP_TIMEOUT_S = 5.0


def free_ports(count: int, kind: socket.SocketKind) -> list[int]:
    """Loopback ports that were free a moment ago, all different."""
    sockets = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [int(s.getsockname()[1]) for s in sockets]
    finally:
        for s in sockets:
            s.close()


def process_age_s() -> float:
    """How long this process has lived, imports included; 0 where the system does not tell."""
    try:
        started_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return 0.0


class ProcessGroup:
    """Verbs of ``vil-bridge`` as child processes; all ended when the block is left."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
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
                [sys.executable, "-m", "vil_bridge", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def check(self, revivable: Collection[str] = ()) -> list[str]:
        """Start again those of ``revivable`` that somebody killed; returns their names.

        Raises:
            VilBridgeError: another child has died, or one by itself; with the end of its log.
        """
        dead = [(name, child) for name, child in self._children.items() if child.poll() is not None]
        for name, child in dead:
            if name in revivable and child.returncode < 0:
                self.start(name, *self._arguments[name])
            else:
                log = self._log_dir / f"{name}.log"
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise VilBridgeError(f"{name} ended with code {child.returncode}; the end of {log}:\n{tail}")
        return [name for name, _ in dead]

    def stop(self) -> dict[str, int]:
        """SIGTERM to all, SIGKILL to who is left after 5 s; returns the exit codes."""
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
