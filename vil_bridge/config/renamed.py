"""Keys, source types and values of the configuration that were renamed.

The old ones are accepted for one version.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from vil_bridge.config.yaml_positions import Path, Place, Tree

_ANY: Final = "*"


class Renamed(NamedTuple):
    """An old name and the one that replaces it.

    Attributes:
        path: of the section that has the key, or of the key that has the value; ``*`` = any name.
    """

    path: tuple[str, ...]
    old: str
    new: str


KEYS: Final = (
    Renamed((), "publish", "federation"),
    Renamed(("debug",), "capture", "packet_capture"),
    Renamed(("sources", _ANY), "inject", "faults"),
    Renamed(("sources", _ANY), "template", "marker_template"),
    Renamed(("cameras", _ANY), "compensate", "latency_compensation"),
    Renamed(("cameras", _ANY), "extra_delay_ms", "artificial_delay_ms"),
    Renamed(("cameras", _ANY), "extra_jitter_ms", "artificial_jitter_ms"),
)
VALUES: Final = (
    Renamed(("sources", _ANY, "type"), "recording", "motion-file"),
    Renamed(("sources", _ANY, "type"), "mcap", "replay"),
    Renamed(("sources", _ANY, "type"), "remote", "federation"),
    Renamed(("cameras", _ANY, "latency_compensation"), "reproject", "depth"),
)
"""Paths here have the new keys."""


def rename(tree: Tree) -> list[tuple[Place, Path, str]]:
    """Replace old names in a file by the current ones.

    An old key next to its new one becomes a problem of the tree.

    Returns:
        A warning for each old name: its place, its path as written, and the text that gives the new
            name.
    """
    warnings = []
    for row in KEYS:
        for path, section in _sections(tree.data, row.path):
            if row.old not in section:
                continue
            place = _place(tree, (*path, row.old))
            old_path = (*path, row.old)
            if row.new in section:
                tree.problems.append(
                    (
                        place,
                        old_path,
                        f"is the old name of {row.new!r}, which is given too: remove it",
                    )
                )
                del section[row.old]
            else:
                _move(tree, path, section, row)
                warnings.append((place, old_path, _text(f"the key {row.old!r}", row.new)))
    for row in VALUES:
        for path, section in _sections(tree.data, row.path[:-1]):
            key = row.path[-1]
            if section.get(key) == row.old:
                section[key] = row.new
                warnings.append(
                    (
                        _place(tree, (*path, key)),
                        (*path, key),
                        _text(f"the value {row.old!r}", row.new),
                    )
                )
    return warnings


def current_path(path: Path) -> tuple[Path, str]:
    """Return the path of a key by the current names, and the warning if it has an old one.

    "" = it has none.
    """
    for row in KEYS:
        depth = len(row.path)
        if len(path) > depth and path[depth] == row.old and _matches(path[:depth], row.path):
            return (*path[:depth], row.new, *path[depth + 1 :]), _text(
                f"the key {row.old!r}", row.new
            )
    return path, ""


def with_current_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of plain data by the current names.

    Where an old and a new key are given, the new one counts.
    """
    tree = Tree(copy.deepcopy(dict(data)))
    rename(tree)
    renamed: dict[str, Any] = tree.data
    return renamed


def _text(what: str, new: str) -> str:
    return f"{what} is now {new!r}; the old name works in this version only"


def _matches(path: Path, pattern: tuple[str, ...]) -> bool:
    return all(want in (_ANY, part) for part, want in zip(path, pattern, strict=True))


def _sections(
    data: Any, pattern: tuple[str, ...], path: Path = ()
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the sections that match a pattern, with their paths."""
    if not isinstance(data, dict):
        return
    if not pattern:
        yield path, data
        return
    for name in list(data) if pattern[0] == _ANY else [pattern[0]]:
        yield from _sections(data.get(name), pattern[1:], (*path, name))


def _place(tree: Tree, path: Path) -> Place:
    return tree.places.get(path, Place(0, 0, 0, ""))


def _move(tree: Tree, path: Path, section: dict[str, Any], row: Renamed) -> None:
    """Rename a key where it stands, so that the order of keys stays."""
    items = [(row.new if key == row.old else key, value) for key, value in section.items()]
    section.clear()
    section.update(items)
    old = (*path, row.old)
    depth = len(path)
    for place in [place for place in tree.places if place[: depth + 1] == old]:
        tree.places[(*path, row.new, *place[depth + 1 :])] = tree.places.pop(place)
