"""A human and a box known by their markers alone.

A real capture through the wires of Motive and of Vicon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support.bridge_rig import build, running
from tests.support.common import data_dir
from tests.support.events import receiving, until
from vil_adapters.emulation.emulator import Emulator
from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import MotionFile
from vil_adapters.vicon.config import TrackerEmulatorConfig, ViconConfig
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_adapters.vicon.source import ViconSource
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    Markers,
    MotionFrame,
    SkeletonModel,
    SourceFrame,
    TrackingState,
)
from vil_bridge.daemon.marker_bodies import MarkerBodies
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion, PoseSource
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

pytestmark = pytest.mark.wire


pytest.importorskip("c3d", reason="the package is not installed (extra c3d)")

RATE_HZ = 100.0
FRAMES = 120
SUBJECTS = ("Daphnee", "boite")
HIDDEN = [f"Daphnee/{name}" for name in ("EPICl", "EPICm", "ARMp_do", "LARMm", "STYLr")]
TEMPLATE = """
Daphnee:
  pelvis: {markers: [ASISr, ASISl, PSISr, PSISl]}
  thorax: {markers: [STERr, STERl, STER, XIPH, T1, T10], parent: pelvis}
  clavicle: {markers: [CLAV_SC, CLAVm, CLAV_ant, CLAV_post, CLAVl, CLAV_AC], parent: thorax}
  upper_arm: {markers: [DELT, ARMl, ARMm, ARMp_up, ARMp_do, EPICl, EPICm], parent: clavicle}
  lower_arm:
    markers: [LARMm, LARMl, LARM_elb, LARM_ant, STYLr, STYLr_up, STYLu, WRIST]
    parent: upper_arm
    origin: [EPICl, EPICm]
  hand: {markers: [INDEX, LASTC, MEDH, LATH], parent: lower_arm}
boite:
  boite: {markers: [%s]}
"""


@cache
def capture() -> MotionFile:
    return open_recording(data_dir("markers") / "markers_analogs.c3d")


def template_file(folder: Path) -> Path:
    box = ", ".join(label for label in real(0).labels if label.startswith("boite/"))
    path = folder / "template.yaml"
    path.write_text(TEMPLATE % box)
    return path


def real(t_ns: int) -> Markers:
    seen = capture().at(t_ns).markers
    assert seen is not None
    return seen


@dataclass
class MarkersOnly:
    """The capture as a system shows it that knows the marker sets and solves no body.

    None is ever tracked.

    Some markers are occluded for half of each second, beside the real occlusions. The motion goes
    on by a period of the film with each frame, so that it misses nothing while the machine stands
    still.

    Attributes:
        shown: the markers of each instant that was filmed, after the motion's start.
    """

    shown: dict[int, Markers] = field(default_factory=dict)
    subjects: tuple[str, ...] = SUBJECTS
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, _t_ns: int) -> MotionFrame:
        t_ns = len(self.shown) * round(NS_PER_S / RATE_HZ)
        seen = real(t_ns)
        if t_ns % NS_PER_S > NS_PER_S // 2:
            seen = replace(seen, tracked=seen.tracked & ~np.isin(seen.labels, HIDDEN))
        self.shown[t_ns] = seen
        nowhere = (
            np.zeros((2, 3)),
            np.tile((0.0, 0.0, 0.0, 1.0), (2, 1)),
            np.zeros(2, dtype=np.bool_),
        )
        return MotionFrame(self.subjects, *nowhere, markers=seen)

    def instant_of(self, markers: Markers) -> int:
        """The instant at which these streamed markers were filmed.

        Nobody stands still to a micrometre.
        """
        column = {label: i for i, label in enumerate(markers.labels)}
        columns = [column[label] for label in real(0).labels]
        p_m, tracked = markers.p_m[columns], markers.tracked[columns]
        for t_ns, shown in self.shown.items():
            if (
                np.array_equal(shown.tracked, tracked)
                and np.abs(shown.p_m - p_m)[tracked].max() < 1e-6
            ):
                return t_ns
        raise AssertionError("markers that nobody filmed")


def filming(system: str, motion: MocapMotion) -> tuple[Emulator, Callable[[], PoseSource]]:
    """Motive with bodies of these names or, from NatNet 4.1 on, with trained marker sets.

    Or Tracker.
    """
    if system == "vicon":
        tracker = TrackerEmulator(
            TrackerEmulatorConfig(port=0, rate_hz=RATE_HZ), motion, now_ns(), Faults()
        )
        return tracker, lambda: ViconSource(
            "lab", ViconConfig(port=tracker.port, markers="labeled")
        )
    trained = (
        {"version": "4.1", "assets": SUBJECTS} if system == "trained sets" else {"version": "3.0"}
    )
    config = MotiveEmulatorConfig.model_validate(
        {"command_port": 0, "data_port": 0, "rate_hz": RATE_HZ} | trained
    )
    emulator = MotiveEmulator(config, motion, now_ns(), Faults())
    return emulator, lambda: OptitrackSource(
        "lab", OptitrackConfig(command_port=emulator.command_port, markers="labeled")
    )


def known_directly(subjects: MarkerBodies, frame: SourceFrame, markers: Markers) -> SourceFrame:
    """What the template makes of the recording's own markers in place of the streamed ones."""
    return subjects.frame(replace(frame, markers=markers))


