"""Changes values inside of JSON, where changed bytes would almost never be JSON again."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from tests.fuzz.target import join, split

__all__ = ["mutate_json"]

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, "", "a" * 300, [], {}, [[]], [None], {"": 0}),
    *(
        0,
        1,
        -1,
        2,
        255,
        65536,
        2**31,
        -(2**31),
        2**32,
        2**53,
        2**63 - 1,
        -(2**63),
        2**63,
        2**64,
        10**30,
    ),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, 1e16, 3.5, float("nan"), float("inf")),
)


def mutate_json(data: bytes, max_size: int, seed: int) -> bytes | None:
    """The input with one value of one part changed, None where no part is JSON or it became too
    long.
    """
    rng = random.Random(seed)
    parts = split(data)
    at = rng.randrange(len(parts))
    try:
        whole = json.loads(parts[at])
    except (ValueError, RecursionError):
        return None
    places = list(_places(whole))
    if not places:
        return None
    for _ in range(rng.randint(1, 3)):
        holder, key = rng.choice(places)
        _change(rng, holder, key, places)
    try:
        parts[at] = json.dumps(whole).encode()
    except (ValueError, RecursionError):
        return None
    mutated = join(*parts)
    return mutated if len(mutated) <= max_size else None


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every key of every object and every index of every list, breadth first."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    for holder in waiting:
        keys = (
            list(holder)
            if isinstance(holder, dict)
            else range(len(holder))
            if isinstance(holder, list)
            else ()
        )
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def _change(rng: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    """Replace a value by an odd one, a near one or another one, take it away, or repeat it."""
    if (isinstance(holder, list) and key >= len(holder)) or (
        isinstance(holder, dict) and key not in holder
    ):
        return  # an earlier change took it away
    kind = rng.randrange(5)
    value = holder[key]
    if kind == 0 and isinstance(value, int | float):
        holder[key] = value + rng.choice((-1, 1, 0.5, value))
    elif kind == 1:
        del holder[key]
    elif kind == 2 and isinstance(holder, list):
        holder.extend([json.loads(json.dumps(value))] * rng.randint(1, 8))
    elif kind == 3:
        other, at = rng.choice(places)
        if (isinstance(other, list) and at < len(other)) or (
            isinstance(other, dict) and at in other
        ):
            holder[key] = json.loads(json.dumps(other[at]))
    else:
        holder[key] = rng.choice(_ODD)
