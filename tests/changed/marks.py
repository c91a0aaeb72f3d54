"""Marks at the entry of functions.

Which parts of which modules a test runs, and what it reads, in its programs too.

An import hook compiles the modules of the table with one store at the entry of each outermost
function or method. An audit hook marks files that are opened and folders that are listed. The marks
are bytes of a file that all processes of a test file share, so that they outlive a killed process.
A line in site-packages (:mod:`tests.changed.record` writes it) runs this module in each child
process.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import marshal
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePath
from types import CodeType, ModuleType
from typing import Any, Final

__all__ = ["MARKS", "TABLE", "functions", "install", "is_blind"]

TABLE: Final = "VIL_CHANGED_TABLE"
"""Variable of the environment.

File with the first mark of each module and the mark of each path that may be read.

Compiled modules are stored next to it.
"""
MARKS: Final = "VIL_CHANGED_MARKS"
"""Variable of the environment: file of the marks."""

_COMPILED: Final = {"compiled", "jit", "njit", "vectorize"}
_BLIND: Final = (
    # Formulas that machine code shares, and files that run as copies or in other interpreters.
    *("*kernel*.py", "kernels.py", "philox.py", "formulas.py", "elementary.py"),
    *("client.py", "client_warp.py", "tests/support/airsim_programs/*", "tests/changed/*"),
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_blind(path: str) -> bool:
    """Return whether the functions of a module are not marked, since they may run where marks do
    not work.
    """
    return any(PurePath(path).match(pattern) for pattern in _BLIND)


def functions(body: Sequence[ast.stmt], around: str = "") -> Iterator[tuple[str, Function]]:
    """Yield the functions outside functions and the methods, with dotted names.

    Not those that become machine code.
    """
    for node in body:
        if isinstance(node, Function):
            words = {
                getattr(each, "id", getattr(each, "attr", ""))
                for top in node.decorator_list
                for each in ast.walk(top)
            }
            if not words & _COMPILED:
                yield around + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{around}{node.name}.")
        else:
            for inner in ("body", "orelse", "finalbody", "handlers"):
                yield from functions(getattr(node, inner, ()), around)


def _marked(source: bytes, path: str, first: int) -> CodeType:
    tree = ast.parse(source)
    if not is_blind(path):
        for number, (_, function) in enumerate(functions(tree.body), first + 1):
            (mark,) = ast.parse(f"__vil_marks__[{number}] = 1").body
            body = function.body
            after = int(isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))
            for node in ast.walk(mark):
                ast.copy_location(node, body[0])
            body.insert(after, mark)
    return compile(tree, path, "exec", dont_inherit=True)


def _read(path: str) -> bytes:
    """Return the content of a file, opened as the audit hook does not notice."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


class _Loader(SourceFileLoader):
    """Loader that marks."""

    first: int
    folder: Path

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = _read(path)
        builtins.__vil_marks__[self.first] = 1  # type: ignore[attr-defined]
        key = hashlib.sha256(b"%d %s\0%s" % (self.first, path.encode(), source)).hexdigest()[:24]
        stored = self.folder / key
        if stored.exists():
            return marshal.loads(stored.read_bytes())  # type: ignore[no-any-return]
        code = _marked(source, path, self.first)
        beginning = stored.with_suffix(f".{os.getpid()}")
        beginning.write_bytes(marshal.dumps(code))
        beginning.replace(stored)
        return code


class _Finder:
    """Finder of the modules of the table, before all others."""

    def __init__(self, table: dict[str, int], folder: Path) -> None:
        self._table = table
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in (
            "vil_bridge",
            "vil_adapters",
            "vil_renderer",
            "vil_simulation",
            "vil_benchmarks",
            "tests",
        ):
            return None
        spec = PathFinder.find_spec(name, path, target)
        first = self._table.get(spec.origin or "") if spec else None
        if spec is None or first is None:
            return None
        spec.loader = _Loader(name, str(spec.origin))
        spec.loader.first = first
        spec.loader.folder = self._folder
        return spec


def _reading(reads: dict[str, int], marks: Any) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if (event == "open" and arguments[1] is not None) or event == "os.scandir":
            path = arguments[0]
            if isinstance(path, str | os.PathLike):
                place = reads.get(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
                if place is not None:
                    marks[place] = 1

    return hook


def install() -> None:
    """Mark what is imported, opened and listed from now on."""
    table = Path(os.environ[TABLE])
    if not Path(os.environ[MARKS]).exists():  # left over: its test has ended
        return
    with Path(os.environ[MARKS]).open("r+b") as file:
        marks: Any = mmap.mmap(file.fileno(), 0)
    builtins.__vil_marks__ = marks  # type: ignore[attr-defined]
    places = json.loads(table.read_text())
    sys.meta_path.insert(0, _Finder(places["modules"], table.with_name("code")))
    sys.addaudithook(_reading(places["reads"], marks))
