"""The CMU walk through the wires of Motive and of Vicon into the world.

The same human, whoever streams it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from tests.support.common import data_dir
from tests.support.events import Received, receiving
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import MotionFile
from vil_adapters.vicon.config import TrackerEmulatorConfig, ViconConfig
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_adapters.vicon.source import ViconSource
from vil_bridge.bodies.skeleton import canonical_bones, global_to_local, trusted_below
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import (
    ActorKind,
    FloatArray,
    MotionFrame,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
)
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

pytestmark = pytest.mark.wire


RATE_HZ = 120.0
PERIOD_NS = round(NS_PER_S / RATE_HZ)
FRAMES = 40
T_WORLD_ROOM = Transform.of((4.0, -2.0, 0.0), q_from_euler_zyx(0.7, 0.0, 0.0))

Wire = Callable[[MocapMotion, int], tuple[Emulator, Callable[[], PoseSource]]]


def motive(up_axis: str, coordinates: str, version: str = "4.1") -> Wire:
    def wired(motion: MocapMotion, epoch_ns: int) -> tuple[Emulator, Callable[[], PoseSource]]:
        settings = {"up_axis": up_axis, "skeleton_coordinates": coordinates, "version": version}
        config = MotiveEmulatorConfig.model_validate(
            {"command_port": 0, "data_port": 0, "rate_hz": RATE_HZ} | settings
        )
        emulator = MotiveEmulator(config, motion, epoch_ns, Faults())

        def source() -> OptitrackSource:
            wanted = {"command_port": emulator.command_port, "up_axis": up_axis}
            return OptitrackSource("motive", OptitrackConfig.model_validate(wanted))

        return emulator, source

    return wired


def vicon(up_axis: str, *, lightweight: bool) -> Wire:
    def wired(motion: MocapMotion, epoch_ns: int) -> tuple[Emulator, Callable[[], PoseSource]]:
        settings = {"port": 0, "rate_hz": RATE_HZ, "up_axis": up_axis, "clock_drift_ppm": 0.0}
        config = TrackerEmulatorConfig.model_validate(settings)
        emulator = TrackerEmulator(config, motion, epoch_ns, Faults())
        return emulator, lambda: ViconSource(
            "vicon", ViconConfig(port=emulator.port, lightweight=lightweight)
        )

    return wired


GLOBAL = {
    "motive y global": motive("y", "global"),
    "motive z global": motive("z", "global"),
    "motive 3.0 y global": motive("y", "global", "3.0"),
    "vicon z full": vicon("z", lightweight=False),
    "vicon y full": vicon("y", lightweight=False),
}
LOCAL = {
    "motive y local": motive("y", "local"),
    "motive z local": motive("z", "local"),
    "vicon z lightweight": vicon("z", lightweight=True),
    "vicon y lightweight": vicon("y", lightweight=True),
}
WIRES = GLOBAL | LOCAL


@cache
def walk() -> MotionFile:
    path = data_dir("skeleton") / "cmu_12_01_walk.bvh"
    return open_recording(path, subject="Walker", unit_m=0.0254 / 0.45)


@dataclass
class FilmedRows:
    """The walk without what lies between its rows, where joints would be a little nearer to each
    other.

    Attributes:
        hidden: bones that the system does not see now. shown: what was filmed when, after the
            motion's start.
    """

    hidden: set[str] = field(default_factory=set)
    shown: dict[int, SkeletonFrame] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()

    @property
    def skeleton_models(self) -> tuple[SkeletonModel, ...]:
        return walk().skeleton_models

    def at(self, t_ns: int) -> MotionFrame:
        recording = walk()
        row = t_ns // recording.period_ns % len(recording.t_ns)
        seen = recording.at(int(recording.t_ns[row] - recording.t_ns[0]))
        (skeleton,) = seen.skeletons
        tracked = ~np.isin(skeleton.model.bones, list(self.hidden))
        skeleton = SkeletonFrame(skeleton.model, skeleton.p_m, skeleton.q_xyzw, tracked)
        self.shown[t_ns] = skeleton
        return MotionFrame(seen.subjects, seen.p_m, seen.q_xyzw, seen.tracked, (skeleton,))

    def time_of(self, number: int, missed_ticks: int) -> int:
        """When a frame was filmed, after the motion's start.

        Missed ticks are numbered too, even the first ones.
        """
        # The very first picture is taken for the descriptions.
        first_ns, *_, last_ns = list(self.shown)[1:]
        missed_later = round((last_ns - first_ns) / PERIOD_NS) + 2 - len(self.shown)
        return first_ns + (number - 1 - (missed_ticks - missed_later)) * PERIOD_NS


@dataclass
class InWorld:
    """A source's frames as the world has them.

    Attributes:
        humans: the human after each frame, with the number of the frame and the capture time that
            the world found.
        held_up_ns: how late the promptest frame came until then.
    """

    emulator: Emulator
    lab: Received
    world: World
    name: str
    humans: list[tuple[int, int, SkeletonFrame]] = field(default_factory=list)
    held_up_ns: list[int] = field(default_factory=list)
    _promptest_ns: int = NS_PER_S
    _taken: int = 0

    def take(self) -> list[tuple[int, int, SkeletonFrame]]:
        """Ingest what came since the last call."""
        events = self.lab.events[self._taken :]
        self._taken += len(events)
        for event in events:
            self.world.ingest(event)
            newest = self.world.newest_skeleton(self.name)
            if isinstance(event, SourceFrame):
                self._promptest_ns = min(self._promptest_ns, self._held_up_ns(event))
            if newest is not None and isinstance(event, SourceFrame):
                self.held_up_ns.append(self._promptest_ns)
                self.humans.append((event.frame_number, newest[1], newest[0]))
        return self.humans

    def uncertainty_ns(self) -> int:
        """Return the uncertainty of the capture times, as the world states it.

        A busy machine answers late.
        """
        line = self.world.clocks[self.name].line
        assert line is not None
        return line.uncertainty_at(self.lab.frames[-1].t_arrival_ns)

    def _held_up_ns(self, frame: SourceFrame) -> int:
        """Return how late a frame of a server without a clock protocol came, which no source can
        know.
        """
        if frame.t_foreign_ns is None or not isinstance(self.emulator, TrackerEmulator):
            return 0
        return self.emulator.foreign_ns(frame.t_arrival_ns - frame.latency_ns) - frame.t_foreign_ns

    def gapless(self) -> bool:
        """Return True where the human of the last quarter of a second was filmed as often as it
        should be.
        """
        captured_ns = np.array([t_ns for _, t_ns, _ in self.take()[-round(RATE_HZ / 4) :]])
        return (
            len(captured_ns) == round(RATE_HZ / 4) and np.diff(captured_ns).max() < 2.5 * PERIOD_NS
        )

    async def more(self, count: int) -> list[tuple[int, int, SkeletonFrame]]:
        """The human in the next frames."""
        before = len(self.humans)
        await self.lab.until(lambda: len(self.take()) >= before + count)
        return self.humans[before:]


@asynccontextmanager
async def filmed(motion: MocapMotion, *wires: Wire) -> AsyncIterator[list[InWorld]]:
    """Emulators that film the same motion, and their sources, in one world."""
    epoch_ns = now_ns()
    async with AsyncExitStack() as stack:
        running = []
        for wire in wires:
            emulator, source = wire(motion, epoch_ns)
            await stack.enter_async_context(emulator)
            made = source()
            running.append((emulator, made.name, await stack.enter_async_context(receiving(made))))
        names = [name for _, name, _ in running]
        world = World(
            dict.fromkeys(names, T_WORLD_ROOM),
            [Actor(n, ActorKind.HUMAN, n, "Walker") for n in names],
        )
        yield [InWorld(emulator, lab, world, name) for emulator, name, lab in running]


def lengths_m(skeleton: SkeletonFrame) -> FloatArray:
    parents = np.array(skeleton.model.parents)
    child = parents >= 0
    return np.asarray(np.linalg.norm(skeleton.p_m[child] - skeleton.p_m[parents[child]], axis=1))


def turned_rad(a: FloatArray, b: FloatArray) -> FloatArray:
    """Angles between attitudes; exact for small ones, which the arc cosine of a product is not."""
    apart = np.minimum(np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1))
    return np.asarray(4.0 * np.arcsin(np.minimum(0.5 * apart, 1.0)))


@pytest.mark.parametrize("wire", WIRES)
async def test_the_walk_is_the_same_from_every_wire(wire: str) -> None:
    motion = FilmedRows()
    async with filmed(motion, WIRES[wire]) as (room,):
        humans = await room.more(FRAMES)
    (model,) = walk().skeleton_models
    missed_ticks = room.emulator.counters["missed_ticks"]
    errors_m, errors_rad, spread_m, late_ms = [], [], [], []
    for (number, t_ns, human), held_up_ns in zip(
        humans, room.held_up_ns[-len(humans) :], strict=True
    ):
        t_shot_ns = motion.time_of(number, missed_ticks)
        truth = motion.shown[t_shot_ns].moved(T_WORLD_ROOM)
        assert (human.model.name, human.model.bones, human.model.parents) == (
            "Walker",
            model.bones,
            model.parents,
        )
        assert human.tracked.all()
        errors_m.append(np.linalg.norm(human.p_m - truth.p_m, axis=1).max())
        errors_rad.append(turned_rad(human.q_xyzw, truth.q_xyzw).max())
        spread_m.append(lengths_m(human))
        late_ms.append(1e-6 * (t_ns - room.emulator.server.epoch_ns - t_shot_ns - held_up_ns))
    seen_model = humans[-1][2].model
    assert (
        canonical_bones(seen_model) == canonical_bones(model) and len(canonical_bones(model)) == 21
    )
    assert seen_model.offsets_m[1:] == pytest.approx(model.offsets_m[1:], abs=1e-6)
    vary_m = float(np.ptp(spread_m, axis=0).max())
    off_m = float(np.abs(spread_m - np.linalg.norm(model.offsets_m[1:], axis=1)).max())
    part = canonical_bones(seen_model)
    toes_m = [human.p_m[[part["left_toe"], part["right_toe"]], 2].min() for _, _, human in humans]
    print(
        f"{wire}: bones vary by {vary_m:.1e} m, off by {off_m:.1e} m; pose error "
        f"{max(errors_m):.1e} m, "
        f"{max(errors_rad):.1e} rad; lowest toe {min(toes_m):.3f} to {max(toes_m):.3f} m; "
        f"capture time off by {np.median(late_ms):.2f} ms, stated "
        f"{1e-6 * room.uncertainty_ns():.2f} ms"
    )
    assert vary_m < 1e-6 and off_m < 1e-6, "bones of constant length"
    assert max(errors_m) < 1e-6 and max(errors_rad) < 1e-6
    assert min(toes_m) > 0.0 and max(toes_m) < 0.1, "the lower foot is on the floor"
    assert abs(float(np.median(late_ms))) < 2.0 + 1e-6 * room.uncertainty_ns()


async def test_two_systems_show_one_human_at_one_instant() -> None:
    """The world's humans at the same instants between frames, from two wires with clocks of
    their own.
    """
    recording = walk()
    async with filmed(recording, motive("y", "global"), vicon("z", lightweight=True)) as (
        first,
        second,
    ):
        await first.more(FRAMES)
        await first.lab.until(lambda: first.gapless() and second.gapless())
        asked_ns = range(
            min(first.humans[-1][1], second.humans[-1][1]) - NS_PER_S // 5, now_ns(), 3_000_000
        )
        apart_m, error_m = [], []
        newest_ns = min(first.humans[-1][1], second.humans[-1][1])
        for t_ns in (t for t in asked_ns if t <= newest_ns):
            a, b = (state.skeleton for state in first.world.snapshot(t_ns).actors)
            assert a is not None and b is not None
            (truth,) = recording.at(t_ns - first.emulator.server.epoch_ns).skeletons
            apart_m.append(np.linalg.norm(a.p_m - b.p_m, axis=1).mean())
            error_m.append(np.linalg.norm(a.p_m - truth.moved(T_WORLD_ROOM).p_m, axis=1).mean())
    print(
        f"both wires apart {1e3 * np.median(apart_m):.2f} mm, from the truth "
        f"{1e3 * np.median(error_m):.2f} mm"
    )
    assert len(apart_m) > 50
    unsure_ns = (
        first.uncertainty_ns() + second.uncertainty_ns() + second.held_up_ns[-round(RATE_HZ / 4)]
    )
    unsure_m = 1.5 * 1e-9 * unsure_ns
    assert max(np.median(apart_m), np.median(error_m)) < 0.01 + unsure_m, (
        "a few milliseconds of a walk"
    )


@pytest.mark.parametrize(
    "wire", ["motive y global", "motive y local", "vicon z full", "vicon z lightweight"]
)
async def test_unseen_bones_keep_their_pose_relative_to_the_parent(wire: str) -> None:
    motion = FilmedRows()
    lost = {"LeftForeArm", "RightUpLeg"}
    async with filmed(motion, WIRES[wire]) as (room,):
        await room.more(10)
        motion.hidden |= lost
        await room.lab.until(lambda: not room.take()[-1][2].tracked.all())
        await room.more(15)
        hidden = room.humans[:]
        motion.hidden.clear()
        await room.lab.until(lambda: room.take()[-1][2].tracked.all())
    model = hidden[-1][2].model
    parents = model.parents
    seen = ~np.isin(model.bones, list(lost))
    if wire in LOCAL:
        seen = trusted_below(seen, parents)
    before = [human for _, _, human in hidden if human.tracked.all()][-1]
    p_before_m, q_before = global_to_local(before.p_m, before.q_xyzw, parents)
    missed_ticks = room.emulator.counters["missed_ticks"]
    partial = [(number, human) for number, _, human in hidden if not human.tracked.all()]
    assert len(partial) > 10
    for number, human in partial:
        truth = motion.shown[motion.time_of(number, missed_ticks)].moved(T_WORLD_ROOM)
        assert human.tracked.tolist() == seen.tolist()
        assert human.p_m[seen] == pytest.approx(truth.p_m[seen], abs=1e-6)
        p_m, q_xyzw = global_to_local(human.p_m, human.q_xyzw, parents)
        assert p_m[~seen] == pytest.approx(p_before_m[~seen], abs=1e-6)
        assert turned_rad(q_xyzw[~seen], q_before[~seen]).max() < 1e-6
    roots = [human.p_m[0] for _, human in partial]
    assert all((a != b).any() for a, b in pairwise(roots)), "and the human walks on"
