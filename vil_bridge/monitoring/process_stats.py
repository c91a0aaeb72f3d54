"""Resources that this process uses, as the system counts them."""

from __future__ import annotations

import errno
import logging
import os
import resource
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_SPARE_FILES: Final = 16
_CURE: Final = (
    "New connections are refused until some end. Raise the limit (LimitNOFILE= in the "
    "systemd unit, `ulimit -n 65536` "
    "in a shell), or find out who connects so often"
)
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, slots=True)
class ProcessView:
    """The daemon as a process.

    Attributes:
        rss_mb, descriptors: resident memory and open files; None where the system does not say.
        cpu_s: used since the start, all threads.
        tasks: of the realtime loop.
    """

    pid: int
    cpu_s: float
    threads: int
    tasks: int
    rss_mb: float | None = None
    descriptors: int | None = None


def process_view(tasks: int) -> ProcessView:
    """Return the use of now; ``tasks`` as the loop counted them."""
    try:
        rss_mb: float | None = round(
            int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MB, 1
        )
        descriptors: int | None = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        rss_mb = descriptors = None
    return ProcessView(
        os.getpid(),
        round(time.process_time(), 2),
        threading.active_count(),
        tasks,
        rss_mb,
        descriptors,
    )


class DescriptorCheck:
    """Warns when this process may open hardly any more files.

    Every listener then turns peers away without a word.

    Attributes:
        words: a sentence with the cure while that is so, for people; else empty.
    """

    def __init__(self) -> None:
        self.words: tuple[str, ...] = ()

    def check(self) -> None:
        """Try to open a file: the system gives the lowest number that is free. Logs a change."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        found = ""
        try:
            number = os.open(os.devnull, os.O_RDONLY)
        except OSError as exc:
            if exc.errno == errno.EMFILE:
                found = f"all {limit} of this process are in use"
            elif exc.errno == errno.ENFILE:
                found = "all of this system are in use"
        else:
            os.close(number)
            if limit != resource.RLIM_INFINITY and number >= limit - _SPARE_FILES:
                found = f"{number} of {limit} are in use"
        words = (f"too many open files: {found}. {_CURE}",) if found else ()
        if words and not self.words:
            logger.warning("%s", words[0])
        elif self.words and not words:
            logger.info("open files: below the limit of %d again", limit)
        self.words = words
