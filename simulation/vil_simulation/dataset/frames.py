"""Every frame of a data set before anything is drawn: instant, pose of the body, other actors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vil_bridge.config.references import similar
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorState, FloatArray, TrackingState, WorldSnapshot
from vil_simulation.dataset.plan import DatasetPlan, RacePath, scene_name
from vil_simulation.dataset.recorded_trajectory import (
    MCAP,
    RecordedFlight,
    recorded_poses,
    snapshots_at,
)
from vil_simulation.dataset.trajectories import Flight, FlownCurve, curve_of


class DatasetFrame(NamedTuple):
    """One instant: all cameras of the body look at it."""

    number: int
    t_ns: int
    T_world_body: Transform
    snapshot: WorldSnapshot


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """Frames that one worker draws in one go.

    Attributes:
        scene: name or file. name: the scene's folder in the data set.
        before: the frame before the first one, which flow looks back to; None = there is none.
        cast: all actors that ever appear, so that ids do not depend on the order.
        hidden: actors that the cameras do not see: what carries them.
    """

    scene: str
    name: str
    number: int
    before: DatasetFrame | None
    frames: tuple[DatasetFrame, ...]
    cast: tuple[ActorState, ...]
    hidden: tuple[str, ...]

    @property
    def key(self) -> str:
        """Of its entry."""
        return f"{self.name}-{self.number:06d}"


@dataclass(frozen=True, slots=True, eq=False)
class FrameSequence:
    """All frames in one scene, and the flight that they are of; ``hidden`` as of :class:`Shard`."""

    scene: str
    name: str
    flight: Flight
    frames: tuple[DatasetFrame, ...]
    hidden: tuple[str, ...]

    def shards(self, frames: int) -> list[Shard]:
        """Return the sequence in pieces of so many frames."""
        cast = tuple(
            replace(actor, state=TrackingState.TRACKED) for actor in self.frames[0].snapshot.actors
        )
        return [
            Shard(
                self.scene,
                self.name,
                begin // frames,
                self.frames[begin - 1] if begin else None,
                self.frames[begin : begin + frames],
                cast,
                self.hidden,
            )
            for begin in range(0, len(self.frames), frames)
        ]


def grid_ns(start_ns: int, rate_hz: float, count: int) -> list[int]:
    """Return ``count`` instants of a rate."""
    return [start_ns + round(k * NS_PER_S / rate_hz) for k in range(count)]


def sequences_of(plan: DatasetPlan) -> list[FrameSequence]:
    """Return the frames of a plan, scene by scene.

    Raises:
        ConfigError: the flight cannot be flown, is too short, or its recording cannot be read.
        RecordingError: likewise, of our own recordings.
        RendererError: a scene with gates cannot be read.
    """
    for scene in plan.scenes:
        _check_scene(scene)
    if plan.trajectory.recorded is not None:
        return _recorded_sequences(plan)
    path = plan.trajectory.circle or plan.trajectory.waypoints or plan.trajectory.race
    assert path is not None, "the plan checks that there is one"

    def flown(gates_m: FloatArray) -> FlownCurve:
        return FlownCurve(curve_of(path, gates_m, endless=plan.frames is not None))

    if isinstance(path, RacePath):
        return [_sequence(plan, scene, flown(_gates_m(scene)), None, ()) for scene in plan.scenes]
    flight = flown(np.empty((0, 3)))
    return [_sequence(plan, scene, flight, None, ()) for scene in plan.scenes]


def _recorded_sequences(plan: DatasetPlan) -> list[FrameSequence]:
    recorded = plan.trajectory.recorded
    assert recorded is not None, "the caller has looked"
    seen = recorded_poses(recorded)
    flight = RecordedFlight(seen, recorded.start_s, recorded.smooth_s)
    ours = recorded.file.suffix == MCAP
    snapshots_seen = snapshots_at(recorded.file, _instants(plan, flight)) if ours else None
    return [
        _sequence(plan, scene, flight, snapshots_seen, (seen.name,) if ours else ())
        for scene in plan.scenes
    ]


def _instants(plan: DatasetPlan, flight: Flight) -> list[int]:
    """Return the instants of the frames.

    Raises:
        ConfigError: the flight ends before.
    """
    most = int(flight.duration_ns * plan.rate_hz / NS_PER_S) + 1
    if plan.frames is not None and plan.frames > most:
        why = f", {flight.ends}" if flight.ends else ""
        lasts = f"the flight lasts {flight.duration_ns / NS_PER_S:.2f} s{why}"
        raise ConfigError(
            f"frames: {lasts}: that is {most} frames at {plan.rate_hz:g} Hz, not {plan.frames}"
        )
    return grid_ns(flight.start_ns, plan.rate_hz, plan.frames or most)


def _sequence(
    plan: DatasetPlan,
    scene: str,
    flight: Flight,
    snapshots_seen: list[WorldSnapshot] | None,
    hidden: tuple[str, ...],
) -> FrameSequence:
    t_ns = _instants(plan, flight)
    truth = flight.motion(t_ns)
    poses = zip(truth.p_world_m, truth.q_world_body, strict=True)
    snapshots = [WorldSnapshot(t, ()) for t in t_ns] if snapshots_seen is None else snapshots_seen
    frames = tuple(
        DatasetFrame(number, t, Transform(*pose), snapshot)
        for number, (t, pose, snapshot) in enumerate(zip(t_ns, poses, snapshots, strict=True))
    )
    return FrameSequence(scene, scene_name(scene), flight, frames, hidden)


def _check_scene(scene: str) -> None:
    """Check that a scene exists, at once; errors in its file are reported when it is opened."""
    from vil_renderer.embedded import scene_names

    if Path(scene).suffix:
        if not Path(scene).is_file():
            raise ConfigError(f"scenes: {scene}: there is no such file")
    elif scene not in (names := scene_names()):
        raise ConfigError(
            f"scenes: no scene is named {scene!r}; known: {', '.join(names)}{similar(scene, names)}"
        )


def _gates_m(scene: str) -> FloatArray:
    from vil_renderer.embedded import load_scene

    return np.array([gate.T_world_gate.p_m for gate in load_scene(scene).gates]).reshape(-1, 3)
