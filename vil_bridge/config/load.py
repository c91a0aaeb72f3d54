"""Reads a configuration: one file, then environment variables, then ``--set`` options.

Every problem is reported at once, as ``file:line:col: path: reason (did you mean 'x'?)``.
"""

from __future__ import annotations

import functools
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vil_bridge.config.base import PluginConfig
from vil_bridge.config.references import reference_problems, similar
from vil_bridge.config.root import BridgeConfig, Resolver, plugin_model
from vil_bridge.config.yaml_tree import MAX_BYTES, Path, Place, Tree, parse
from vil_bridge.core.errors import ConfigError

__all__ = ["ENV_PREFIX", "load"]

ENV_PREFIX: Final = "VIL_"
_Problem = tuple[Place, Path, str]


def load(
    path: FilePath,
    *,
    sets: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    resolve: Resolver,
) -> BridgeConfig:
    """Read and validate a configuration file; the file is never written.

    Args:
        path: YAML file, at most 1 MiB.
        sets: overrides ``a.b=value``; the value is YAML.
        env: environment; variables ``VIL_SECTION__KEY`` override the file. None = the process's own.
        resolve: gives the configuration models of the known plug-ins of a section.

    Raises:
        ConfigError: with one line for every problem.
    """
    tree = _read(path)
    problems = list(tree.problems)
    if isinstance(tree.data, dict):
        for key, text in sorted((os.environ if env is None else env).items()):
            if key.startswith(ENV_PREFIX) and "__" in key:
                parts = key.removeprefix(ENV_PREFIX).split("__")
                problems += _override(tree, key, _env_path(tree.data, parts, resolve), text)
        for item in sets:
            target, equals, text = item.partition("=")
            if equals and all(target.split(".")):
                problems += _override(tree, f"--set {target}", tuple(target.split(".")), text)
            else:
                problems.append((Place(1, 0, 0, f"--set {item}"), (), "must be written a.b=value"))
    config = None
    if not problems or isinstance(tree.data, dict):
        try:
            config = BridgeConfig.model_validate(tree.data, context={"resolve": resolve})
        except ValidationError as exc:
            problems += _explain(exc, tree, resolve)
    if config is None or problems:
        raise ConfigError([_line(problem) for problem in sorted(set(problems), key=lambda p: (p[0], str(p[1])))])
    return config


def _read(path: FilePath) -> Tree:
    start = Place(0, 1, 1, str(path))
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            return Tree(problems=[(start, (), f"larger than {MAX_BYTES} bytes; this is no configuration")])
        text = raw.decode("utf-8-sig")
    except OSError as exc:
        return Tree(problems=[(Place(0, 0, 0, str(path)), (), f"cannot be read: {exc.strerror}")])
    except UnicodeDecodeError as exc:
        return Tree(problems=[(start, (), f"is not UTF-8 text (byte {exc.start})")])
    tree = parse(text, str(path))
    if not tree.problems and not isinstance(tree.data, dict):
        reason = "the file is empty" if tree.data is None else "the file must hold sections (`name: value`)"
        tree.problems.append((start, (), f"{reason}; `vil-bridge init` prints presets to start from"))
    return tree


def _line(problem: _Problem) -> str:
    place, path, reason = problem
    dotted = ".".join(map(str, path))
    return f"{place}: {dotted}: {reason}" if dotted else f"{place}: {reason}"


# --- overrides -----------------------------------------------------------------------------------


def _override(tree: Tree, origin: str, path: Path, text: str) -> list[_Problem]:
    """Put the YAML value ``text`` at ``path`` of the tree's data, creating sections on the way."""
    value = parse(text, origin, lines=False)
    place = Place(1, 0, 0, origin)
    if value.problems:
        return [(place, path, reason) for _, _, reason in value.problems]
    parent: Any = tree.data
    for depth, part in enumerate(path[:-1]):
        if parent.get(part) is None:
            parent[part] = {}
            tree.places[path[: depth + 1]] = place
        parent = parent[part]
        if not isinstance(parent, dict):
            return [(place, path, f"{'.'.join(map(str, path[: depth + 1]))} has no keys")]
    parent[path[-1]] = value.data
    for old in [p for p in tree.places if p[: len(path)] == path]:
        del tree.places[old]
    tree.places.update({path + inner: place for inner in value.places})
    return []


