"""A world with a human who dances, seen through a room that is turned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.motions import DANCER, Dance
from tests.support.sensor_flight import T_WORLD_ROOM
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import ActorKind, SkeletonFrame, SourceFrame
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World


class PersonFlight:
    """Skeletons by bridge time of their capture, as the world should have them.

    Attributes:
        unseen: bones that the system does not see, by number.
    """

    def __init__(self) -> None:
        self.world = World(
            {"mocap": T_WORLD_ROOM}, [Actor("ann-1", ActorKind.HUMAN, "mocap", "person")]
        )
        self.seen: dict[int, SkeletonFrame] = {}
        self.unseen: tuple[int, ...] = ()
        self._dance = Dance(skeleton_models=(replace(DANCER, name="person"),))

    def film(self) -> None:
        """One frame of now."""
        t_ns = now_ns()
        skeleton = self._dance.at(t_ns).skeletons[0]
        skeleton.tracked[list(self.unseen)] = False
        none = np.zeros((0, 3)), np.zeros((0, 4)), np.zeros(0, np.bool_)
        self.world.ingest(SourceFrame("mocap", 0, None, t_ns, (), *none, skeletons=(skeleton,)))
        self.seen[t_ns] = skeleton.moved(T_WORLD_ROOM)

    def captured_at(self, t_ns: int) -> SkeletonFrame:
        """Return the skeleton of the capture nearest to an instant, at most 1 ms away."""
        nearest = min(self.seen, key=lambda t: abs(t - t_ns))
        assert abs(nearest - t_ns) < 1_000_000
        return self.seen[nearest]
