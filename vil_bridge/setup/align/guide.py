"""Instructions for the moves of an alignment; the end of each move is detected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from vil_bridge.config.root import ActorConfig, BridgeConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.proposal import STEPS
from vil_bridge.setup.align.sampling import SampleRecorder, recording
from vil_bridge.setup.align.segmentation import (
    CalibrationError,
    ImuTrack,
    MotionSegment,
    PoseTrack,
    find_moves,
    find_rests,
    mean_pose,
)

Say = Callable[[str], None]

_LOOK_S: Final = 0.25
_TROUBLE_NS: Final = 3 * NS_PER_S
_SPOT_NS: Final = 1500 * NS_PER_MS
_SPOT_APART_M: Final = 0.2
_REPORT_NS: Final = 5 * NS_PER_S
_MOVING_NS: Final = 3 * NS_PER_S
_LAB_FLIES: Final = (
    "The emulated lab's drone always flies: start it with `vil-bridge lab --carried` instead"
)


class _Prompter:
    """Printer of instructions, each once, and of what is missing while no data come."""

    def __init__(
        self,
        say: Say,
        recorder: SampleRecorder,
        actors: Sequence[str],
        timeout_s: float,
        imu: str | None = None,
    ) -> None:
        self._say = say
        self._recorder = recorder
        self._actors = actors
        self._imu = imu
        self._begun_ns = now_ns()
        self._end_ns = self._begun_ns + round(timeout_s * NS_PER_S)
        self._last = ""

    def __call__(self, text: str) -> None:
        """Print a text, unless it was the last one."""
        if text != self._last:
            self._say(text)
            self._last = text

    async def listen(self, waiting_for: str) -> None:
        """Wait for more data.

        Raises:
            CalibrationError: it took too long.
        """
        troubles = [*map(self._recorder.trouble, self._actors)]
        if self._imu is not None:
            troubles.append(self._recorder.imu_trouble(self._imu))
        trouble = "; ".join(filter(None, troubles))
        if now_ns() > self._end_ns:
            raise CalibrationError(trouble or f"gave up: still waiting for this: {waiting_for}")
        if trouble and now_ns() - self._begun_ns > _TROUBLE_NS:
            self(f"still missing: {trouble}")
        await asyncio.sleep(_LOOK_S)


async def lead_moves(
    config: BridgeConfig, actor: str, say: Say, timeout_s: float
) -> list[MotionSegment]:
    """Record the moves of :data:`~vil_bridge.setup.align.proposal.STEPS`.

    Raises:
        CalibrationError: the time is over.
        ConfigError: the source cannot be had.
    """
    hold = (
        f"hold {actor} level with its nose in the direction that shall be forward, and keep still"
    )
    moving = (
        f"{actor} is moving: it has to be still for a second before the first move. {_LAB_FLIES}"
    )
    async with recording(config, [actor]) as recorder:
        prompter = _Prompter(say, recorder, [actor], timeout_s)
        prompter(hold)
        while True:
            track = recorder.poses(actor)
            moves = find_moves(track)
            if len(moves) >= len(STEPS):
                return moves
            step = STEPS[len(moves)]
            prompt = (
                f"{len(moves) + 1} of {len(STEPS)}: {step.prompt}; then keep still for a second"
            )
            if find_rests(track):
                prompter(prompt)
            elif len(track) and track.t_ns[-1] - track.t_ns[0] > _MOVING_NS:
                prompter(moving)
            await prompter.listen(prompt if len(track) else hold)


async def record_shaking(
    config: BridgeConfig, actor: str, imu: str, say: Say, seconds: float
) -> tuple[PoseTrack, ImuTrack]:
    """Record poses and inertial samples while the user turns the body about all its axes.

    Raises:
        CalibrationError: no poses, or no inertial samples, came in time.
        ConfigError: a source cannot be had.
    """
    async with recording(config, [actor], imu=True) as recorder:
        prompter = _Prompter(say, recorder, [actor], 2.0 * seconds + 10.0, imu)
        prompter(
            f"turn {actor} briskly to and fro about all of its axes, in sight of the "
            f"cameras, for {seconds:.0f} s"
        )
        reported_ns = 0
        while True:
            poses = recorder.poses(actor)
            samples = recorder.imu(imu)
            elapsed_ns = int(poses.t_ns[-1] - poses.t_ns[0]) if len(poses) else 0
            if elapsed_ns > seconds * NS_PER_S and len(samples.t_ns):
                return poses, samples
            if elapsed_ns - reported_ns > _REPORT_NS:
                reported_ns = elapsed_ns
                prompter(f"{elapsed_ns / NS_PER_S:.0f} of {seconds:.0f} s: {len(poses)} poses")
            await prompter.listen(f"{seconds:.0f} s of tracked poses of {actor}")


# --- rooms ----------------------------------------------------------------------------------------


def spots(track: PoseTrack, actor: ActorConfig) -> FloatArray:
    """Return the places (k, 3) where the body's origin lay for 1.5 s, in order, each away from
    the one before.
    """
    found: list[FloatArray] = []
    for rest in find_rests(track):
        if track.t_ns[rest.end - 1] - track.t_ns[rest.begin] < _SPOT_NS:
            continue
        place = (
            mean_pose(track.part(rest.begin, rest.end)) @ actor.T_body_markers.transform().inverse()
        ).p_m
        if not found or np.linalg.norm(place - found[-1]) > _SPOT_APART_M:
            found.append(place)
    return np.array(found).reshape(-1, 3)


async def lead_spots(
    config: BridgeConfig, actors: tuple[str, str], count: int, say: Say, timeout_s: float
) -> tuple[FloatArray, FloatArray]:
    """Record places (count, 3) of two bodies, each in its room's frame, put down at the same marks
    in order.

    Raises:
        CalibrationError: the time is over.
        ConfigError: a source cannot be had.
    """
    async with recording(config, actors) as recorder:
        prompter = _Prompter(say, recorder, actors, timeout_s)
        while True:
            first, second = (spots(recorder.poses(a), config.actors[a])[:count] for a in actors)
            if len(first) == len(second) == count:
                return first, second
            prompt = (
                f"put {actors[0]} and {actors[1]} down at the marks 1 to {count}, in this "
                "order, two seconds at each: "
                f"{len(first)} and {len(second)} of {count} seen"
            )
            if all(len(recorder.poses(a)) for a in actors):
                prompter(prompt)
            await prompter.listen(prompt)


async def record_wand(
    config: BridgeConfig, actors: tuple[str, str], say: Say, seconds: float
) -> tuple[FloatArray, FloatArray]:
    """Record the places (k, 3) of one body that both rooms see, in the frame of each, at the same
    instants.

    Raises:
        CalibrationError: the rooms hardly saw it at the same time.
        ConfigError: a source cannot be had.
    """
    async with recording(config, actors) as recorder:
        prompter = _Prompter(say, recorder, actors, 2.0 * seconds + 10.0)
        prompt = f"carry the wand through the space that both rooms see, for {seconds:.0f} s"
        prompter(prompt)
        while True:
            a, b = (recorder.poses(name) for name in actors)
            both_ns = min(int(t.t_ns[-1] - t.t_ns[0]) if len(t) else 0 for t in (a, b))
            if both_ns > seconds * NS_PER_S:
                return _paired(
                    _bodies(a, config.actors[actors[0]]), _bodies(b, config.actors[actors[1]])
                )
            await prompter.listen(prompt)


def _bodies(track: PoseTrack, actor: ActorConfig) -> PoseTrack:
    """Return the poses of the body itself."""
    T_markers_body = actor.T_body_markers.transform().inverse()
    T = Transform(track.p_room_m, track.q_room_markers)
    return PoseTrack(track.t_ns, T.apply(T_markers_body.p_m), track.q_room_markers)


def _paired(
    a: PoseTrack, b: PoseTrack, within_ns: int = 50 * NS_PER_MS
) -> tuple[FloatArray, FloatArray]:
    """Return the places at the stamps of ``a``, those of ``b`` between two of its own that are
    not far apart.
    """
    after = np.clip(np.searchsorted(b.t_ns, a.t_ns), 1, len(b) - 1)
    near = (
        (b.t_ns[after - 1] <= a.t_ns)
        & (a.t_ns <= b.t_ns[after])
        & (b.t_ns[after] - b.t_ns[after - 1] < within_ns)
    )
    if np.count_nonzero(near) < 20:
        raise CalibrationError(
            "the two rooms hardly saw the wand at the same time: is it really the same "
            "one, and both clocks good?"
        )
    t0_ns = a.t_ns[0]
    t_s, known_s = ((t_ns - t0_ns) / NS_PER_S for t_ns in (a.t_ns[near], b.t_ns))
    second = np.stack([np.interp(t_s, known_s, column) for column in b.p_room_m.T], axis=1)
    return a.p_room_m[near], second