def _env_path(whole: Any, parts: Iterable[str], resolve: Resolver) -> Path:
    """The path that upper-case variable parts mean: existing keys first, then the model's fields."""
    path: Path = ()
    data = whole
    for part in parts:
        here = data if isinstance(data, dict) else {}
        names = {_folded(name): name for name in (*_fields(path, whole, resolve), *here)}
        name = names.get(_folded(part), part.lower())
        path = (*path, name)
        data = here.get(name)
    return path


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


# --- explanations --------------------------------------------------------------------------------


def _explain(exc: ValidationError, tree: Tree, resolve: Resolver) -> list[_Problem]:
    """One problem per place; the branches of a union are joined by "or"."""
    reasons: dict[Path, list[str]] = {}
    unread = {path for _, path, _ in tree.problems if functools.reduce(_item, path, tree.data) is None}
    for error in exc.errors(include_url=False):
        path = _known(error["loc"], tree.places)
        if path in unread:
            continue
        reason = _reason(error, path, tree, resolve)
        if error["type"] == "missing":
            path = (*path, error["loc"][-1])
        reasons.setdefault(path, []).append(reason)
    for problem in reference_problems(tree.data if isinstance(tree.data, dict) else {}):
        listed = reasons.setdefault(problem.path, [])
        if problem.reason not in listed:
            listed.append(problem.reason)
    return [
        (tree.places[_known(path, tree.places)], path, " or ".join(dict.fromkeys(texts)))
        for path, texts in reasons.items()
    ]


def _known(loc: Path, places: Mapping[Path, Place]) -> Path:
    """The longest beginning of ``loc`` that was written somewhere."""
    return next(loc[:length] for length in range(len(loc), -1, -1) if loc[:length] in places)


def _reason(error: ErrorDetails, path: Path, tree: Tree, resolve: Resolver) -> str:
    if error["type"] == "missing":
        return "required key is missing"
    if error["type"] == "extra_forbidden":
        return f"unknown key{similar(path[-1], _fields(path[:-1], tree.data, resolve))}"
    if error["loc"][-1] == "[key]":
        return "a name has lower-case letters, digits, _ and -, begins with a letter and has at most 64 characters"
    message, value = error["msg"], error.get("input")
    if not message.startswith(("Input should", "String should")):
        return message.removeprefix("Value error, ")
    message = message.partition(" ")[2].partition(", unable to parse")[0]
    if not isinstance(value, str | int | float):
        return message
    expected = str(error.get("ctx", {}).get("expected", ""))
    hint = similar(value, re.findall("'([^']*)'", expected))
    return f"{message}, got {str(value)[:40]!r}{hint}"


# --- what the models know ------------------------------------------------------------------------


def _fields(path: Path, data: Any, resolve: Resolver) -> list[str]:
    """Keys of the model that describes the section at ``path``; empty where names are free."""
    model: Any = BridgeConfig
    for depth, part in enumerate(path):
        if _is_model(model) and part in model.model_fields:
            model = _inner(model.model_fields[part].annotation)
        elif typing.get_origin(model) in (dict, list, tuple):
            arguments = [argument for argument in typing.get_args(model) if argument is not Ellipsis]
            model = _inner(arguments[-1])
        else:
            return []
        data = _item(data, part)
        if model is PluginConfig:
            model = plugin_model(str(path[depth - 1]), _item(data, "type"), resolve) or PluginConfig
    return list(model.model_fields) if _is_model(model) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _item(data: Any, part: str | int) -> Any:
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
