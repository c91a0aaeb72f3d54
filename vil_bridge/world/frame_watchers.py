"""Functions to call when the world has a new frame of poses."""

from __future__ import annotations

from collections.abc import Callable


class FrameWatchers:
    """Functions that each take the capture of a frame, bridge time; for the event loop's thread.

    They are short and raise nothing: sources wait for them.
    """

    def __init__(self) -> None:
        self._functions: tuple[Callable[[int], None], ...] = ()

    def add(self, announce: Callable[[int], None]) -> Callable[[], None]:
        """Call a function from now on; return the function that ends this."""
        self._functions = (*self._functions, announce)

        def end() -> None:
            self._functions = tuple(one for one in self._functions if one is not announce)

        return end

    def announce(self, t_ns: int) -> None:
        """Call all of them."""
        for function in self._functions:
            function(t_ns)
