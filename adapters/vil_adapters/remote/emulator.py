"""A stand-in for a bridge in another room: publishes a motion's subjects as its actors."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, EmulatedServer, Emulator
from vil_adapters.remote.config import RemoteEmulatorConfig
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.faults import Faults
from vil_bridge.core.ports import MocapMotion
from vil_bridge.core.skeleton import place_of
from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    ActorPose,
    Description,
    FrameMessage,
    Responder,
    encode_frame,
    records_of,
)
from vil_bridge.protocols.federation.zmq_link import ZmqPublisherLink

__all__ = ["RemoteEmulator"]

_NO_FAULTS: Final = Faults()


class RemoteEmulator(Emulator):
    """Publishes ``motion`` over ZeroMQ as a bridge does: bodies as vehicles, skeletons as humans.

    Attributes:
        endpoint: where it is found, once started.
    """

    def __init__(
        self, config: RemoteEmulatorConfig, motion: MocapMotion, epoch_ns: int, faults: Faults = _NO_FAULTS
    ) -> None:
        self.endpoint = config.bind
        self._config = config
        self.stage = EmulatedServer(
            motion, config.rate_hz, epoch_ns, faults, on_shot=self._publish, on_power=self._power, stream=True
        )
        actors = [ActorInfo(name, ActorKind.VEHICLE) for name in motion.subjects]
        actors += [ActorInfo(model.name, ActorKind.HUMAN, skeleton=model) for model in motion.skeleton_models]
        self._description = Description(config.site, 1, tuple(actors))
        self._responder = self._new_responder()
        self._link: ZmqPublisherLink | None = None
        self._former: Counter[str] = Counter()

    @property
    def counters(self) -> Counter[str]:
        """What happened so far, on the connections too."""
        return self.stage.counters + self._former + (Counter() if self._link is None else self._link.counters)

    async def open(self) -> None:
        """Bind and serve.

        Raises:
            SinkError: the address cannot be had.
        """
        self._open()

    def close(self) -> None:
        """Release the address; the next ``open`` takes it again."""
        if self._link is not None:
            self._link.close()
            self._former += self._link.counters
            self._link = None

    def _open(self) -> None:
        self._responder = self._new_responder()
        self._link = ZmqPublisherLink(self.endpoint, self._answer)
        self._link.open()
        self.endpoint = self._link.endpoint

    def _power(self, on: bool) -> None:
        if on:
            self._open()
        else:
            self.close()

    def _new_responder(self) -> Responder:
        return Responder(1 + secrets.randbits(63), self._description, lambda: self._foreign_ns(now_ns()))

    def _foreign_ns(self, t_ns: int) -> int:
        config = self._config
        return self.stage.foreign_ns(t_ns, offset_s=config.clock_offset_s, drift_ppm=config.clock_drift_ppm)

    def _answer(self, request: bytes) -> bytes | None:
        return None if self.stage.silent else self._responder.answer(request)

    def _publish(self, shot: EmulatedFrame) -> None:
        latency_ns = round(self._config.latency_ms * NS_PER_MS)
        state = (TrackingState.LOST, TrackingState.TRACKED)
        seen = shot.seen
        poses = [
            ActorPose(i, state[tracked], p_m, q_xyzw)
            for i, (p_m, q_xyzw, tracked) in enumerate(zip(seen.p_m, seen.q_xyzw, seen.tracked.tolist(), strict=True))
        ]
        for i, skeleton in enumerate(seen.skeletons, len(poses)):
            tracked = bool(skeleton.tracked.any())
            place = place_of(skeleton)
            poses.append(ActorPose(i, state[tracked], place.p_m, place.q_xyzw, skeleton))
        frame = FrameMessage(
            self._responder.run,
            shot.number,
            self._description.revision,
            self._foreign_ns(shot.t_ns),
            self._foreign_ns(now_ns() + latency_ns),
            *records_of(poses),
        )
        self.stage.send(self._send, encode_frame(frame), latency_ns=latency_ns)

    def _send(self, message: bytes) -> None:
        if self._link is not None:
            self._link.housekeep()
            self._link.publish(message)
