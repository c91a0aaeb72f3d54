"""Copies of the tracked files in which mutants are put and tests are run, in processes that end
in time.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from tests.mutants.c_source import KERNEL, is_c, library
from tests.mutants.rooms import tracked
from tests.support.packages import python_path

__all__ = ["Copies", "Copy", "Run"]

# What is built, not tracked, and looked for by tests.
_LINKS: Final = ("vil_bridge/web/static", "vil_bridge/web/frontend/node_modules")
_MOST_MEMORY: Final = 8 << 30
# Plug-ins that no test here needs; the second takes a third of a short run to import.
_WITHOUT: Final = [f"-pno:{name}" for name in ("cacheprovider", "schemathesis")]


class Run(NamedTuple):
    """End of a run of pytest; ``code`` is None where the time was over."""

    code: int | None
    output: str


class Copy:
    """A copy of the tracked files of ``root`` in ``folder``."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder.resolve()
        self._root = root
        folder.mkdir(parents=True, exist_ok=True)
        paths = tracked(root)
        for path in paths:
            self._renew(path)
        for old in set(tracked_below(folder)) - set(paths):
            (folder / old).unlink()
        for link in _LINKS:
            if (root / link).exists() and not (folder / link).exists():
                (folder / link).symlink_to((root / link).resolve())
        self._put_library()

    def _renew(self, path: str) -> None:
        source, target = self._root / path, self.folder / path
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            self._forget_compiled(target)

    @staticmethod
    def _forget_compiled(target: Path) -> None:
        """A mutant may have the size and the second of what was compiled before."""
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()

    def _put_library(self, path: str = "", text: str = "") -> None:
        """Put the compiled kernel there, one of its files with another text."""
        made = library(self._root, path, text)
        assert made is not None, f"{path or KERNEL} does not compile"
        target = self.folder / KERNEL / "libvil_kernel.so"
        target.unlink(missing_ok=True)  # a program that still runs keeps its own
        target.write_bytes(made)

    @contextlib.contextmanager
    def holding(self, path: str, text: str) -> Iterator[None]:
        """Let the copy of one file, and what is compiled of it, hold another text for a while."""
        target = self.folder / path
        self._forget_compiled(target)
        target.write_text(text, encoding="utf-8")
        try:
            if is_c(path):
                self._put_library(path, text)
            yield
        finally:
            self._forget_compiled(target)
            shutil.copy2(self._root / path, target)
            if is_c(path):
                self._put_library()

    def pytest(
        self,
        options: Sequence[str],
        tests: Sequence[str],
        limit_s: float,
        more: Mapping[str, str] | None = None,
    ) -> Run:
        """Run tests on this copy; what they started ends with them."""
        with tempfile.TemporaryDirectory(prefix="vm", ignore_cleanup_errors=True) as scratch:
            listed = Path(scratch) / "tests"
            listed.write_text("\n".join(tests))
            environment = {
                **os.environ,
                "PYTHONPATH": python_path(self.folder),
                "VIL_TEST_DATA": os.environ.get(
                    "VIL_TEST_DATA", str(self._root.parent / "shared" / "data")
                ),
                "PYTHONDONTWRITEBYTECODE": "1",
                "TMPDIR": scratch,
                **(more or {}),
            }
            command = [sys.executable, "-m", "pytest", "-q", *_WITHOUT, *options, f"@{listed}"]
            return self._run(command, environment, limit_s)

    def _run(self, command: list[str], environment: dict[str, str], limit_s: float) -> Run:
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
            try:
                code: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            return Run(code, output.read().decode(errors="replace"))


class Copies:
    """Copies of the tracked files, each lent to one thread at a time."""

    def __init__(self, root: Path, folder: Path, count: int) -> None:
        self.first = Copy(root, folder / "copy-1")
        self.count = count
        self._free: SimpleQueue[Copy] = SimpleQueue()
        for copy in [
            self.first,
            *(Copy(root, folder / f"copy-{number}") for number in range(2, count + 1)),
        ]:
            self._free.put(copy)

    @contextlib.contextmanager
    def lent(self) -> Iterator[Copy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def tracked_below(folder: Path) -> list[str]:
    """Return the files of a copy, without what running it leaves there."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in {"__pycache__", ".hypothesis", "out"}]
        found += [str((Path(parent) / name).relative_to(folder)) for name in names]
    return found
