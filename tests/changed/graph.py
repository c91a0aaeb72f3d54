"""Graph of who imports, starts or names which file, from syntax trees."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tests.support.packages import FOLDERS, relative_module

__all__ = ["Facts", "Graph", "facts", "folders", "module_of"]

_ROOTS: Final = {**FOLDERS, "tests": "", "scripts": ""}
_DOTTED: Final = re.compile(rf"\b(?:{'|'.join(_ROOTS)})(?:\.\w+)+")
_PATH: Final = re.compile(r"[\w./@+-]*[\w/]")
_PROGRAM: Final = ("vil_bridge", "vil-bridge")
_PROGRAMS_MODULE: Final = "vil_bridge.__main__"


@dataclass(frozen=True)
class Facts:
    """Facts of a file about others.

    Attributes:
        imports: pairs of a dotted name and the name that it has here, "" where the module itself is
            bound.
        typing: the same of imports for type checkers only.
        started: dotted names in texts: tables of plug-ins, ``python -m``, code for other processes.
        words: texts that may be paths of files or folders.
    """

    imports: tuple[tuple[str, str], ...] = ()
    typing: tuple[tuple[str, str], ...] = ()
    started: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def module_of(path: str) -> str:
    """Return the dotted name of a Python file."""
    return relative_module(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _joined(node: ast.expr) -> str:
    """Return the constant end of a path such as ``ROOT / "docs" / "index.md"``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left = _joined(node.left)
        right = _joined(node.right)
        return f"{left}/{right}" if left and right else left or right
    return ""


class _Reader(ast.NodeVisitor):
    def __init__(self, package: str) -> None:
        self.package = package
        self.imports = set[tuple[str, str]]()
        self.typing = set[tuple[str, str]]()
        self.started = set[str]()
        self.words = set[str]()

    def visit_Import(self, node: ast.Import) -> None:
        self.imports |= {
            (each.name, "") for each in node.names if each.name.partition(".")[0] in _ROOTS
        }

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self.package.split(".")[: -node.level + 1 or None] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        if module.partition(".")[0] in _ROOTS:
            self.imports |= {
                (f"{module}.{each.name}", each.asname or each.name) for each in node.names
            }

    def visit_If(self, node: ast.If) -> None:
        test = node.test
        if "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", "")):
            inner = _Reader(self.package)
            for each in node.body:
                inner.visit(each)
            self.typing |= inner.imports | inner.typing
            for each in node.orelse:
                self.visit(each)
        else:
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # not a docstring
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        word = _joined(node)
        if "/" in word:
            self._note(word)
            left: ast.expr = node
            while isinstance(left, ast.BinOp):
                left = left.left
            self.visit(left)
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._note(node.value)

    def _note(self, text: str) -> None:
        self.started.update(_DOTTED.findall(text))
        if text in _PROGRAM:
            self.started.add(_PROGRAMS_MODULE)
        elif (
            not _DOTTED.fullmatch(text)
            and len(text) < 200
            and _PATH.fullmatch(text)
            and len(text) > 2
        ):
            self.words.add(text.removeprefix("./"))


def facts(path: str, text: str) -> Facts:
    """Return what a file says about others.

    An empty answer for what is neither Python nor a shell script.
    """
    if path.endswith(".sh"):
        return Facts(
            words=tuple(
                sorted(word for word in set(_PATH.findall(text)) if "." in word or "/" in word)
            )
        )
    if not path.endswith(".py"):
        return Facts()
    reader = _Reader(
        module_of(path) if path.endswith("/__init__.py") else module_of(path).rpartition(".")[0]
    )
    reader.visit(ast.parse(text))
    return Facts(
        *(tuple(sorted(reader.imports)), tuple(sorted(reader.typing))),
        *(tuple(sorted(reader.started)), tuple(sorted(reader.words))),
    )


