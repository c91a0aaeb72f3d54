"""Threads of splatting: kernels run without the GIL, so threads of Python use all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def on_all_cores(work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the results of a function that releases the GIL, in the order of its arguments."""
    waiting = list(arguments)
    count = cores()
    if count == 1 or len(waiting) < 2:
        return [work(*each) for each in waiting]
    return list(_pool(count).map(lambda each: work(*each), waiting))


def dealt(weights: npt.NDArray[np.integer]) -> list[npt.NDArray[np.int32]]:
    """Deal the numbers of weights to a few hands per core, the heaviest first, none without
    weight.
    """
    heaviest = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)].astype(np.int32)
    hands = 1 if cores() == 1 else 4 * cores()
    shares = [np.ascontiguousarray(heaviest[i::hands]) for i in range(hands)]
    return [share for share in shares if len(share)]


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "splats")
