"""The shared world: source events in, actors at any instant out.

Sources write from the event loop, relay threads ask for poses: one lock guards the tracks.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from vil_bridge.bodies.skeleton import place_of
from vil_bridge.core.block_snapshot import ActorTable, BlockSnapshot
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.motion import BodyMotion, ImuWindow
from vil_bridge.core.names import source_of
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    ClockExchange,
    FloatArray,
    ImuSample,
    Lighting,
    SkeletonFrame,
    SourceEvent,
    SourceFrame,
    SourceReset,
    TrackingState,
    WorldSnapshot,
)
from vil_bridge.world.actors import Actor
from vil_bridge.world.clock_sync import OLDEST_NS, ClockLine, ClockModel
from vil_bridge.world.frame_binding import Binding, RoomFrame, bind, indices
from vil_bridge.world.frame_watchers import FrameWatchers
from vil_bridge.world.freeze import FreezeWatch
from vil_bridge.world.prediction import InertialPredictor, PredictedPose
from vil_bridge.world.sensor_history import SensorHistory
from vil_bridge.world.track_choice import clock_model, frame_store, skeleton_track, track_bank

_LAST_STAMP_NS: Final = 1 << 62
_QUICK_NS: Final = 20_000_000
"""Without an IMU half of an acceleration of 1 g times the square of this is missed: 2 mm."""


class World:
    """Rooms, clocks and tracks.

    Args:
        T_world_room_of: source name to its room's frame in the world; frames of other sources are
            ignored.
        actors: in the order in which snapshots list them.

    Attributes:
        lighting: goes with every snapshot, None = the scene's own; any thread may replace it.
        props, gates: obstacles and a race's gates, not tracked; any thread may replace them.
            sensors: of the actors.
    """

    def __init__(self, T_world_room_of: Mapping[str, Transform], actors: Sequence[Actor]) -> None:
        self.actors = tuple(actors)
        self.sensors = SensorHistory(actors, T_world_room_of)
        self.lighting: Lighting | None = None
        self.props: tuple[ActorState, ...] = ()
        self.gates: tuple[ActorState, ...] = ()
        self.clocks: dict[str, ClockModel] = defaultdict(clock_model)
        self._lines: dict[str, tuple[int, ClockLine]] = {}
        self.transitions: dict[str, Counter[TrackingState]] = {a.name: Counter() for a in actors}
        self._lock = threading.Lock()
        self._rooms = {source: RoomFrame(T) for source, T in T_world_room_of.items()}
        self._row = {a.name: i for i, a in enumerate(actors)}
        self._bank = track_bank([a.limits for a in actors])
        self._predicted: tuple[tuple[int, int], FloatArray] = ((-1, -1), np.zeros((0, 7)))
        self._skeletons = {
            (a.source, a.subject): skeleton_track(a.limits)
            for a in actors
            if a.kind is ActorKind.HUMAN
        }
        self._predictors = {
            a.name: InertialPredictor(a.T_body_imu) for a in actors if a.imu is not None
        }
        self._store = frame_store(self._bank, self._skeletons)
        self._freezes = [self._freeze_watch(row, actor) for row, actor in enumerate(actors)]
        self._bindings: dict[str, Binding] = {}
        self._states = [TrackingState.LOST] * len(actors)
        self._inertial = [
            row
            for row, a in enumerate(actors)
            if a.imu is not None and a.kind is not ActorKind.HUMAN
        ]
        self._humans = [
            (row, self._skeletons[a.source, a.subject])
            for row, a in enumerate(actors)
            if a.kind is ActorKind.HUMAN
        ]
        self._by_time_alone = [a.imu is None for a in actors]
        self._table = ActorTable.of(actors)
        self._watchers = FrameWatchers()

    def _freeze_watch(self, row: int, actor: Actor) -> FreezeWatch:
        predictor = self._predictors.get(actor.name)
        by_imu = None if predictor is None else predictor.against_pose
        if actor.kind is ActorKind.HUMAN:
            return FreezeWatch(
                actor.limits, self._skeletons[actor.source, actor.subject].repeats, 0, by_imu
            )
        return FreezeWatch(actor.limits, self._bank.repeats, row, by_imu)

    # --- in: called from the event loop ---------------------------------------------------------

    def ingest(self, event: SourceEvent) -> None:
        """Take any event of any source."""
        clock = self.clocks[event.source]
        match event:
            case SourceFrame():
                stamps = event.t_foreign_ns, event.t_arrival_ns, event.latency_ns
                t_ns = self._capture_ns(event.source, clock, *stamps)
                self._ingest_frame(event, t_ns)
                self._watchers.announce(t_ns)
            case ImuSample():
                t_ns = self._capture_ns(event.source, clock, event.t_foreign_ns, event.t_arrival_ns)
                with self._lock:
                    for actor in (a for a in self.actors if a.imu == event.source):
                        self._predictors[actor.name].add_imu(t_ns, event.w_radps, event.f_mps2)
            case SensorReadings():
                self.sensors.add(event)
            case ClockExchange():
                clock.add_exchange(event.t_sent_ns, event.t_foreign_ns, event.t_received_ns)
            case SourceReset():
                if event.clock:
                    clock.reset()
                    self._lines.pop(event.source, None)
                self._reset_source(event.source, event.subjects)

    def _capture_ns(
        self,
        source: str,
        clock: ClockModel,
        t_foreign_ns: int | None,
        t_arrival_ns: int,
        latency_ns: int = 0,
    ) -> int:
        """Return the capture time in bridge time.

        Never later than the arrival, which stands in while unknown.

        Stamps may be nonsense (a flipped bit): what no clock shows is unknown, and nothing is older
        than an hour.
        """
        if t_foreign_ns is None or abs(t_foreign_ns) > _LAST_STAMP_NS:
            return t_arrival_ns
        usual_ns = clock.usual(t_foreign_ns, t_arrival_ns, latency_ns)
        if usual_ns is not None:
            return usual_ns
        clock.add_stamp(t_foreign_ns, t_arrival_ns - latency_ns)
        line = clock.line
        if line is None:
            return t_arrival_ns
        used = self._lines.get(source)
        if used is None or line is not used[1]:
            self._lines[source] = clock.epoch, line
            if used is not None and used[0] != clock.epoch:
                self._reset_source(source)  # stamped by a clock whose step was not known yet
            elif used is not None:
                self._shift_source(
                    source, used[1].offset_at(t_arrival_ns) - line.offset_at(t_arrival_ns)
                )
        clock.settle()
        return min(max(line.to_bridge(t_foreign_ns), t_arrival_ns - OLDEST_NS), t_arrival_ns)

    def _ingest_frame(self, frame: SourceFrame, t_ns: int) -> None:
        room = self._rooms.get(frame.source)
        if room is None:
            return
        binding = self._bindings.get(frame.source)
        if binding is None or (
            binding.subjects is not frame.subjects and binding.subjects != frame.subjects
        ):
            binding = self._bindings[frame.source] = bind(
                frame, room, self.actors, self._predictors
            )
        with self._lock:
            if self._store.add(frame, binding, t_ns):
                for row in indices(binding.rows).tolist():
                    # So that a gap shorter than a camera's period is counted.
                    self._state(row, frame.t_arrival_ns)
            for row, predictor in binding.predictors:
                if self._bank.t_capture_ns[row] == t_ns:
                    predictor.add_pose(t_ns, *self._bank.newest(row))

    def _reset_source(self, source: str, subjects: tuple[str, ...] = ()) -> None:
        with self._lock:
            moved = {
                a.name
                for a in self.actors
                if a.source == source and (not subjects or a.subject in subjects)
            }
            self._bank.reset(np.array([self._row[name] for name in moved], dtype=np.int64))
            for (owner, subject), track in self._skeletons.items():
                if owner == source and (not subjects or subject in subjects):
                    track.reset()
            for actor in self.actors:
                if (
                    not subjects
                    and actor.imu is not None
                    and source in (actor.imu, source_of(actor.imu))
                ):
                    self._predictors[actor.name].body.reset_imu()
                elif actor.name in moved and actor.imu is not None:
                    self._predictors[actor.name].body.reset_poses()

    def _shift_source(self, source: str, by_ns: int) -> None:
        """Move the stamps of a source's history by the change of its clock's fit."""
        if not by_ns:
            return
        with self._lock:
            self._bank.shift(
                np.array([self._row[a.name] for a in self.actors if a.source == source], np.int64),
                by_ns,
            )
            for track in (
                track for (owner, _), track in self._skeletons.items() if owner == source
            ):
                track.shift(by_ns)
            for actor in self.actors:
                if actor.imu == source:
                    self._predictors[actor.name].body.shift_imu(by_ns)
                elif actor.source == source and actor.imu is not None:
                    self._predictors[actor.name].body.shift_poses(by_ns)

    # --- out: called from any thread ------------------------------------------------------------

    def watch(self, announce: Callable[[int], None]) -> Callable[[], None]:
        """Call a function with the capture of each frame of poses, behind it.

        Return the function that ends this.
        """
        return self._watchers.add(announce)

    def snapshot(self, t_ns: int, *, quick: bool = False) -> BlockSnapshot:
        """Return all actors predicted for (or interpolated at) ``t_ns``, with the states they have
        now.

        ``quick``: those seen less than 20 ms ago go on as they did, without their IMU, in a third
        of the time.
        """
        with self._lock:
            now = now_ns()
            poses = self._extrapolated(t_ns).copy()
            captured_ns = self._bank.t_capture_ns.tolist()
            skeletons: list[SkeletonFrame | None] = [None] * len(poses)
            for row in self._inertial:
                if not (quick and 0 < t_ns - captured_ns[row] < _QUICK_NS):
                    place = self._predict(row, t_ns).T_world_body
                    poses[row, :3] = place.p_m
                    poses[row, 3:] = place.q_xyzw
            for row, track in self._humans:
                skeletons[row] = skeleton = track.at(t_ns, self.actors[row].limits.stale_after_ns)
                place = Transform.identity() if skeleton is None else place_of(skeleton)
                poses[row, :3] = place.p_m
                poses[row, 3:] = place.q_xyzw
                captured_ns[row] = track.stamps.t_capture_ns
            ages_ns = [None if captured < 0 else t_ns - captured for captured in captured_ns]
            states = self._states_at(now)
        return BlockSnapshot.of(t_ns, self._table, poses, states, ages_ns, skeletons, self.lighting)

    def scene(self, t_ns: int) -> WorldSnapshot:
        """Return the actors and the obstacles, which renderers draw."""
        snapshot = self.snapshot(t_ns)
        return (
            replace(snapshot, actors=snapshot.actors + things)
            if (things := self.props + self.gates)
            else snapshot
        )

    def pose_at(self, actor: str, t_ns: int) -> PredictedPose:
        """Return one rigid actor's pose at an instant, by mocap and IMU.

        Raises KeyError: no such actor.
        """
        with self._lock:
            return self._predict(self._row[actor], t_ns)

    def motion_at(self, actor: str, t_ns: int, *, covariance: bool = True) -> BodyMotion:
        """Return one rigid actor's pose and twist at an instant; in the past, the newest twist.

        Args:
            actor: its name.
            t_ns: the instant.
            covariance: include it; it takes a third of the time. Raises KeyError: no such actor.
        """
        row = self._row[actor]
        with self._lock:
            pose = self._predict(row, t_ns)
            twist = self._twist(row, t_ns, inertial=pose.method != "constant-twist")
            predictor = self._predictors.get(actor)
            found = t_ns, pose.T_world_body, *twist, pose.method, pose.imu_age_ns
            stated = self._covariance(row, t_ns, pose.method) if covariance else None
            if predictor is None:
                return BodyMotion(*found, covariance=stated)
            imu = predictor.body.sensors
            known = imu.gyro_bias_radps, imu.gyro_scale, imu.accel_bias_mps2, imu.late_ns
            return BodyMotion(*found, *known, stated)

    def twist_at(self, actor: str, t_ns: int) -> tuple[FloatArray, FloatArray]:
        """Return the velocity (3,), world, and angular rate (3,), body, of :meth:`motion_at`.

        Raises what that does.
        """
        with self._lock:
            return self._twist(self._row[actor], t_ns, inertial=True)

    def twists(self) -> tuple[FloatArray, FloatArray]:
        """Return velocities (n, 3), world, and rates (n, 3), body, of all actors at their newest
        poses, by mocap.
        """
        with self._lock:
            return self._bank.motion()[2].copy(), self._bank.motion()[3].copy()

    def imu_place(self, actor: str) -> Transform | None:
        """Return T_body_imu of an actor, None where it has no IMU."""
        predictor = self._predictors.get(actor)
        return None if predictor is None else predictor.T_body_imu

    def imu_since(self, actor: str, t_ns: int) -> ImuWindow | None:
        """Return the inertial samples of an actor newer than ``t_ns``, its IMU's axes.

        None = none, or no IMU.
        """
        predictor = self._predictors.get(actor)
        return None if predictor is None else predictor.since(t_ns)

    def newest(self, actor: str) -> tuple[Transform, int, int] | None:
        """Return the newest tracked pose, its capture and its arrival time; None = never seen."""
        row = self._row[actor]
        with self._lock:
            if self._bank.t_capture_ns[row] < 0:
                return None
            t_capture_ns = self._bank.t_capture_ns.item(row)
            t_arrival_ns = self._bank.t_arrival_ns.item(row)
            return Transform(*self._bank.newest(row)), t_capture_ns, t_arrival_ns

    def newest_skeleton(self, actor: str) -> tuple[SkeletonFrame, int] | None:
        """Return the newest frame of a human whose hips were tracked, and its capture time.

        None = never seen.
        """
        human = self.actors[self._row[actor]]
        with self._lock:
            track = self._skeletons[human.source, human.subject]
            t_capture_ns = track.stamps.t_capture_ns
            skeleton = track.at(t_capture_ns, 0)
            return None if skeleton is None else (skeleton, t_capture_ns)

    def state_of(self, actor: str) -> TrackingState:
        """Return the tracking state now; counts the transitions."""
        with self._lock:
            return self._state(self._row[actor], now_ns())

    def freeze_of(self, actor: str) -> str:
        """Return what shows that an actor's poses are frozen, in words.

        Empty while nothing does.
        """
        with self._lock:
            return self._freezes[self._row[actor]].reason()

    def speed_mps(self, actor: str) -> float | None:
        """Return the speed of a rigid actor, None while it has no history."""
        speed_mps: float = self.speeds_mps().item(self._row[actor])
        return None if math.isnan(speed_mps) else speed_mps

    def speeds_mps(self) -> FloatArray:
        """Return the speeds of all actors, shape (n,); NaN for humans and without history."""
        with self._lock:
            speeds_mps = np.linalg.norm(self._bank.motion()[2], axis=1)
            return np.where(self._bank.t_capture_ns < 0, np.nan, speeds_mps)

    def counters(self) -> dict[str, int]:
        """Return samples dropped and histories given up, by reason.

        For humans and IMUs with the actor's name.
        """
        counters = dict(self._bank.counters)
        for actor in self.actors:
            if actor.kind is ActorKind.HUMAN:
                track = self._skeletons[actor.source, actor.subject]
                counters |= {
                    f"jumps/{actor.name}": track.jumps,
                    f"rejected/{actor.name}": track.rejected,
                }
        for name, predictor in self._predictors.items():
            counters |= {f"{reason}/{name}": n for reason, n in predictor.counters().items()}
        return counters

    def predictor(self, actor: str) -> InertialPredictor | None:
        """Return the inertial predictor of a vehicle with an IMU, for status."""
        return self._predictors.get(actor)

    def _predict(self, row: int, t_ns: int) -> PredictedPose:
        actor = self.actors[row]
        t_capture_ns = self._bank.t_capture_ns.item(row)
        if t_ns <= t_capture_ns:
            past = self._bank.interpolate(row, t_ns)
            if past is not None:
                return PredictedPose(Transform(*past), "interpolated", None)
        predictor = self._predictors.get(actor.name)
        if predictor is not None and t_capture_ns >= 0:
            estimate = predictor.estimate(*self._span(row, t_ns), partial(self._bank.parts, row))
            if estimate is not None:
                return PredictedPose(estimate.T_world_body, "inertial", predictor.age_ns(t_ns))
        pose = self._extrapolated(t_ns)[row]
        return PredictedPose(Transform(pose[:3], pose[3:]), "constant-twist", None)

    def _twist(self, row: int, t_ns: int, *, inertial: bool) -> tuple[FloatArray, FloatArray]:
        predictor = self._predictors.get(self.actors[row].name)
        t_capture_ns, _, limit_ns = span = self._span(row, t_ns)
        if inertial and predictor is not None and t_capture_ns >= 0:
            estimate = predictor.estimate(*span, partial(self._bank.parts, row))
            if estimate is not None:
                return estimate.v_world_mps, estimate.w_body_radps
        ahead_ns = 0 if t_capture_ns < 0 else min(max(t_ns - t_capture_ns, 0), limit_ns)
        return self._bank.twist(row, 1e-9 * ahead_ns)

    def _covariance(self, row: int, t_ns: int, method: str) -> FloatArray | None:
        """Return the covariance of a pose that was found by this method, None = not known."""
        predictor = self._predictors.get(self.actors[row].name)
        span = self._span(row, t_ns)
        measured = method == "interpolated"
        found = None
        if predictor is not None and method != "constant-twist":
            found = predictor.covariance(*span, measured=measured)
        if found is None and span[0] >= 0:
            found = self._bank.covariance(row, t_ns, measured=measured)
        return found

    def _span(self, row: int, t_ns: int) -> tuple[int, int, int]:
        """Return the newest pose's capture time, the instant and the limit of a prediction."""
        return self._bank.t_capture_ns.item(row), t_ns, self.actors[row].limits.stale_after_ns

    def _extrapolated(self, t_ns: int) -> FloatArray:
        """Return the poses of all rows without their IMU, shape (n, 7).

        Cached while time and tracks stay, since a tick asks for its camera and for the scene.
        """
        key = (t_ns, self._bank.version)
        if self._predicted[0] != key:
            self._predicted = key, self._bank.poses(t_ns)
        return self._predicted[1]

    def _states_at(self, now: int) -> list[TrackingState]:
        """Return the tracking states of all actors; most rigid ones are tracked, and were."""
        tracked = TrackingState.TRACKED
        usual = [tracked] * len(self._states)
        if (
            self._states == usual
            and all(self._by_time_alone)
            and self._bank.all_surely_tracked(now)
        ):
            return usual
        rows = zip(self._states, self._bank.surely_tracked(now), self._by_time_alone, strict=True)
        return [
            tracked if sure and alone and before is tracked else self._state(row, now)
            for row, (before, sure, alone) in enumerate(rows)
        ]

    def _state(self, row: int, now: int) -> TrackingState:
        actor = self.actors[row]
        if actor.kind is ActorKind.HUMAN:
            stamps = self._skeletons[actor.source, actor.subject].stamps
            arrival = stamps.t_arrival_ns
            tracked = bool(stamps.tracked)
        else:
            arrival = self._bank.t_arrival_ns.item(row)
            tracked = self._bank.tracked.item(row)
        silence_ns = None if arrival < 0 else now - arrival
        frozen = bool(self._freezes[row].reason())
        state = actor.limits.state(silence_ns, tracked, frozen=frozen)
        if state is not self._states[row]:
            self._states[row] = state
            self.transitions[actor.name][state] += 1
        return state
