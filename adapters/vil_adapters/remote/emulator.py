"""Emulated bridge of another room: publishes a motion's subjects as its actors."""

from __future__ import annotations

import secrets
from collections import Counter

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.remote.config import RemoteEmulatorConfig
from vil_bridge.bodies.skeleton import place_of
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
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


class RemoteEmulator(Emulator):
    """Publisher of ``motion`` over ZeroMQ as a bridge does.

    Bodies as vehicles, skeletons as humans.

    Attributes:
        endpoint: where it publishes, known after the start.
    """

    def __init__(
        self,
        config: RemoteEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        super().__init__(
            motion,
            config.rate_hz,
            epoch_ns,
            faults,
            stream=True,
            offset_s=config.clock_offset_s,
            drift_ppm=config.clock_drift_ppm,
        )
        self.endpoint = config.bind
        self._config = config
        actors = [ActorInfo(name, ActorKind.VEHICLE) for name in motion.subjects]
        actors += [
            ActorInfo(model.name, ActorKind.HUMAN, skeleton=model)
            for model in motion.skeleton_models
        ]
        self._description = Description(config.site, 1, tuple(actors))
        self._responder = self._new_responder()
        self._link: ZmqPublisherLink | None = None
        self._former: Counter[str] = Counter()

    @property
    def counters(self) -> Counter[str]:
        """Return all counters so far, those of the connections included."""
        counters = self.server.counters + self._former
        if self._link is not None:
            counters += self._link.counters
        return counters

    def close(self) -> None:
        """Release the address; the next start binds it again."""
        if self._link is not None:
            self._link.close()
            self._former += self._link.counters
            self._link = None

    def listen(self) -> None:
        """Bind and serve.

        Raises:
            SinkError: the address is not available.
        """
        self._responder = self._new_responder()
        self._link = ZmqPublisherLink(self.endpoint, self._answer)
        self._link.open()
        self.endpoint = self._link.endpoint

    def _new_responder(self) -> Responder:
        return Responder(
            1 + secrets.randbits(63), self._description, lambda: self.foreign_ns(now_ns())
        )

    def _answer(self, request: bytes) -> bytes | None:
        return None if self.server.silent else self._responder.answer(request)

    def _on_frame(self, frame: EmulatedFrame) -> None:
        latency_ns = round(self._config.latency_ms * NS_PER_MS)
        state = (TrackingState.LOST, TrackingState.TRACKED)
        seen = frame.seen
        poses = [
            ActorPose(i, state[tracked], p_m, q_xyzw)
            for i, (p_m, q_xyzw, tracked) in enumerate(
                zip(seen.p_m, seen.q_xyzw, seen.tracked.tolist(), strict=True)
            )
        ]
        for i, skeleton in enumerate(seen.skeletons, len(poses)):
            tracked = bool(skeleton.tracked.any())
            place = place_of(skeleton)
            poses.append(ActorPose(i, state[tracked], place.p_m, place.q_xyzw, skeleton))
        message = FrameMessage(
            self._responder.run,
            frame.number,
            self._description.revision,
            self.foreign_ns(frame.t_ns),
            self.foreign_ns(now_ns() + latency_ns),
            *records_of(poses),
        )
        self.server.send(self._send, encode_frame(message), latency_ns=latency_ns)

    def _send(self, message: bytes) -> None:
        if self._link is not None:
            self._link.housekeep()
            self._link.publish(message)
