"""The disk of recordings in the virtual world: each flush takes a while, and from some size on it is full."""

from __future__ import annotations

import errno
import random
import time
from typing import Any

from tests.virtual.machine import replace

__all__ = ["install"]


def install(chance: random.Random, full_bytes: int | None) -> None:
    """Let flushes of recordings wait, seldom for seconds, and refuse what would exceed a size; None = it never does."""
    from vil_bridge.recording import mcap_writer

    disk: Any = vars(mcap_writer)["_Disk"]
    write = disk.write
    flush = disk.flush

    def writing(self: Any, data: bytes) -> int:
        if full_bytes is not None and self.size + len(data) > full_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        written: int = write(self, data)
        return written

    def flushing(self: Any) -> None:
        time.sleep(chance.choice((0.001, 0.01, 0.01, 0.05, 2.0)))
        flush(self)

    replace(disk, write=writing, flush=flushing)
