"""Child processes of a benchmark: spawned with a pipe, ended with their block."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["child", "stop_and_report"]

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
