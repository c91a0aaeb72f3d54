"""Commands on the control channel: who may give them, and what they answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.outputs.stream.messages import Command
from vil_bridge.protocols.zmq.peer_socket import Peer

_MOST_PILOTS: Final = 64

CommandHandler = Callable[[dict[str, Any]], Any]
RefusesCommand = Callable[[str, str], str | None]


class CommandRunner:
    """The commands by name.

    Args:
        handlers: each takes the arguments and returns JSON types, or raises a ``VilBridgeError`` or
            ``ValueError`` whose text the sender gets.
        refuses: called with (name, access token); returns why the sender may not, None = it may.

    Attributes:
        pilots: connections that commanded lately.
    """

    def __init__(self, handlers: Mapping[str, CommandHandler], refuses: RefusesCommand) -> None:
        self.pilots: OrderedDict[bytes, None] = OrderedDict()
        self._handlers = dict(handlers)
        self._refuses = refuses

    def refusal(self, peer: Peer, command: Command) -> str | None:
        """Return the reason why a sender may not give this command.

        None = it may, and becomes a pilot.
        """
        problem = self._refuses(command.name, command.access)
        if problem is None:
            self.pilots[peer.identity] = None
            self.pilots.move_to_end(peer.identity)
            if len(self.pilots) > _MOST_PILOTS:
                self.pilots.popitem(last=False)
        return problem

    def run(self, command: Command) -> dict[str, Any]:
        """Run it; returns the fields of the reply."""
        handler = self._handlers.get(command.name)
        if handler is None:
            return {
                "ok": False,
                "error": f"unknown command {command.name!r}; known: {sorted(self._handlers)}",
            }
        try:
            return {"ok": True, "value": handler(command.args)}
        except (VilBridgeError, ValueError) as exc:
            return {"ok": False, "error": str(exc)}
