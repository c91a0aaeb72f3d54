"""Recordings played as a source, and films of them by an emulator."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.receiving import receiving
from tests.support import data_dir
from vil_adapters.recording.config import RecordingConfig
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.source import RecordingSource
from vil_adapters.recording.take import Recording
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.supervisor import ComponentState
from vil_bridge.core.types import MotionFrame, SourceFrame
from vil_bridge.registry import create

TUM = "".join(f"{100.0 + 0.01 * i:.3f} {0.01 * i:.4f} 0 1 0 0 0 1\n" for i in range(40) if not 10 <= i < 20)


def recorded(folder: Path, text: str = TUM, name: str = "flight.txt", **config: Any) -> RecordingSource:
    path = folder / name
    path.write_text(text)
    source = create("sources", "lab", RecordingConfig(path=path, **config))
    assert isinstance(source, RecordingSource)
    return source


def stamps(frames: list[SourceFrame]) -> list[int]:
    return [frame.t_foreign_ns or 0 for frame in frames]


async def test_a_recording_is_played_in_its_own_clock(tmp_path: Path) -> None:
    async with receiving(recorded(tmp_path, subject="cf7", loop=False)) as lab:
        await lab.until(lambda: lab.status.state is ComponentState.WAITING)
        reason = lab.status.report().reason
    assert "has ended" in reason and not lab.resets
    frames = lab.frames
    assert len(frames) + lab.status.counters["superseded"] == 40
    numbers = [frame.frame_number for frame in frames]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 40
    for frame in frames:
        row = frame.frame_number - 1
        assert frame.subjects == ("cf7",)
        assert frame.t_foreign_ns == 100_000_000_000 + row * 10_000_000
        assert frame.tracked.tolist() == [not 10 <= row < 20], "a gap stays a gap"
        assert frame.p_m[0, 0] == pytest.approx(0.01 * (9 if 10 <= row < 20 else row))
    elapsed_ns = frames[-1].t_arrival_ns - frames[0].t_arrival_ns
    assert elapsed_ns > 0.5 * (stamps(frames)[-1] - stamps(frames)[0]), "at its own pace"


async def test_a_loop_resets_histories_and_stamps(tmp_path: Path) -> None:
    async with receiving(recorded(tmp_path, speed=4.0)) as lab:
        await lab.until(lambda: len(lab.resets) >= 2)
    assert all(reset.clock and "begins again" in reset.reason for reset in lab.resets)
    first = lab.events.index(lab.resets[0])
    before, after = lab.events[first - 1], lab.events[first + 1]
    assert isinstance(before, SourceFrame) and isinstance(after, SourceFrame)
    assert before.frame_number == 40 and after.t_foreign_ns == 100_000_000_000
    steps = [b - a for a, b in pairwise(stamps(lab.frames[:10]))]
    assert all(step % 2_500_000 == 0 for step in steps), "stamps pass as fast as it is played"
    assert stamps([before]) == [100_000_000_000 + 39 * 2_500_000]


async def test_facts_tell_what_is_played(tmp_path: Path) -> None:
    async with receiving(recorded(tmp_path)) as lab:
        await lab.more_frames(2)
    facts = lab.status.report().facts
    assert (facts["format"], facts["subjects"], facts["rate_hz"]) == ("tum", ["flight"], 100.0)
    assert facts["duration_s"] == pytest.approx(0.39) and facts["recording"].endswith("flight.txt")


def test_a_bad_recording_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"flight\.txt:3: .*'x'"):
        recorded(tmp_path, TUM.replace("100.020", "x"))
    with pytest.raises(ConfigError, match="no such recording"):
        create("sources", "lab", RecordingConfig(path=tmp_path / "absent.bvh"))


async def test_the_cmu_walk_through_the_wire_of_qtm() -> None:
    """A recording drives an emulator; what the source makes of it has the same bones, of constant length."""
    pytest.importorskip("qtm_rt", reason="the vendor's client is not installed (extra qualisys)")
    from vil_adapters.qualisys.config import QtmEmulatorConfig, QualisysConfig
    from vil_adapters.qualisys.emulator import QtmEmulator
    from vil_adapters.qualisys.source import QualisysSource

    path = data_dir("skeleton") / "cmu_12_01_walk.bvh"
    walk = open_recording(path, subject="Walker", unit_m=0.0254 / 0.45)
    # Between rows joints are interpolated, hence bones a little shorter: film the rows themselves.
    settings = QtmEmulatorConfig(port=0, discovery_port=0, rate_hz=120.0)
    async with AsyncExitStack() as stack:
        qtm = await stack.enter_async_context(QtmEmulator(settings, Rows(walk), now_ns()))
        source = QualisysSource("lab", QualisysConfig(port=qtm.port))
        frames = await (await stack.enter_async_context(receiving(source))).more_frames(60)
    (model,) = walk.skeleton_models
    parents = np.array(model.parents)
    child = parents >= 0
    for frame in frames:
        (seen,) = frame.skeletons
        assert (seen.model.bones, seen.model.parents) == (model.bones, model.parents)
        lengths_m = np.linalg.norm(seen.p_m[child] - seen.p_m[parents[child]], axis=1)
        assert lengths_m == pytest.approx(np.linalg.norm(model.offsets_m[child], axis=1), abs=1e-6)
        assert 0.0 < seen.p_m[:, 2].min() < 0.1, "on the floor"


class Rows:
    """A recording without what lies between its rows."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.subjects = recording.subjects
        self.skeleton_models = recording.skeleton_models

    def at(self, t_ns: int) -> MotionFrame:
        row = t_ns // self._recording.period_ns % len(self._recording.t_ns)
        return self._recording.at(int(self._recording.t_ns[row] - self._recording.t_ns[0]))


