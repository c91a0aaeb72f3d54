"""Reports of recordings for pages, made by the verb ``report`` in a child process, away from the
realtime loop.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Final

from vil_bridge.core.errors import RecordingError

_MAKER: Final = ("nice", "-n", "5", sys.executable, "-m", "vil_bridge", "report")
_PATIENCE_S: Final = 600.0
"""An hour's recording takes one or two minutes."""
_MOST_MEMORY_BYTES: Final = 4 << 30
"""Of address space, most of which is never used."""
_MOST_BYTES: Final = 16 << 20
"""About eight hours of three cameras."""
_ELSEWHERE: Final = "fetch the file and run `vil-bridge report` on it"


class ReportWorker:
    """Maker of one report at a time, within bounds of time and memory.

    The loop may only close it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def page_of(self, name: str, file: IO[bytes]) -> bytes:
        """Return the report of a recording, an open file that may still be written, as HTML.

        Raises:
            RecordingError: it cannot be read, another report is being made, or this one needs too
                much.
        """
        with tempfile.TemporaryDirectory(prefix="vil-report-") as folder:
            page = Path(folder) / "report.html"
            child = self._start(file.fileno(), page)
            try:
                self._wait(name, child)
            finally:
                with self._lock:
                    self._child = None
            if page.stat().st_size > _MOST_BYTES:
                raise RecordingError(
                    f"the report of {name} is longer than {_MOST_BYTES} bytes: {_ELSEWHERE}"
                )
            return page.read_bytes()

    def close(self) -> None:
        """End the report under way; no other begins."""
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child.kill()

    def _start(self, file: int, page: Path) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise RecordingError("the bridge ends")
            if self._child is not None:
                raise RecordingError("another report is being made: ask again in a minute")
            # Our own program, and a file of the bridge's own folder.
            self._child = subprocess.Popen(  # noqa: S603
                [*_MAKER, f"/proc/self/fd/{file}", "-o", str(page)],
                pass_fds=(file,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            if sys.platform == "linux":
                import resource

                with contextlib.suppress(OSError):  # it has ended already
                    # Before the bridge.
                    Path(f"/proc/{self._child.pid}/oom_score_adj").write_text("1000")
                resource.prlimit(
                    self._child.pid, resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES)
                )
            return self._child

    def _wait(self, name: str, child: subprocess.Popen[bytes]) -> None:
        try:
            said = child.communicate(timeout=_PATIENCE_S)[1]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise RecordingError(
                f"the report of {name} was not made within {_PATIENCE_S:.0f} s: {_ELSEWHERE}"
            ) from None
        if child.returncode:
            reason = (
                said.decode(errors="replace").splitlines() or [f"exit code {child.returncode}"]
            )[-1]
            reason = re.sub(r"/proc/self/fd/\d+", name, reason)
            raise RecordingError(f"no report of {name} could be made ({reason}): {_ELSEWHERE}")
