"""Generator of VRPN conversations for the comparison of the compiled table of trackers with its
twin.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.protocols.vrpn import codec
from vil_bridge.protocols.vrpn.codec import PONG, POSE, VELOCITY, TrackerPose, Velocity, VrpnMessage

__all__ = ["Conversation", "conversations"]

_DEVICES = ("a", "b", "c", "d", "e")
_KINDS = (POSE, VELOCITY, PONG)
_SERVER_NS = 1_700_000_000 * NS_PER_S
_ODD = (0.0, -0.0, float("nan"), float("inf"), 1e300, 1e4, 9999.0, 1e7, 0.9, 1.1, 1e-320)


@dataclass
class Conversation:
    """Pieces of a stream with their arrival.

    An empty piece stands for a look at the clock without one.

    Attributes:
        options: of the source's configuration.
    """

    options: dict[str, Any]
    pieces: list[tuple[bytes, int]] = field(default_factory=list)


def conversations(seed: int, *, length: int = 20) -> Iterator[Conversation]:
    """Yield conversations without end, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        yield _Server(rng).conversation(length)


class _Server:
    """Server whose clock, names and bodies are drawn; some of what it sends is wrong."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._senders = rng.sample(range(9), len(_DEVICES))
        self._kinds = rng.sample(range(9), len(_KINDS))
        self._ahead_ns = _SERVER_NS
        self._t_ns = NS_PER_S
        self._poses: dict[tuple[int, int], TrackerPose] = {}

    def conversation(self, length: int) -> Conversation:
        rng = self._rng
        wanted = rng.sample(_DEVICES, 3) if rng.random() < 0.3 else []
        units, up_axis = rng.choice(("m", "mm")), rng.choice("yz")
        found = Conversation({"subjects": wanted, "units": units, "up_axis": up_axis})
        found.options["repeats_mean_lost"] = rng.random() < 0.8
        stream, begun_ns = codec.COOKIE + self._descriptions(), self._t_ns
        for _ in range(length):
            stream += self._frame()
            if rng.random() < 0.8:  # the rest waits for the next piece
                cut = len(stream) if rng.random() < 0.7 else rng.randrange(len(stream) + 1)
                found.pieces.append((stream[:cut], begun_ns))
                stream = stream[cut:]
            begun_ns = self._advance()
            if rng.random() < 0.1:
                found.pieces.append((b"", self._t_ns))
        return found

    def _advance(self) -> int:
        """Let time pass; sometimes the server's clock jumps."""
        self._t_ns += self._rng.choice((5, 5, 5, 5, 40, 150, 2500)) * NS_PER_MS
        if self._rng.random() < 0.03:
            self._ahead_ns += self._rng.choice((-2, 2, 100, -1)) * NS_PER_S
        return self._t_ns

    def _descriptions(self) -> bytes:
        return b"".join(
            codec.encode_message(VrpnMessage(kind, number, 0, codec.encode_name(name)))
            for kind, numbers, names in (
                (codec.SENDER_DESCRIPTION, self._senders, _DEVICES),
                (codec.TYPE_DESCRIPTION, self._kinds, _KINDS),
            )
            for number, name in zip(numbers, names, strict=True)
        )

    def _frame(self) -> bytes:
        rng = self._rng
        stamp_ns = self._t_ns + self._ahead_ns
        if rng.random() < 0.03:
            stamp_ns = rng.choice(
                (0, stamp_ns - 2 * NS_PER_S, stamp_ns + 50 * NS_PER_S, stamp_ns - 5 * NS_PER_MS)
            )
        out = []
        if rng.random() < 0.05:
            rng.shuffle(self._senders)
            out.append(self._descriptions())
        for device, sensor in ((0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (4, 3)):
            if rng.random() < 0.85:
                out.append(self._message(device, sensor, stamp_ns))
        return b"".join(out)

    def _message(self, device: int, sensor: int, stamp_ns: int) -> bytes:
        rng = self._rng
        kind, payload = 0, codec.encode_pose(self._pose(device, sensor))
        match rng.random():
            case x if x < 0.03:
                kind, payload = (
                    1,
                    codec.encode_velocity(Velocity(0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), 0.1)),
                )
            case x if x < 0.05:
                kind, payload = 2, b""
            case x if x < 0.07:
                payload = payload[: rng.randrange(len(payload))] + rng.randbytes(rng.randrange(9))
        data = codec.encode_message(
            VrpnMessage(self._kinds[kind], self._senders[device], stamp_ns, payload)
        )
        if rng.random() < 0.002:
            at = rng.randrange(0, codec.HEADER_BYTES, 4)
            data = (
                data[:at]
                + struct.pack(">i", rng.choice((-1, 0, 7, 88, 2**31 - 1)))
                + data[at + 4 :]
            )
        return data

    def _pose(self, device: int, sensor: int) -> TrackerPose:
        """Return a new pose, the one before again, zeros, or one with an odd number."""
        rng = self._rng
        place = device, sensor
        if place in self._poses and rng.random() < (0.9 if device == 1 else 0.1):
            return self._poses[place]
        numbers = [*(rng.uniform(-5.0, 5.0) for _ in range(3)), 0.0, 0.6, 0.0, 0.8]
        if rng.random() < 0.05:
            numbers[rng.randrange(7)] = rng.choice(_ODD)
        if rng.random() < 0.03:
            numbers = [0.0] * 6 + [rng.choice((0.0, 1.0))]
        x, y, z, qx, qy, qz, qw = numbers
        self._poses[place] = TrackerPose(sensor, (x, y, z), (qx, qy, qz, qw))
        return self._poses[place]
