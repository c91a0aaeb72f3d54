"""Recording of poses and inertial samples of actors from their real sources, in the bridge's
time.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

import numpy as np

from vil_bridge.config.references import similar
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import (
    ActorKind,
    ClockExchange,
    ImuSample,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.daemon.source_session import listening
from vil_bridge.runtime.supervisor import ComponentState, Status
from vil_bridge.setup.align.segmentation import ImuTrack, PoseTrack
from vil_bridge.world.clock_sync import ClockModel

_Item = TypeVar("_Item")

_LONGEST: Final = 200_000
"""Stored samples of each sensor: three minutes at 1 kHz."""


def rigid_actor(config: BridgeConfig, name: str) -> str:
    """Check that a name is that of an actor with one rigid body; return it.

    Raises:
        ConfigError: there is no such actor, or it is a skeleton.
    """
    if name not in config.actors:
        known = ", ".join(config.actors) or "none"
        raise ConfigError(
            f"no actor is named {name!r}; known: {known}{similar(name, config.actors)}"
        )
    if config.actors[name].kind is ActorKind.HUMAN:
        raise ConfigError(
            f"{name!r} is a skeleton: take a rigid body of the same room (a vehicle or a prop)"
        )
    return name


class SampleRecorder:
    """Recorder of the samples of some actors.

    Attributes:
        sources: names of those that matter. statuses: theirs, while they run.
    """

    def __init__(self, config: BridgeConfig, actors: Iterable[str], *, imu: bool) -> None:
        self._actors = {name: config.actors[name] for name in actors}
        names = dict.fromkeys(a.source for a in self._actors.values())
        if imu:
            names |= dict.fromkeys(a.imu for a in self._actors.values() if a.imu is not None)
        self.sources = tuple(names)
        self.statuses: dict[str, Status] = {}
        self._clocks = {name: ClockModel() for name in names}
        self._poses: dict[str, list[tuple[int | None, int, int, list[float]]]] = {
            a: [] for a in self._actors
        }
        self._imu: dict[str, list[tuple[int | None, int, list[float]]]] = {n: [] for n in names}
        self._subjects: dict[str, tuple[str, ...]] = {}

    def handle(self, event: SourceEvent) -> None:
        """Store the samples of the actors."""
        clock = self._clocks[event.source]
        match event:
            case SourceFrame():
                if event.t_foreign_ns is not None:
                    clock.add_stamp(event.t_foreign_ns, event.t_arrival_ns - event.latency_ns)
                self._handle_frame(event)
            case ImuSample():
                if event.t_foreign_ns is not None:
                    clock.add_stamp(event.t_foreign_ns, event.t_arrival_ns)
                values = [*event.w_radps.tolist(), *event.f_mps2.tolist()]
                _store(self._imu[event.source], (event.t_foreign_ns, event.t_arrival_ns, values))
            case ClockExchange():
                clock.add_exchange(event.t_sent_ns, event.t_foreign_ns, event.t_received_ns)
            case SourceReset():
                self._reset(event)

    def poses(self, actor: str) -> PoseTrack:
        """Return the tracked poses so far."""
        stored = self._poses[actor]
        clock = self._clocks[self._actors[actor].source]
        stamps = [
            _bridge_ns(clock, foreign, arrival, latency) for foreign, arrival, latency, _ in stored
        ]
        rows = np.array([values for *_, values in stored]).reshape(-1, 7)
        t_ns, order = np.unique(np.array(stamps, dtype=np.int64), return_index=True)
        return PoseTrack(t_ns, rows[order, :3], rows[order, 3:])

    def imu(self, source: str) -> ImuTrack:
        """Return the inertial samples so far."""
        stored = self._imu[source]
        stamps = [
            _bridge_ns(self._clocks[source], foreign, arrival, 0) for foreign, arrival, _ in stored
        ]
        rows = np.array([values for *_, values in stored]).reshape(-1, 6)
        t_ns, order = np.unique(np.array(stamps, dtype=np.int64), return_index=True)
        return ImuTrack(t_ns, rows[order, :3], rows[order, 3:])

    def trouble(self, actor: str) -> str:
        """Return the reason that no poses of an actor come; empty while they do."""
        wanted = self._actors[actor]
        report = self.statuses[wanted.source].report()
        if report.state is not ComponentState.RUNNING:
            return (
                f"source {wanted.source} is {report.state}: {report.reason or 'nothing came yet'}"
            )
        seen = self._subjects.get(wanted.source)
        if seen is not None and wanted.subject not in seen:
            return (
                f"{actor} wants {wanted.subject!r}; the stream of {wanted.source} has "
                f"{', '.join(seen) or 'nothing'}"
            )
        if self._poses[actor]:
            return ""
        return f"{wanted.subject!r} is in the stream, but not tracked"

    def imu_trouble(self, source: str) -> str:
        """Return the reason that no inertial samples of a source come; empty while they do."""
        report = self.statuses[source].report()
        if report.state is not ComponentState.RUNNING:
            return (
                f"no inertial samples: source {source} is {report.state}: "
                f"{report.reason or 'nothing came yet'}"
            )
        if self._imu[source]:
            return ""
        return f"no inertial samples: source {source} runs, but sends none"

    def _handle_frame(self, frame: SourceFrame) -> None:
        self._subjects[frame.source] = frame.subjects
        for name, actor in self._actors.items():
            if actor.source != frame.source or actor.subject not in frame.subjects:
                continue
            row = frame.subjects.index(actor.subject)
            if frame.tracked[row]:
                values = [*frame.p_m[row].tolist(), *frame.q_xyzw[row].tolist()]
                _store(
                    self._poses[name],
                    (frame.t_foreign_ns, frame.t_arrival_ns, frame.latency_ns, values),
                )

    def _reset(self, reset: SourceReset) -> None:
        """Drop the samples before a reset of the clock: their stamps do not fit those after it."""
        if not reset.clock:
            return
        self._clocks[reset.source].reset()
        self._imu[reset.source].clear()
        for name, actor in self._actors.items():
            if actor.source == reset.source:
                self._poses[name].clear()


def _store(stored: list[_Item], item: _Item) -> None:
    if len(stored) < _LONGEST:
        stored.append(item)


def _bridge_ns(clock: ClockModel, foreign_ns: int | None, arrival_ns: int, latency_ns: int) -> int:
    mapped = None if foreign_ns is None else clock.to_bridge(foreign_ns)
    return arrival_ns - latency_ns if mapped is None else mapped


@contextlib.asynccontextmanager
async def recording(
    config: BridgeConfig, actors: Iterable[str], *, imu: bool = False
) -> AsyncIterator[SampleRecorder]:
    """Run the sources of the actors, and no others, for the length of the block.

    Raises:
        ConfigError: a plug-in cannot be had.
    """
    recorder = SampleRecorder(config, actors, imu=imu)
    async with listening(config, recorder.sources, recorder.handle) as statuses:
        recorder.statuses = statuses
        yield recorder
