"""House rules that tools can check: class names, first words of docstrings, banned words.

``python -m tests.support.house [PATH ...]`` lists the violations below the paths, the whole product
by default.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.common import ROOT
from tests.support.packages import CODE

__all__ = [
    "configurations",
    "duplicate_classes",
    "imports",
    "openings",
    "pages",
    "python_files",
    "violations",
    "words",
]

_COPIED: Final = ("vil_bridge/client.py", "vil_bridge/client_warp.py")
"""Files that a vehicle gets by copying: they cannot share a class."""
_LITERAL: Final = (
    "renderer/vil_renderer/embedded/scenes/",
    "renderer/vil_renderer/embedded/scene.py",
)
"""Modules of scenes with real desks, where the word is meant literally."""
_FURNITURE: Final = re.compile(r"_?desks?(_m)?", re.I)
_OPENING: Final = re.compile(r"(What|Who|Whose|Whom|Whether|How|Which|Where|Whence|When|Why)\b")
_CODE_BLOCK: Final = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.M | re.S)
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _banned() -> dict[re.Pattern[str], str]:
    rows = [
        line
        for line in (ROOT / "scripts/banned_words.txt").read_text().splitlines()
        if line[:1] not in ("", "#")
    ]
    pairs = [row.split("\t") for row in rows]
    return {re.compile(rf"\b(?:{pattern})\b", re.I): cure for pattern, cure in pairs}


_BANNED: Final = _banned()
_ANY_BANNED: Final = re.compile("|".join(pattern.pattern for pattern in _BANNED), re.I)
_NAMING: Final = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.Attribute},
)
"""Kinds of nodes that give names."""
_JUDGED: Final = _NAMING | {ast.Expr, ast.Import, ast.ImportFrom, ast.Call}
_LOADERS: Final = frozenset({"import_module", "load_native"})
"""Functions whose first argument names a module."""


def python_files() -> list[Path]:
    """Return the product's Python files."""
    return sorted(
        path
        for part in CODE
        for path in (ROOT / part).rglob("*.py")
        if "node_modules" not in path.parts
    )


def pages() -> list[Path]:
    """Return the pages that people read."""
    fixed = ("README.md", "CONTRIBUTING.md", "adapters/README.md", "renderer/README.md")
    return [*(ROOT / name for name in fixed), *sorted((ROOT / "docs").rglob("*.md"))]


def configurations() -> list[Path]:
    """Return the configuration files that people copy."""
    return [
        file
        for part in ("configs", "vil_bridge/config/presets")
        for file in sorted((ROOT / part).rglob("*.yaml"))
    ]


class _Facts(NamedTuple):
    """Facts of a module on which the rules judge.

    Attributes:
        openings: line and first word of the docstrings, of constants too, that begin with a
            question word.
        names: line and text of the names that the module gives.
        classes: public classes.
        imports: modules, by statement or by a literal name.
    """

    openings: list[tuple[int, str]]
    names: list[tuple[int, str]]
    classes: list[str]
    imports: list[str]


@cache
def _facts(text: str) -> _Facts:
    """Return the facts of a module; it is parsed once for all rules."""
    facts = _Facts([], [], [], [])
    for node in ast.walk(ast.parse(text)):
        if type(node) not in _JUDGED:
            continue
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            match = _OPENING.match(node.value.value)
            if match:
                facts.openings.append((node.lineno, match[0]))
        elif isinstance(node, ast.Import):
            facts.imports.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            facts.imports.append(node.module or "")
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) in _LOADERS
        ):
            facts.imports.extend(
                str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)
            )
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            facts.classes.append(node.name)
        if type(node) in _NAMING:
            facts.names.extend((getattr(node, "lineno", 1), name) for name in _names(node))
    return facts


def openings(path: Path) -> Iterator[str]:
    """Yield docstrings, of constants too, that begin with a question word."""
    for line, word in _facts(path.read_text()).openings:
        yield f"{_name(path)}:{line}: the docstring begins with {word!r}"


def imports(path: Path) -> list[str]:
    """Return the modules that a file imports, by statement or by a literal name.

    Relative ones left out.
    """
    return _facts(path.read_text()).imports


def words(path: Path) -> Iterator[str]:
    """Yield banned words in the names, docstrings, messages and comments of a module, or in the
    text of a page.
    """
    text = path.read_text()
    if path.suffix == ".md":
        shown = _CODE_BLOCK.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        yield from _found(path, shown, 1)
        return
    yield from _found(path, text, 1)
    if path.suffix != ".py":
        return
    for line, name in _facts(text).names:
        for cure in _cures(name):
            if not _is_literal(path, name):
                yield f"{_name(path)}:{line}: the name {name}: {cure}"


@cache
def _cures(name: str) -> list[str]:
    """Return the cures for banned words that are parts of a name."""
    parts = [part.lower() for piece in name.split("_") for part in _PART.findall(piece)]
    if len(parts) < 2:
        return []
    return [
        cure for pattern, cure in _BANNED.items() if any(pattern.fullmatch(part) for part in parts)
    ]


_FIXED = frozenset({"tell"})
"""Names of methods that a library fixes.

The position in a file, which MCAP's asks for and MessagePack's has.
"""


def duplicate_classes() -> list[str]:
    """Return the public classes that two modules of the product define."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in python_files():
        if _name(path) in _COPIED:
            continue
        for name in _facts(path.read_text()).classes:
            found[name].append(_name(path))
    return [
        f"class {name}: {', '.join(where)}"
        for name, where in sorted(found.items())
        if len(where) > 1
    ]


def violations(paths: list[Path]) -> list[str]:
    """Return every violation in files and in all files below folders."""
    files = [
        file
        for path in paths
        for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))
    ]
    found = [line for file in files if file.suffix == ".py" for line in openings(file)]
    return found + [line for file in files for line in words(file)]


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def _found(path: Path, text: str, first: int) -> Iterator[str]:
    if not _ANY_BANNED.search(text):
        return
    for number, line in enumerate(text.splitlines(), first):
        for pattern, cure in _BANNED.items():
            for match in pattern.finditer(line):
                fixed = match[0] in _FIXED and line[: match.start()].endswith(("def ", "."))
                if _is_literal(path, match[0]) or fixed:
                    continue
                yield f"{_name(path)}:{number}: {match[0]!r}: {cure}"


def _is_literal(path: Path, word: str) -> bool:
    return _name(path).startswith(_LITERAL) and _FURNITURE.fullmatch(word) is not None


def _name(path: Path) -> str:
    return str(path.resolve().relative_to(ROOT))


if __name__ == "__main__":
    given = [Path(name).resolve() for name in sys.argv[1:]] or [
        *(ROOT / part for part in CODE),
        *pages(),
        *configurations(),
    ]
    listed = violations(given) + ([] if sys.argv[1:] else duplicate_classes())
    sys.stdout.write("\n".join([*listed, f"{len(listed)} violations\n"]))
    sys.exit(bool(listed))
