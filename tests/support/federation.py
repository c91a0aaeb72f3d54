"""Help for the tests of joined rooms: a room with a drone and a human, a source that runs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from tests.support.events import Received, receiving
from vil_adapters.motions.drone import DroneMotion
from vil_adapters.remote.config import RemoteConfig
from vil_adapters.remote.source import RemoteSource
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.types import ClockExchange, MotionFrame, SourceFrame, SourceReset
from vil_bridge.interfaces.ports import PoseSource

_E = TypeVar("_E", SourceFrame, ClockExchange, SourceReset)


class RoomMotion:
    """The simulated drone and the simulated human in one room."""

    def __init__(self) -> None:
        self._drone, self._human = DroneMotion("drone"), WalkMotion("Actor")
        self.subjects = self._drone.subjects
        self.skeleton_models = self._human.skeleton_models

    def at(self, t_ns: int) -> MotionFrame:
        drone = self._drone.at(t_ns)
        return MotionFrame(
            drone.subjects,
            drone.p_m,
            drone.q_xyzw,
            drone.tracked,
            skeletons=self._human.at(t_ns).skeletons,
        )


def joined(source: PoseSource) -> AbstractAsyncContextManager[Received]:
    """A source at work under its supervisor."""
    return receiving(source, supervised=True)


def far(address: str, **settings: object) -> RemoteSource:
    """The source that listens there to the site ``far``."""
    return RemoteSource(
        "far", RemoteConfig.model_validate({"site": "far", "address": address, **settings})
    )