class Graph:
    """Graph of a tree: its files' facts and all its paths."""

    def __init__(self, known: Mapping[str, Facts], paths: Collection[str]) -> None:
        self._facts = known
        self._paths = set(paths)
        self._of_module = {module_of(path): path for path in self._paths if path.endswith(".py")}
        self._folders = {folder.rstrip("/") for path in self._paths for folder in folders(path)}
        self._places: dict[str, tuple[str, str]] = {}

    def place(self, dotted: str) -> tuple[str, str]:
        """Return the file that a dotted name leads to, and the rest of the name."""
        if dotted not in self._places:
            self._places[dotted] = self._place(dotted)
        return self._places[dotted]

    def _place(self, dotted: str) -> tuple[str, str]:
        name = dotted
        rest = ""
        while name:
            if name in self._of_module:
                return self._of_module[name], rest
            name, _, last = name.rpartition(".")
            rest = f"{last}.{rest}".rstrip(".")
        return "", ""

    def imports(self, path: str) -> Collection[tuple[str, str]]:
        """Return pairs of a dotted name that a file imports and the name that it has there."""
        each = self._facts.get(path, Facts())
        return {*each.imports, *each.typing}

    @cached_property
    def importers(self) -> Mapping[str, Mapping[str, set[tuple[str, str]]]]:
        """Files that import each file, for type checkers too, with pairs of the name there and the
        name here.

        Both are "" where the module itself is bound.
        """
        found: defaultdict[str, defaultdict[str, set[tuple[str, str]]]] = defaultdict(
            lambda: defaultdict(set)
        )
        for path, each in self._facts.items():
            for dotted, here in {*each.imports, *each.typing}:
                target, name = self.place(dotted)
                if target and target != path:
                    found[target][path].add((name, here) if name else ("", ""))
        return found

    @cached_property
    def starters(self) -> Mapping[str, set[str]]:
        """Files that have each file's dotted name in a text."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path, each in self._facts.items():
            for dotted in each.started:
                for target in self._start(dotted) - {path}:
                    found[target].add(path)
        return found

    def _start(self, dotted: str) -> set[str]:
        """Return what runs when a dotted name is imported or started with ``python -m``."""
        target, _ = self.place(dotted)
        return {target, target.removesuffix("__init__.py") + "__main__.py"} & self._paths

    @cached_property
    def _by_word(self) -> Mapping[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path, each in self._facts.items():
            for word in each.words:
                found[word].add(path)
        return found

    def namers(self, path: str) -> set[str]:
        """Return the files with a text that names a path, its end, or a folder above it."""
        parts = path.split("/")
        found = set[str]()
        for first in range(len(parts)):
            found |= self._by_word.get("/".join(parts[first:]), set())
        for last in range(1, len(parts)):
            folder = parts[:last]
            found |= self._by_word.get("/".join(folder), set())
            for first in range(1, last - 1):
                found |= self._by_word.get("/".join(folder[first:]), set())
            beside = "/".join(folder[:-1])
            found |= {
                other
                for other in self._by_word.get(folder[-1], ())
                if other.rpartition("/")[0] == beside
            }
        return found - {path}

    @cached_property
    def _needed(self) -> Mapping[str, set[str]]:
        """Files that each file needs when it runs.

        Imports, packages around them, what it starts and names.
        """
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path, each in self._facts.items():
            targets = {self.place(name)[0] for name, _ in each.imports}
            targets |= {target for name in each.started for target in self._start(name)}
            targets |= {f"{folder}__init__.py" for target in targets for folder in folders(target)}
            found[path] = (targets & self._paths) - {path}
        by_end: defaultdict[str, set[str]] = defaultdict(set)
        for path in self._paths:
            by_end[path.rpartition("/")[2]].add(path)
        for path, each in self._facts.items():
            for word in each.words:
                found[path] |= {
                    end
                    for end in by_end.get(word.rpartition("/")[2], ())
                    if f"/{end}".endswith(f"/{word}")
                }
                beside = f"{path.rpartition('/')[0]}/{word}"
                found[path] |= {f"{folder}/" for folder in {word, beside} & self._folders}
        return found

    @cached_property
    def _needing(self) -> Mapping[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path, needed in self._needed.items():
            for each in needed:
                found[each].add(path)
        return found

    def dependents(self, path: str) -> set[str]:
        """Return what needs a file or a folder above it, directly or not, and the file."""
        due = [path, *folders(path)]
        found = set(due)
        while due:
            more = self._needing.get(due.pop(), set()) - found
            found |= more
            due += more
        return found


def folders(path: str) -> Iterator[str]:
    """Yield the folders above a path, each with a slash at its end."""
    parts: Sequence[str] = path.split("/")
    for last in range(1, len(parts)):
        yield "/".join(parts[:last]) + "/"
