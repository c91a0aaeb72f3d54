"""Recordings played as a source, and films of them by an emulator."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.bridge_rig import build, running
from tests.support.common import data_dir
from tests.support.events import receiving, until
from tests.support.flightgoggles import ports, server
from vil_adapters.recording.config import RecordingConfig
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import MotionFile
from vil_adapters.recording.source import RecordingSource
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import (
    MotionFrame,
    RenderedImage,
    SourceFrame,
    SourceReset,
    View,
    WorldSnapshot,
)
from vil_bridge.registry import create
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import RenderedRequest

TUM = "".join(
    f"{100.0 + 0.01 * i:.3f} {0.01 * i:.4f} 0 1 0 0 0 1\n" for i in range(40) if not 10 <= i < 20
)


def recorded(
    folder: Path, text: str = TUM, name: str = "flight.txt", **config: Any
) -> RecordingSource:
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

        def turns() -> list[tuple[SourceFrame, SourceFrame]]:
            """The frames before and after each reset."""
            found = []
            for before, reset, after in zip(
                lab.events, lab.events[1:], lab.events[2:], strict=False
            ):
                if isinstance(reset, SourceReset):
                    assert isinstance(before, SourceFrame) and isinstance(after, SourceFrame)
                    found.append((before, after))
            return found

        # A busy machine may play the last row only.
        await lab.until(
            lambda: len(lab.resets) >= 2 and any(after.frame_number < 40 for _, after in turns())
        )
    assert all(reset.clock and "begins again" in reset.reason for reset in lab.resets)
    for before, after in turns():
        assert before.frame_number == 40 and before.t_foreign_ns == 100_000_000_000 + 39 * 2_500_000
        assert after.t_foreign_ns == 100_000_000_000 + (after.frame_number - 1) * 2_500_000
    steps = [b - a for a, b in pairwise(stamps(lab.frames[:10]))]
    assert all(step % 2_500_000 == 0 for step in steps), "stamps pass as fast as it is played"


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


@pytest.mark.wire
async def test_the_cmu_walk_through_the_wire_of_qtm() -> None:
    """A recording drives an emulator.

    What the source makes of it has the same bones, of constant length.
    """
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

    def __init__(self, recording: MotionFile) -> None:
        self._recording = recording
        self.subjects = recording.subjects
        self.skeleton_models = recording.skeleton_models

    def at(self, t_ns: int) -> MotionFrame:
        row = t_ns // self._recording.period_ns % len(self._recording.t_ns)
        return self._recording.at(int(self._recording.t_ns[row] - self._recording.t_ns[0]))


async def test_a_recording_can_wait_for_the_first_picture(tmp_path: Path) -> None:
    async with receiving(recorded(tmp_path, start="first_picture", loop=False)) as lab:
        await lab.more_frames(4)
        assert (
            lab.status.state is ComponentState.WAITING
            and "first picture" in lab.status.report().reason
        )
        assert not lab.resets
        standing = list(lab.frames)
        await asyncio.to_thread(lab.context.first_picture.release)
        await lab.until(lambda: "has ended" in lab.status.report().reason)
    assert all(frame.p_m[0, 0] == 0.0 and frame.tracked[0] for frame in standing), "its first row"
    assert all(b > a for a, b in pairwise(stamps(standing)))
    (reset,) = lab.resets
    assert "the recording begins" in reset.reason
    played = [e for e in lab.events[lab.events.index(reset) :] if isinstance(e, SourceFrame)]
    assert len(played) + lab.status.counters["superseded"] == 40, "nothing of it is missed"
    assert all(
        frame.t_foreign_ns == 100_000_000_000 + (frame.frame_number - 1) * 10_000_000
        for frame in played
    )


CONFIG = """
version: 1
rooms: {{room: {{}}}}
sources: {{track: {{type: motion-file, path: "{path}", subject: drone, room: room,
    start: first_picture}}}}
actors: {{drone: {{kind: vehicle, source: track, subject: drone}}}}
renderers: {{drawn: {{type: flightgoggles, pose_port: 0, image_port: 0}}}}
cameras: {{front: {{actor: drone, renderer: drawn, width_px: 32, height_px: 24, rate_hz: 50}}}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
"""


@pytest.mark.wire
async def test_a_bridge_plays_when_its_renderer_draws(tmp_path: Path) -> None:
    """The only camera flies on the recorded body, which stands until the renderer comes."""
    (tmp_path / "flight.txt").write_text(TUM)
    bridge = build(CONFIG.format(path=tmp_path / "flight.txt"))
    drawn: list[View] = []

    def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        drawn.extend(views)
        return RenderedRequest(
            tuple(RenderedImage(v, np.full((24, 32, 3), len(drawn) % 256, np.uint8)) for v in views)
        )

    (client,) = bridge.context.pool.renderers.values()
    assert isinstance(client, FlightGogglesClient)
    async with running(bridge):
        status = bridge.context.sources["track"].status
        await until(lambda: bridge.context.world.newest("drone") is not None)
        assert status.state is ComponentState.WAITING and "position_s" not in status.facts
        with server(ports(client), draw):
            await until(lambda: "position_s" in status.facts)
    assert drawn[0].T_world_camera.p_m[0] == pytest.approx(0.0, abs=1e-9), (
        "drawn where the recording begins"
    )