# --- templates -------------------------------------------------------------------------------------

HEADER = "Trajectories,,\n100,,\n,,{labels}\nFrame,Sub Frame,{axes}\n,,{units}\n"
RIGID = np.array([[0.0, 0.0, 0.0], [300.0, 0.0, 0.0], [100.0, 80.0, 0.0], [120.0, 0.0, 90.0]])
TEMPLATE = """
anna:
  upper: {markers: [A1, A2, A3, A4]}
  lower: {markers: [B1, B2, B3, B4], parent: upper, origin: [A2, B1]}
box:
  box: {markers: [box/C1, C2, C3, C4]}
"""


def marker_csv() -> str:
    """Two segments of anna and a box, moving by 1 mm per frame; B4 is hidden in some frames."""
    labels = ["anna:A1", "anna:A2", "anna:A3", "anna:A4", "anna:B1", "anna:B2", "anna:B3", "anna:B4"]
    labels += ["box:C1", "box:C2", "box:C3", "box:C4"]
    base = np.vstack((RIGID, np.add(RIGID, (400.0, 0.0, 0.0)), np.add(RIGID, (0.0, 2000.0, 0.0))))
    text = HEADER.format(
        labels=",,,".join(labels) + ",,", axes=",".join("XYZ" * len(labels)), units=",".join(["mm"] * 3 * len(labels))
    )
    for row in range(20):
        cells = [f"{x:.3f}" for x in np.add(base, (row, 0.0, 0.0)).ravel()]
        if 5 <= row < 12:
            cells[21:24] = ["", "", ""]
        text += f"{row + 1},0,{','.join(cells)}\n"
    return text


async def test_markers_become_a_human_and_a_body_by_a_template(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(TEMPLATE)
    async with receiving(recorded(tmp_path, marker_csv(), "take.csv", template=template)) as lab:
        await lab.until(lambda: lab.resets)
    frame = lab.frames[-1]
    assert frame.subjects == ("box",) and [s.model.name for s in frame.skeletons] == ["anna"]
    (anna,) = frame.skeletons
    assert (anna.model.bones, anna.model.parents) == (("upper", "lower"), (-1, 0))
    for frame in lab.frames:
        assert frame.tracked.all() and frame.skeletons[0].tracked.all()
        shift_m = 1e-3 * (frame.frame_number - 1)
        middle_m = RIGID.mean(axis=0) * 1e-3
        assert frame.p_m[0] == pytest.approx(np.add(middle_m, (shift_m, 2.0, 0.0)), abs=1e-6)
        assert frame.skeletons[0].p_m[1] == pytest.approx([0.35 + shift_m, 0.0, 0.0], abs=1e-6), "the joint"
        assert frame.markers is not None and len(frame.markers.labels) == 12


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TEMPLATE.replace("A3", "A9"), "no markers anna/A9; there are anna/A1"),
        (TEMPLATE.replace("parent: upper", "parent: uper"), "no segment is named 'uper'"),
        (TEMPLATE.replace("[B1, B2, B3, B4]", "[B1]"), r"anna\.lower\.markers"),
        (TEMPLATE.replace("markers: [A1", "marker: [A1"), r"anna\.upper\.marker"),
        ("anna: [", "template.yaml:1"),
    ],
)
def test_a_bad_template_is_told(tmp_path: Path, text: str, told: str) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(text)
    with pytest.raises(ConfigError, match=told):
        recorded(tmp_path, marker_csv(), "take.csv", template=template)


def test_a_template_needs_markers(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(TEMPLATE)
    with pytest.raises(ConfigError, match="holds no markers"):
        recorded(tmp_path, template=template)
