"""Cookies by which a UDP reader proves that it receives at its address.

The bridge stores none of them.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.outputs.stream.fec import COOKIE_BYTES

_PERIOD_NS: Final = 10 * NS_PER_S


class Cookies:
    """HMAC-SHA-256 (its first 16 bytes) of stream, address and a period of 10 s, under a secret of
    this process.

    Args:
        clock: nanoseconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], int] = machine_ns) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)

    def make(self, stream: bytes, address: Any) -> bytes:
        """Return the cookie of a stream's reader at an address, as ``recvfrom`` gives it."""
        return self._of(self._clock() // _PERIOD_NS, stream, address)

    def prove(self, cookie: bytes, stream: bytes, address: Any) -> bool:
        """Return True for a cookie of this period or the one before."""
        period = self._clock() // _PERIOD_NS
        return any(
            hmac.compare_digest(cookie, self._of(p, stream, address)) for p in (period, period - 1)
        )

    def _of(self, period: int, stream: bytes, address: Any) -> bytes:
        return hmac.digest(self._secret, repr((period, stream, address)).encode(), "sha256")[
            :COOKIE_BYTES
        ]
