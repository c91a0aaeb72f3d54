"""The source: receives datagrams and emits frames."""

from __future__ import annotations

from vil_adapters.sessions.frame_order import FrameFilter
from vil_adapters.sessions.udp_listener import UdpListener
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status
from vil_example.codec import decode
from vil_example.config import ExampleConfig
from vil_example.convert import to_frame

__all__ = ["ExampleSource"]

# TODO: the settings of the system that a user must check when nothing arrives.
_HINT = (
    "is streaming on, is it sent to this computer and this port, and does the firewall here "
    "let UDP in?"
)


class ExampleSource:
    """Rigid bodies over UDP (implements ``PoseSource``)."""

    def __init__(self, name: str, config: ExampleConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name is unknown, or the port is taken.
        """
        order = FrameFilter(self.name, emit, status)

        def on_datagram(datagram: bytes, t_arrival_ns: int) -> SourceFrame | None:
            # TODO: other messages of the system, such as names of bodies, are handled here and
            # return None.
            frame = to_frame(self.name, decode(datagram), t_arrival_ns)
            return (
                None
                if order.judge(frame.frame_number, t_arrival_ns, frame.t_foreign_ns) is None
                else frame
            )

        # TODO: a system that must be asked for frames needs a loop of its own; vil_adapters.vrpn is
        # a short one.
        listener = UdpListener(self.name, self._config.subjects, emit, status, on_datagram)
        await listener.run(self._config.server, self._config.port, _HINT)
