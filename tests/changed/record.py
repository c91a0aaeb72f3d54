"""Record what each test file runs, and its seconds: ``python -m tests.changed record``.

Each test file runs in a fork of its own, so that no cache of an earlier one hides what it runs.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import sysconfig
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final

import pytest

from tests.changed import marks
from tests.changed.recording import IMPORT, READ, Recording, is_test
from tests.mutants.rooms import tracked
from tests.support.packages import FOLDERS

__all__ = ["record"]

ROOT: Final = Path(__file__).parents[2]
SELECTED: Final = "not long and not alone"
_MARKED: Final = (*(f"{folder}{package}/" for package, folder in FOLDERS.items()), "tests/")
_UNMARKED: Final = ("tests/layers.py", "tests/conftest.py", "tests/browser/conftest.py")
# Large, and imported once, before the forks.
_SHARED: Final = (
    *(
        "numpy",
        "scipy.optimize",
        "scipy.spatial.transform",
        "cv2",
        "numba",
        "zmq",
        "msgspec",
        "pydantic",
        "fastapi",
    ),
    *(
        "uvicorn",
        "websockets",
        "google.protobuf.message",
        "typer",
        "rich",
        "yaml",
        "hypothesis.extra.numpy",
    ),
)
_PYTEST: Final = ("-q", "-p", "no:cacheprovider", "-p", "no:schemathesis")
_PTH: Final = Path(sysconfig.get_path("purelib")) / "zz_vil_changed.pth"
_PTH_LINE: Final = (
    f'import os; os.environ.get("{marks.MARKS}") and '
    f'__import__("runpy").run_path({marks.__file__!r})["install"]()\n'
)


class _Seconds:
    """Plug-in of pytest.

    Adds up the seconds of a test file, without those for which it was ready and had no core.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Measure a case."""
        begun = time.monotonic() - _waited_s()
        try:
            return (yield)
        finally:
            self.seconds += max(0.0, time.monotonic() - _waited_s() - begun)


def _waited_s() -> float:
    """Return for how long this thread was ready and had no core so far."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def _run(file: str, folder: Path, size: int) -> int:
    """Run a test file in this process, which ends behind it.

    Its marks, seconds and output go to the folder.
    """
    held = folder / file.replace("/", "-")
    bits = held.with_suffix(".marks")
    bits.write_bytes(bytes(size))
    output = os.open(held.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ[marks.MARKS] = str(bits)
    marks.install()
    noted = _Seconds()
    code = pytest.main([*_PYTEST, "-m", SELECTED, file], [noted])
    held.with_suffix(".seconds").write_text(f"{noted.seconds:.2f}")
    sys.stdout.flush()
    return int(code)


def _results(files: Sequence[str], folder: Path, size: int, jobs: int) -> Iterator[tuple[str, int]]:
    """Run the test files, some at a time; yield each with pytest's exit code when it ends."""
    due = list(reversed(files))
    running = dict[int, str]()
    while due or running:
        while due and len(running) < jobs:
            file = due.pop()
            pid = os.fork()
            if not pid:
                try:
                    code = _run(file, folder, size)
                except BaseException as error:
                    print(repr(error), flush=True)
                    code = 3
                os._exit(code)
            running[pid] = file
        pid, status = os.wait()
        if pid in running:
            yield running.pop(pid), os.waitstatus_to_exitcode(status)


@contextmanager
def _children_marked() -> Iterator[None]:
    _PTH.write_text(_PTH_LINE)
    try:
        yield
    finally:
        _PTH.unlink()


def record(beginnings: Sequence[str], jobs: int) -> None:
    """Record the test files whose paths begin so; one with a failure keeps what is stored."""
    folder = ROOT / "out" / "changed"
    folder.mkdir(parents=True, exist_ok=True)
    tree = tracked(ROOT)
    tests = [path for path in tree if is_test(path)]
    files = [path for beginning in beginnings for path in tests if path.startswith(beginning)]
    names = list[tuple[str, str]]()
    table = dict[str, int]()
    reads = dict[str, int]()
    for path in tree:
        if (
            path.endswith(".py")
            and path.startswith(_MARKED)
            and path not in _UNMARKED
            and not is_test(path)
        ):
            table[str(ROOT / path)] = len(names)
            names.append((path, IMPORT))
            if not marks.is_blind(path):
                names += [
                    (path, name)
                    for name, _ in marks.functions(ast.parse((ROOT / path).read_bytes()).body)
                ]
    folders = {str(above) for path in tree for above in PurePath(path).parents}
    for path in [*tree, *(each for each in sorted(folders) if not each.startswith("tests"))]:
        if not path.startswith("tests/changed/"):
            reads[str(ROOT / path)] = len(names)
            names.append((path, READ))
    # Of this run: another one may begin with other files.
    places = folder / f"table-{os.getpid()}.json"
    places.write_text(json.dumps({"modules": table, "reads": reads}))
    os.environ[marks.TABLE] = str(places)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    pytest.main([*_PYTEST, "--collect-only", "--noconftest", __file__])  # imports the plug-ins
    for name in _SHARED:
        importlib.import_module(name)
    recording = Recording.read()
    recording.hold(names)
    begun = time.monotonic()
    with _children_marked():
        for number, (file, code) in enumerate(_results(files, folder, len(names), jobs), 1):
            held = folder / file.replace("/", "-")
            seconds = held.with_suffix(".seconds")
            good = code in (0, 5) and seconds.exists()
            print(
                f"{number}/{len(files)} {time.monotonic() - begun:.0f} s {file} "
                f"{'' if good else f'failed: {code}'}",
                flush=True,
            )
            if good:
                bits = held.with_suffix(".marks")
                reached = {names[place] for place, bit in enumerate(bits.read_bytes()) if bit}
                recording.note(file, (ROOT / file).read_text(), float(seconds.read_text()), reached)
                bits.unlink()
            if number % 20 == 0 or number == len(files):
                recording.write()
    places.unlink()
