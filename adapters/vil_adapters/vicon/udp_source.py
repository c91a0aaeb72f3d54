"""Source of Tracker's UDP object stream: names, poses and a frame number, nothing else."""

from __future__ import annotations

from vil_adapters.sessions.frame_order import FrameFilter, FrameVerdict
from vil_adapters.sessions.udp_listener import UdpListener
from vil_adapters.vicon.compiled_objects import CompiledObjectTracker, read_objects
from vil_adapters.vicon.config import TrackerUdpConfig
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.datagrams import Tap
from vil_bridge.runtime.supervisor import Status


class TrackerUdpSource:
    """Rigid objects from Tracker's UDP object stream.

    Implements ``PoseSource`` and ``DatagramSource``.
    """

    def __init__(self, name: str, config: TrackerUdpConfig) -> None:
        self.name = name
        self.tap: Tap | None = None
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name is unknown, or the port is taken.
        """
        config = self._config
        objects = CompiledObjectTracker(self.name, config.rate_hz)
        order = FrameFilter(self.name, emit, status)

        def decode(datagram: bytes, t_arrival_ns: int) -> SourceFrame | None:
            block = read_objects(datagram)
            verdict = order.judge(block.frame_number, t_arrival_ns)
            if verdict is None:
                return None
            if verdict is FrameVerdict.RESTARTED:
                objects.restart()
            frame = objects.next_frame(block, t_arrival_ns)
            status.counters["invalid"] = objects.invalid
            status.counters["refused"] = objects.refused
            return frame

        listener = UdpListener(self.name, config.subjects, emit, status, decode, self.tap)
        await listener.run(
            config.server,
            config.port,
            "in Tracker's UDP object stream, is it enabled, and sent to this computer "
            "(or broadcast) and this port? "
            "Does the firewall here let UDP in?",
        )
