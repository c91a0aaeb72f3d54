"""Mutants of the compiled kernel: comparisons, signs, logic, constants and statements of C."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from hatch_build import FLAGS, c_compiler
from tests.mutants.language import Language, Mutant
from tests.support.common import ROOT

__all__ = ["KERNEL", "C", "callers", "is_c", "library"]

KERNEL: Final = "vil_bridge/kernel"

_TOKEN: Final = re.compile(
    r"""(?P<skipped>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'
    |^[ \t]*\#(?:\\\n|[^\n])*|\s+)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|->|\+\+|--|<<|>>|[<>=!+\-*/%&|^]=|&&|\|\||.)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
# Operators, and what takes their place.
_OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "&&": ("||",),
    "||": ("&&",),
    "!": ("",),
    "+": ("-",),
    "-": ("+",),
    "+=": ("-=",),
    "-=": ("+=",),
    "++": ("--",),
    "--": ("++",),
}
_NO_EXPRESSION: Final = {
    *(
        "break",
        "case",
        "const",
        "continue",
        "default",
        "do",
        "else",
        "enum",
        "for",
        "goto",
        "if",
        "return",
    ),
    *("static", "struct", "switch", "typedef", "union", "while"),
}


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _Site(NamedTuple):
    """Text from ``start`` to ``end`` and what an operator puts there."""

    operator: str
    start: int
    end: int
    text: str


def _tokens(source: str) -> list[_Token]:
    matches = _TOKEN.finditer(source)
    return [_Token(m.lastgroup or "", m[0], m.start()) for m in matches if m.lastgroup != "skipped"]


def _numbers(token: _Token) -> Iterator[_Site]:
    digits = token.text.rstrip("uUlL" if token.text[:2] in {"0x", "0X"} else "uUlLfF")
    suffix = token.text[len(digits) :]
    for step in (1, -1):
        whole = not re.search(r"[.eE]", digits) or digits[:2] in {"0x", "0X"}
        other = int(digits, 0) + step if whole else float(digits) + step
        text = f"{other!r}{suffix}"
        yield _Site(
            f"Number {step:+}",
            token.start,
            token.start + len(token.text),
            text if other >= 0 else f"({text})",
        )


def _statements(tokens: list[_Token]) -> Iterator[_Site]:
    """Yield the statements that are one expression, between two ends of statements outside of
    parentheses.
    """
    first = 0
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.text in "([") - (token.text in ")]")
        if depth:
            continue
        if token.text == ";":
            if _is_expression(tokens[first:number]):
                yield _Site("Statement", tokens[first].start, token.start, "")
            first = number + 1
        elif token.text in {"{", "}", "else"} or (
            token.text == ")" and _is_head(tokens[first : number + 1])
        ):
            first = number + 1


def _is_head(tokens: list[_Token]) -> bool:
    """Return whether the tokens are what stands before the body of a loop or of a condition."""
    return tokens[0].text in {"for", "if", "while", "switch"}


def _is_expression(tokens: list[_Token]) -> bool:
    """Return whether the tokens are neither of a declaration nor of a jump."""
    if not tokens or tokens[0].text in _NO_EXPRESSION:
        return False
    after = next((token for token in tokens[1:] if token.text != "*"), None)
    return after is not None and not (tokens[0].kind == "word" and after.kind == "word")


def _sites(source: str) -> list[_Site]:
    tokens = _tokens(source)
    found = list(_statements(tokens))
    for token in tokens:
        if token.kind == "number":
            found += _numbers(token)
        end = token.start + len(token.text)
        others = _OTHERS.get(token.text, ())
        found += [
            _Site(f"{token.text} to {other or 'nothing'}", token.start, end, other)
            for other in others
        ]
    return sorted(found, key=lambda site: (site.operator, site.start))


def _mutants_of(file: str, source: str) -> dict[int, list[Mutant]]:
    lines = source.splitlines()
    around = _places(source)
    found: dict[int, list[Mutant]] = {}
    occurrences = Counter[str]()
    on_line = Counter[tuple[str, int]]()
    for site in _sites(source):
        line = source.count("\n", 0, site.start) + 1
        mutant = Mutant(
            *(file, line, around.get(line, ""), lines[line - 1].strip()),
            *(site.operator, occurrences[site.operator], on_line[site.operator, line]),
        )
        occurrences[site.operator] += 1
        on_line[site.operator, line] += 1
        found.setdefault(line, []).append(mutant)
    return found


