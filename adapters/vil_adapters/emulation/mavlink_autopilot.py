"""Behaviour of an emulated autopilot.

It answers clock requests and obeys commands addressed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink

SYSTEM: Final = 1
COMPONENT: Final = 1  # autopilot
_EVERY_COMPONENT: Final = 0
_LONGEST_US: Final = 60e6
_HEARTBEAT: Final = mavlink.Heartbeat(0, 2, 12, 0, mavlink.STATE_ACTIVE)  # a quadrotor with PX4


class EmulatedAutopilot:
    """Messages of one emulated autopilot, numbered and paced, with the replies of PX4.

    Args:
        clock_ns: its own clock, now.
        intervals_ns: between messages of each kind that it sends, 0 = each that there is.

    Attributes:
        answered: clock requests answered.
    """

    def __init__(
        self, clock_ns: Callable[[], int], intervals_ns: Mapping[type[mavlink.Body], int]
    ) -> None:
        self.answered = 0
        self._clock_ns = clock_ns
        self._kinds = {float(mavlink.message_id(kind)): kind for kind in intervals_ns}
        self._intervals_ns = dict(intervals_ns)
        self._t_offered_ns = dict.fromkeys(intervals_ns, 0)
        self._t_sent_ns = dict.fromkeys(intervals_ns, 0)
        self._sequence = 0

    def frame(self, body: mavlink.Body) -> bytes:
        """Return one message as the autopilot's next frame."""
        self._sequence += 1
        return framing.encode(body, self._sequence - 1, system=SYSTEM, component=COMPONENT)

    def heartbeat(self) -> bytes:
        """Return a sign of life, to be sent each second."""
        return self.frame(_HEARTBEAT)

    def due(self, kind: type[mavlink.Body], t_ns: int) -> bool:
        """Return whether this message, rather than the next, is closest to one interval after
        the last.
        """
        gap_ns = t_ns - self._t_offered_ns[kind]
        self._t_offered_ns[kind] = t_ns
        if t_ns - self._t_sent_ns[kind] < self._intervals_ns[kind] - gap_ns // 2:
            return False
        self._t_sent_ns[kind] = t_ns
        return True

    def replies(self, messages: list[framing.MavlinkMessage]) -> list[bytes]:
        """Return the frames that answer received messages."""
        frames = []
        for message in messages:
            if isinstance(message.body, mavlink.TimeSync) and message.body.tc1_ns == 0:
                frames.append(self.frame(mavlink.TimeSync(self._clock_ns(), message.body.ts1_ns)))
                self.answered += 1
            elif isinstance(message.body, mavlink.CommandLong):
                frames += self._obey(message.body, (message.system, message.component))
        return frames

    def _obey(self, command: mavlink.CommandLong, sender: tuple[int, int]) -> list[bytes]:
        """Return the answer of PX4.

        None to other addressees, a failure for messages that it does not send.
        """
        if command.target_system != SYSTEM or command.target_component not in (
            COMPONENT,
            _EVERY_COMPONENT,
        ):
            return []
        if command.command != mavlink.CMD_SET_MESSAGE_INTERVAL:
            return []
        kind = self._kinds.get(command.param1)
        known = kind is not None and 0 < command.param2 < _LONGEST_US
        if kind is not None and known:
            self._intervals_ns[kind] = round(command.param2 * 1e3)
        result = mavlink.RESULT_ACCEPTED if known else mavlink.RESULT_FAILED
        return [self.frame(mavlink.CommandAck(command.command, result, 0, 0, *sender))]
