"""Differences between two configurations in JSON types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

Key = tuple[str, ...]
"""Path of a key, such as ``("cameras", "front", "predict")``."""

_DEPTH: Final = 3
_WHOLE: Final = ("outputs",)
"""Sections whose entries change as one."""
_MISSING: Final = object()


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any], path: Key = ()) -> list[Key]:
    """Return the keys, at most three deep, whose values differ.

    An entry that is new or gone counts as one.
    """
    changes: list[Key] = []
    for name in dict.fromkeys((*before, *after)):
        old = before.get(name, _MISSING)
        new = after.get(name, _MISSING)
        here = (*path, name)
        if old == new:
            continue
        deeper = isinstance(old, Mapping) and isinstance(new, Mapping)
        whole = len(here) == _DEPTH or (len(here) == _DEPTH - 1 and here[0] in _WHOLE)
        changes += changed_keys(old, new, here) if deeper and not whole else [here]
    return changes


def merged(
    before: Mapping[str, Any], after: Mapping[str, Any], keys: Iterable[Key]
) -> dict[str, Any]:
    """Return ``before`` with those keys as in ``after``."""
    data = deepcopy(dict(before))
    for key in keys:
        there = after
        here = data
        for name in key[:-1]:
            there = there[name]
            here = here[name]
        if key[-1] in there:
            here[key[-1]] = deepcopy(there[key[-1]])
        else:
            here.pop(key[-1], None)
    return data