def _mutated(source: str, mutant: Mutant) -> str:
    site = [site for site in _sites(source) if site.operator == mutant.operator][mutant.occurrence]
    return source[: site.start] + site.text + source[site.end :]


def _places(source: str) -> dict[int, str]:
    found: dict[int, str] = {}
    depth = 0
    name = ""
    line = 0
    before = _Token("", "", 0)
    for token in _tokens(source):
        here = source.count("\n", 0, token.start) + 1
        if depth == 0 and token.text == "(" and before.kind == "word":
            name = before.text
            line = here
        elif depth == 0 and token.text in {";", "="}:
            name = ""
        depth += (token.text == "{") - (token.text == "}")
        if depth == 0 and token.text == "}":
            found.update(dict.fromkeys(range(line, here + 1), name) if name else {})
            name = ""
        before = token
    return found


# --- the library ---------------------------------------------------------------------------------


def is_c(file: str) -> bool:
    return file.endswith((".c", ".h"))


def library(root: Path, file: str = "", text: str = "") -> bytes | None:
    """Return the kernel's library as the product builds it, one of its files with another text.

    None: no compilation.

    Two equal libraries behave alike.
    """
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted((root / KERNEL).glob("*.[ch]"))
    }
    if file:
        texts[Path(file).name] = text
    headers = tuple((name, text) for name, text in texts.items() if name.endswith(".h"))
    made = [_object(name, text, headers) for name, text in texts.items() if name.endswith(".c")]
    objects = tuple(each for each in made if each is not None)
    return _linked(objects) if len(objects) == len(made) else None


@lru_cache(maxsize=512)
def _object(name: str, text: str, headers: tuple[tuple[str, str], ...]) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="vm") as scratch:
        for each, content in (*headers, (name, text)):
            (Path(scratch) / each).write_text(content, encoding="utf-8")
        return _compiled(Path(scratch), "-c", name)


@lru_cache(maxsize=64)
def _linked(objects: tuple[bytes, ...]) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="vm") as scratch:
        for number, content in enumerate(objects):
            (Path(scratch) / f"{number:02}.o").write_bytes(content)
        return _compiled(
            Path(scratch), *(f"{number:02}.o" for number in range(len(objects))), "-lm"
        )


@lru_cache(maxsize=1)
def _compiler() -> str:
    found = c_compiler()
    if found is None:
        raise SystemExit("mutants need a C compiler: apt-get install gcc libc6-dev")
    return found


def _compiled(folder: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(
        [_compiler(), *FLAGS, *arguments, "-o", "made"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return (folder / "made").read_bytes() if done.returncode == 0 else None


def _same(file: str, source: str, changed: str) -> bool:
    made = library(ROOT, file, changed)
    return made is None or made == library(ROOT, file, source)


C: Final = Language(_mutants_of, _mutated, _places, _same)


# --- who calls it --------------------------------------------------------------------------------


def callers(file: str, texts: Mapping[str, str]) -> list[str]:
    """Return the modules of Python that call functions of a file, or of a file of C that uses
    it.
    """
    used = {file}
    edge = [file]
    while edge:
        pattern = _uses(edge.pop(), texts)
        more = [
            other
            for other, text in texts.items()
            if is_c(other) and other not in used and pattern.search(text)
        ]
        used.update(more)
        edge += more
    names = {name for each in used for name in _functions(texts[each])}
    python = {other: text for other, text in texts.items() if other.endswith(".py")}
    return [
        other
        for other, text in python.items()
        if not names.isdisjoint(re.findall(r"vil_\w+", text))
    ]


def _functions(text: str) -> list[str]:
    """Names of the functions that other files may call."""
    return re.findall(r"^\w[\w *]*\b(vil_\w+)\(", text, re.MULTILINE)


def _uses(file: str, texts: Mapping[str, str]) -> re.Pattern[str]:
    included = re.escape(f'"{Path(file).name}"')
    return re.compile(
        "|".join([f"#include {included}", *(rf"\b{name}\(" for name in _functions(texts[file]))])
    )
