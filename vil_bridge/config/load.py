"""Loader of a configuration: one file, then environment variables, then ``--set`` options.

Every problem is reported at once, as ``file:line:col: path: reason (did you mean 'x'?)``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.config.base import PluginConfig
from vil_bridge.config.error_report import (
    Narrow,
    Problem,
    entry,
    explain,
    keys_at,
    read_tree,
    written,
)
from vil_bridge.config.root import BridgeConfig, Resolver, plugin_model
from vil_bridge.config.sections import every_problem
from vil_bridge.config.yaml_positions import Path, Place, Tree, parse
from vil_bridge.core.errors import ConfigError

ENV_PREFIX: Final = "VIL_"


def load(
    path: FilePath,
    *,
    sets: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    resolve: Resolver,
    find_inputs: bool = False,
) -> BridgeConfig:
    """Read and validate a configuration file; the file is never written.

    Args:
        path: YAML file, at most 1 MiB.
        sets: overrides ``a.b=value``; the value is YAML.
        env: environment; variables ``VIL_SECTION__KEY`` override the file. None = the process's
            own.
        resolve: gives the configuration models of the known plug-ins of a section.
        find_inputs: recordings and motion files that the configuration names have to be there.

    Raises:
        ConfigError: with one line for every problem.
    """
    tree = read_tree(path, "`vil-bridge init` prints presets to start from")
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
    context = {"folder": path.absolute().parent, "find_inputs": find_inputs}
    return _validated(tree, problems, resolve, context)


def load_text(text: str, origin: str, *, resolve: Resolver) -> BridgeConfig:
    """Validate a configuration that a recording holds.

    Nothing overrides it.

    Args:
        text: the configuration (YAML).
        origin: its place, for messages.
        resolve: as for :func:`load`.

    Raises:
        ConfigError: with one line for every problem.
    """
    tree = parse(text, origin)
    return _validated(tree, list(tree.problems), resolve)


def _validated(
    tree: Tree, problems: list[Problem], resolve: Resolver, context: Mapping[str, Any] | None = None
) -> BridgeConfig:
    config = None
    if not problems or isinstance(tree.data, dict):
        try:
            config = BridgeConfig.model_validate(
                tree.data, context={"resolve": resolve, **(context or {})}
            )
        except ValidationError as exc:
            references = every_problem(tree.data if isinstance(tree.data, dict) else {})
            problems += explain(exc, tree, BridgeConfig, references, _narrow(tree.data, resolve))
    if config is None or problems:
        raise ConfigError(written(problems))
    return config


# --- overrides -----------------------------------------------------------------------------------


def _override(tree: Tree, origin: str, path: Path, text: str) -> list[Problem]:
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
    """Return the path that upper-case variable parts mean.

    Existing keys first, then the model's fields.
    """
    path: Path = ()
    data = whole
    for part in parts:
        here = data if isinstance(data, dict) else {}
        names = {_folded(name): name for name in (*_keys(path, whole, resolve), *here)}
        name = names.get(_folded(part), part.lower())
        path = (*path, name)
        data = here.get(name)
    return path


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def _keys(path: Path, whole: Any, resolve: Resolver) -> list[str]:
    """Return the keys of the section at ``path``, those of its plug-in included.

    Empty where names are free.
    """
    return keys_at(path, BridgeConfig, _narrow(whole, resolve))


def _narrow(whole: Any, resolve: Resolver) -> Narrow:
    """Return a function that finds the model of a plug-in's section, from the ``type`` in the
    data.
    """

    def narrow(declared: Any, path: Path) -> Any:
        if declared is not PluginConfig:
            return declared
        given = entry(functools.reduce(entry, path, whole), "type")
        return plugin_model(str(path[-2]), given, resolve) or PluginConfig

    return narrow
