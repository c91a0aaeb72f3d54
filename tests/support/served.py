"""A renderer's server in a thread of the test."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def served(
    serve: Callable[..., None], draw: object, config: object, *more: object
) -> Iterator[Counter[str]]:
    """Run ``serve(draw, config, stop, counters, ...)`` of either protocol; its counters."""
    stop, counters = threading.Event(), Counter[str]()
    thread = threading.Thread(target=serve, args=(draw, config, stop, counters, *more))
    thread.start()
    try:
        yield counters
    finally:
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()
