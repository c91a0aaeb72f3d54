"""Callbacks of the event loop whose exceptions reach the task that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec

_P = ParamSpec("_P")


def guarded(end: asyncio.Future[None], callback: Callable[_P, None]) -> Callable[_P, None]:
    """Return a callback that sets its exception on ``end``, unless that is done."""

    def call(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            callback(*args, **kwargs)
        except Exception as exc:
            if not end.done():
                end.set_exception(exc)

    return call
