"""The disk of recordings in the virtual world.

Each flush takes a while, a write may fail, and it may become full.
"""

from __future__ import annotations

import errno
import random
import time
from typing import Any

from tests.virtual.machine import replace

__all__ = ["install"]


def install(chance: random.Random, full_bytes: int | None, breaks: bool) -> None:
    """Let flushes of recordings wait, seldom for seconds.

    Args:
        full_bytes: what would exceed this size is refused; None = nothing is. breaks: a write fails
            once.
    """
    from vil_bridge.recording import mcap_writer

    disk: Any = vars(mcap_writer)["_Disk"]
    write = disk.write
    flush = disk.flush
    breaks_bytes = [chance.randrange(20_000, 200_000)] if breaks else []

    def writing(self: Any, data: bytes) -> int:
        if full_bytes is not None and self.size + len(data) > full_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        if breaks_bytes and self.size > breaks_bytes[0]:
            breaks_bytes.clear()
            raise OSError(errno.EIO, "Input/output error")
        written: int = write(self, data)
        return written

    def flushing(self: Any) -> None:
        time.sleep(chance.choice((0.001, 0.01, 0.01, 0.05, 2.0)))
        flush(self)

    replace(disk, write=writing, flush=flushing)
