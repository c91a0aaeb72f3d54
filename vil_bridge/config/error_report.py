"""Problems of a file as text.

``file:line:col: path: reason (did you mean 'x'?)``, all of them at once.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vil_bridge.config.references import similar
from vil_bridge.config.yaml_positions import MAX_BYTES, Path, Place, Tree, parse

_KINDS: Final = {
    "model_type": "should hold keys (`name: value`)",
    "dict_type": "should hold keys (`name: value`)",
    "tuple_type": "should be a list: [a, b]",
    "list_type": "should be a list: [a, b]",
    "path_type": "should be the path of a file",
}
"""Expected kind of a value, by the type of the error."""

_MOST_WRITTEN: Final = 200

Problem = tuple[Place, Path, str]
Narrow = Callable[[Any, Path], Any]
"""Gives the model that really describes a section, from the declared one and the section's path."""


def read_tree(path: FilePath, cure: str) -> Tree:
    """Read a file of at most 1 MiB whose top level has keys.

    Args:
        path: YAML file.
        cure: what to do about a file without sections.
    """
    start = Place(0, 1, 1, str(path))
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            return Tree(
                problems=[
                    (start, (), f"larger than {MAX_BYTES} bytes: this is not a configuration")
                ]
            )
        text = raw.decode("utf-8-sig")
    except OSError as exc:
        return Tree(problems=[(Place(0, 0, 0, str(path)), (), f"cannot be read: {exc.strerror}")])
    except UnicodeDecodeError as exc:
        return Tree(problems=[(start, (), f"is not UTF-8 text (byte {exc.start})")])
    tree = parse(text, str(path))
    if not tree.problems and not isinstance(tree.data, dict):
        reason = "the file must hold sections (`name: value`)"
        if tree.data is None:
            reason = "the file is empty"
        tree.problems.append((start, (), f"{reason}; {cure}"))
    return tree


def written(problems: Iterable[Problem]) -> list[str]:
    """Return one line for each problem, in the order of the file, at most some hundreds."""
    ordered = sorted(set(problems), key=lambda p: (p[0], str(p[1])))
    lines = [_line(problem) for problem in ordered[:_MOST_WRITTEN]]
    if len(ordered) > _MOST_WRITTEN:
        lines.append(f"and {len(ordered) - _MOST_WRITTEN} problems more")
    return lines


def _line(problem: Problem) -> str:
    place, path, reason = problem
    dotted = ".".join(map(str, path))
    if not dotted:
        return f"{place}: {reason}"
    return f"{place}: {dotted}: {reason}"


def explain(
    exc: ValidationError | None,
    tree: Tree,
    model: type[BaseModel],
    references: Iterable[tuple[Path, str]] = (),
    narrow: Narrow = lambda declared, _: declared,
) -> list[Problem]:
    """Return one problem per place; the branches of a union are joined by "or".

    Args:
        exc: what the model found; None = nothing.
        tree: the file.
        model: of the whole file.
        references: paths and reasons of what leads nowhere.
        narrow: for sections whose model is known only from their content.
    """
    reasons: dict[Path, list[str]] = {}
    unread = {
        path for _, path, _ in tree.problems if functools.reduce(entry, path, tree.data) is None
    }
    errors = exc.errors(include_url=False) if exc else []
    missing = [error for error in errors if error["type"] == "missing"]
    for error in errors:
        path = _known(error["loc"], tree.places)
        if path in unread or _follows(error, errors):
            continue
        reason = _reason(error, path, model, narrow)
        if error["type"] == "missing" and isinstance(error["loc"][-1], int):
            wanted = 1 + max(
                int(e["loc"][-1]) for e in missing if e["loc"][:-1] == error["loc"][:-1]
            )
            reason = f"has {len(error['input'])} of {wanted} values"
        elif error["type"] == "missing":
            path = (*path, error["loc"][-1])
        reasons.setdefault(path, []).append(reason)
    for path, reason in references:
        listed = reasons.setdefault(path, [])
        if reason not in listed:
            listed.append(reason)
    return [
        (tree.places[_known(path, tree.places)], path, " or ".join(dict.fromkeys(texts)))
        for path, texts in reasons.items()
    ]


def _follows(error: ErrorDetails, errors: Iterable[ErrorDetails]) -> bool:
    """Return True for a list that is too short only since its wrong values do not count."""
    loc = error["loc"]
    return error["type"] == "too_short" and any(
        e["loc"][: len(loc)] == loc != e["loc"] for e in errors
    )


def _known(loc: Path, places: Mapping[Path, Place]) -> Path:
    """Return the longest beginning of ``loc`` that was written somewhere."""
    return next(loc[:length] for length in range(len(loc), -1, -1) if loc[:length] in places)


def _reason(error: ErrorDetails, path: Path, model: type[BaseModel], narrow: Narrow) -> str:
    if error["type"] == "missing":
        return "required key is missing"
    if error["type"] == "extra_forbidden":
        known = keys_at(path[:-1], model, narrow)
        listed = f"; known: {', '.join(known)}" if known else ""
        return f"unknown key{similar(path[-1], known) or listed}"
    if error["loc"][-1:] == ("[key]",) and error["type"].startswith("string_"):
        return (
            "a name has lower-case letters, digits, _ and -, begins with a letter and has at "
            "most 64 characters"
        )
    limits = error.get("ctx", {})
    if error["type"] == "too_long" and "max_length" in limits:
        return f"has {limits['actual_length']} values, of which {limits['max_length']} are wanted"
    if error["type"] == "too_short":
        return (
            f"has {limits['actual_length']} values, of which at least {limits['min_length']} "
            "are wanted"
        )
    message = _KINDS.get(error["type"], error["msg"])
    value = error.get("input")
    if error["type"] == "string_type":
        return "should be text" if value is None else "should be text: put quotes around it"
    if error["type"] in _KINDS or not message.startswith(("Input should", "String should")):
        return message.removeprefix("Value error, ")
    message = message.partition(" ")[2].partition(", unable to parse")[0]
    if not isinstance(value, str | int | float):
        return message
    expected = str(limits.get("expected", ""))
    hint = similar(value, re.findall("'([^']*)'", expected))
    return f"{message}, got {str(value)[:40]!r}{hint}"


# --- knowledge of the models ----------------------------------------------------------------------


def keys_at(path: Path, root: type[BaseModel], narrow: Narrow) -> list[str]:
    """Return the keys of the model that describes the section at ``path``.

    Empty where names are free.
    """
    model: Any = root
    for depth, part in enumerate(path):
        if _is_model(model) and part in model.model_fields:
            model = _inner(model.model_fields[part].annotation)
        elif typing.get_origin(model) in (dict, list, tuple):
            arguments = [
                argument for argument in typing.get_args(model) if argument is not Ellipsis
            ]
            model = _inner(arguments[-1])
        else:
            return []
        model = narrow(model, path[: depth + 1])
    if not _is_model(model):
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def entry(data: Any, part: str | int) -> Any:
    """Return an entry of a mapping or sequence, None if there is none."""
    try:
        return data[part]
    except (KeyError, IndexError, TypeError):
        return None


def _inner(annotation: Any) -> Any:
    """Unwrap ``Annotated`` and unions down to a model or a container where there is one."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _inner(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [_inner(member) for member in typing.get_args(annotation)]
        return next((member for member in members if _is_model(member)), members[0])
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
