"""Time that a reader's link is busy with a picture, learnt from the receive times that come with its credits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S

_JUDGED: Final = 5
_SECOND: Final = 1
"""The second quickest of those judged counts: a reader that stood still sees one picture come too quickly."""
_NOTICED_NS: Final = 5 * NS_PER_MS
_RESERVE: Final = 0.2
_FORGOTTEN_NS: Final = NS_PER_S
_FORGOTTEN_PICTURES: Final = 4


class LinkEstimate:
    """Model of a link that carries one picture after the other, each as long as those before it; bridge time."""

    def __init__(self) -> None:
        self._newest: deque[int] = deque(maxlen=_JUDGED)
        self._busy_ns = 0
        self._t_received_ns = 0

    def delivered(self, t_sent_ns: int, t_received_ns: int) -> None:
        """Account a picture, sent and received by the reader's clock."""
        if self._is_forgotten(t_received_ns):
            self._newest.clear()
        self._newest.append(max(0, t_received_ns - max(t_sent_ns, self._t_received_ns)))
        self._busy_ns = sorted(self._newest)[min(_SECOND, (len(self._newest) - 1) // 2)]
        self._t_received_ns = max(t_received_ns, self._t_received_ns)

    def busy_ns(self, t_ns: int) -> int:
        """Return how long a picture occupies the link, as known at ``t_ns``.

        0 where that is too short to matter, and where nothing has come for so long that the link has to be tried.
        """
        return 0 if self._busy_ns < _NOTICED_NS or self._is_forgotten(t_ns) else self._busy_ns

    def clear_ns(self, sent_ns: Iterable[int]) -> int:
        """Return when the last of the pictures under way is expected at the reader, from when they were sent."""
        t_ns = self._t_received_ns
        for t_sent_ns in sent_ns:
            t_ns = max(t_ns, t_sent_ns) + self._busy_ns
        return t_ns

    def next_ns(self, t_ns: int, sent_ns: Iterable[int]) -> int:
        """Return when another picture may follow those under way: shortly before the link is free, so that none waits.

        The last fifth of a picture is the reserve that hides the link's own delay.
        """
        busy_ns = self.busy_ns(t_ns)
        return self.clear_ns(sent_ns) - round(_RESERVE * busy_ns) if busy_ns else t_ns

    def _is_forgotten(self, t_ns: int) -> bool:
        return t_ns - self._t_received_ns > max(_FORGOTTEN_NS, _FORGOTTEN_PICTURES * self._busy_ns)