@pytest.mark.parametrize("system", ["motive 3.0", "trained sets", "vicon"])
async def test_a_human_is_followed_through_occlusions_as_from_the_recording(
    system: str, tmp_path: Path
) -> None:
    path, status, motion = template_file(tmp_path), Status("lab"), MarkersOnly()
    emulator, source = filming(system, motion)
    wired = MarkerBodies(path, status)
    direct, whole = (MarkerBodies(path, Status("lab")) for _ in range(2))
    actors = [
        Actor("human", ActorKind.HUMAN, "lab", "Daphnee"),
        Actor("box", ActorKind.PROP, "lab", "boite"),
    ]
    world = World({"lab": Transform.identity()}, actors)
    async with emulator, receiving(source()) as lab:
        frames = await lab.more_frames(FRAMES)
    wire_mm, hidden_mm, known = [], [], []
    for frame in frames:
        assert frame.markers is not None
        t_ns = motion.instant_of(frame.markers)
        found = wired.frame(frame)
        world.ingest(found)
        expected = known_directly(direct, frame, motion.shown[t_ns])
        unhidden = known_directly(whole, frame, real(t_ns))
        assert found.subjects == expected.subjects == ("boite",), (
            "the source's own untracked ones gave way"
        )
        (human,), (same,), (better,) = found.skeletons, expected.skeletons, unhidden.skeletons
        assert (
            human.tracked.tolist() == same.tracked.tolist()
            and found.tracked.tolist() == expected.tracked.tolist()
        )
        wire_mm.append(
            1e3 * np.abs(np.vstack((human.p_m - same.p_m, found.p_m - expected.p_m))).max()
        )
        if not np.array_equal(motion.shown[t_ns].tracked, real(t_ns).tracked):
            hidden_mm.append(1e3 * np.linalg.norm(human.p_m - better.p_m, axis=1))
        known.append(human.tracked)
        seen = world.newest_skeleton("human")
        assert (
            seen is not None
            and np.abs(seen[0].p_m[human.tracked] - human.p_m[human.tracked]).max() < 1e-12
        )
    counters = status.counters
    print(
        f"{system}: from the recording {max(wire_mm):.1e} mm; {counters['markers_occluded']} of "
        f"{counters['markers_followed'] + counters['markers_occluded']} markers hidden: "
        "joints then off by "
        f"{np.median(hidden_mm):.2f} mm (median), {np.percentile(hidden_mm, 95):.1f} mm (95 %)"
    )
    assert counters["markers_occluded"] > 100
    assert counters["markers_followed"] + counters["markers_occluded"] == 43 * len(frames)
    assert max(wire_mm) < 0.01
    assert np.mean(known) > 0.99
    assert (
        len(hidden_mm) > 20 and np.median(hidden_mm) < 5.0 and np.percentile(hidden_mm, 95) < 25.0
    )


CONFIG = """
version: 1
rooms: {gym: {}}
sources:
  gym: {type: motion-file, room: gym, path: %s, marker_template: %s,
      faults: "occlude=boite:60s@0.5s"}
actors:
  human: {kind: human, source: gym, subject: Daphnee}
  box: {kind: prop, source: gym, subject: boite}
http: {port: 0}
stream: {bind: "tcp://127.0.0.1:0"}
realtime: {fifo_priority: 0}
"""


async def test_a_bridge_makes_a_human_of_markers_and_injects_faults_into_them(
    tmp_path: Path,
) -> None:
    async with running(
        CONFIG % (data_dir("markers") / "markers_analogs.c3d", template_file(tmp_path))
    ) as bridge:
        line = bridge.context.sources["gym"]
        await until(lambda: bridge.context.world.state_of("human") is TrackingState.TRACKED)
        only_the_box_lost = (TrackingState.TRACKED, TrackingState.LOST)
        await until(
            lambda: tuple(map(bridge.context.world.state_of, ("human", "box"))) == only_the_box_lost
        )
        human, _ = bridge.context.world.snapshot(now_ns()).actors
        assert human.skeleton is not None and human.skeleton.model.bones[0] == "pelvis"
        assert bridge.context.world.newest("box") is not None, "it was there before"
        assert line.status.facts["template"] == [
            "Daphnee: followed by 35 markers",
            "boite: followed by 8 markers",
        ]
        assert line.status.counters["markers_followed"] and line.status.counters["markers_occluded"]


def test_a_bridge_with_a_bad_template_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        build(CONFIG % (data_dir("markers") / "markers_analogs.c3d", tmp_path / "absent.yaml"))
