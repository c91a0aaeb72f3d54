"""CURVE for the control channel and the data sockets.

Known keys only, and no third party can read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import zmq

from vil_bridge.protocols.zmq.curve import CurveGuard, KeyPair

Context = zmq.Context[zmq.Socket[bytes]]


class CurveAuthenticator:
    """The stream's keys, with a ZeroMQ context of its own: one may have one guard only (RFC 27).

    Until :meth:`open` and after :meth:`close` all connections are refused.

    Attributes:
        context: of all sockets that :meth:`protect` prepares.
        counters: ``refused_key``.
    """

    def __init__(self, keys: KeyPair, allowed: Mapping[bytes, str]) -> None:
        self.context: Context = zmq.Context()
        self.counters: Counter[str] = Counter()
        self._keys = keys
        self._allowed = allowed
        self._guard: CurveGuard | None = None

    def protect(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket that is not bound yet ask for keys."""
        socket.curve_server = True
        socket.curve_publickey = self._keys.public
        socket.curve_secretkey = self._keys.secret
        socket.zap_domain = b"stream"
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def open(self) -> None:
        """Let in who holds an allowed key; needs the running loop."""
        self._guard = CurveGuard(self.context, self._allowed, self.counters)

    def close(self) -> None:
        """Refuse all connections from now on; in the loop's thread, may be called twice."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def end(self) -> None:
        """Release the context.

        Waits until the last of its sockets is closed, so not in the loop's thread.
        """
        self.context.term()


def context_of(guard: CurveAuthenticator | None) -> Context:
    """Return the context of the stream's sockets."""
    return zmq.Context.instance() if guard is None else guard.context
