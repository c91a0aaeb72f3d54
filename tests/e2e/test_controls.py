"""A running bridge is changed: mounts, obstacles, faults, and its configuration read again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from tests.support.bridge_rig import drawn_bridge
from tests.support.common import PATIENCE_S
from tests.support.events import until
from vil_bridge import registry
from vil_bridge.client import Receiver
from vil_bridge.config.base import OutputConfigBase
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import LampState, Lighting, RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.runtime.supervisor import Status
from vil_bridge.web.schemas.controls import MountView, PropView
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


_CONFIG = """
version: 1
rooms: {hall: {}}
sources: {lab: {type: vrpn, room: hall, server: 127.0.0.1, port: 9, subjects: [drone]}}
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras:
  front: {renderer: drawn, width_px: 32, height_px: 24, rate_hz: 50, stereo_baseline_m: 0.5,
      latency_compensation: none}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
QUARTER = (0.0, 0.0, float(np.sqrt(0.5)), float(np.sqrt(0.5)))


class Seen:
    """What the renderer was last told."""

    views: dict[str, View]
    snapshot: WorldSnapshot

    def draw(self, views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        self.views, self.snapshot = {view.camera.name: view for view in views}, snapshot
        return RenderedRequest(
            tuple(RenderedImage(v, np.full((24, 32, 3), 90, np.uint8)) for v in views)
        )

    def place(self, camera: str) -> list[float]:
        return [round(v, 6) for v in self.views[camera].T_world_camera.p_m.tolist()]

    def props(self) -> dict[str, tuple[list[float], tuple[float, ...]]]:
        return {
            a.name: (a.T_world_body.p_m.round(6).tolist(), a.size_m) for a in self.snapshot.actors
        }


@asynccontextmanager
async def changed_bridge(folder: Path) -> AsyncIterator[tuple[Bridge, Seen, Path]]:
    path, seen = folder / "bridge.yaml", Seen()
    path.write_text(_CONFIG)
    async with drawn_bridge(path, seen.draw) as bridge:
        await until(lambda: hasattr(seen, "views"))
        yield bridge, seen, path


async def test_a_camera_moves_and_its_pair_with_it(tmp_path: Path) -> None:
    async with changed_bridge(tmp_path) as (bridge, seen, _):
        controls = bridge.controls
        await asyncio.to_thread(controls.set_mount, "front", MountView((1.0, 2.0, 3.0), QUARTER))
        await until(lambda: seen.place("front") == [1.0, 2.0, 3.0])
        # Turned to the left, its right side is ahead: +x of the world.
        await until(lambda: seen.place("front_right") == [1.5, 2.0, 3.0])
        np.testing.assert_allclose(controls.mount("front").q_xyzw, QUARTER, atol=1e-12)
        assert controls.effective()["cameras"]["front"]["T_body_camera"][
            "ypr_deg"
        ] == pytest.approx([90.0, 0.0, 0.0])
        with pytest.raises(ValueError, match="moves with it: move front"):
            controls.set_mount("front_right", MountView((0.0, 0.0, 0.0), UPRIGHT))
        with pytest.raises(ValueError, match="quaternion of length 1"):
            controls.set_mount("front", MountView((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)))
        with pytest.raises(KeyError):
            controls.set_mount("back", MountView((0.0, 0.0, 0.0), UPRIGHT))

        def read() -> Any:
            """Return the camera that the reader has, once a picture says the same.

            Older ones are on their way.
            """
            with Receiver(
                bridge.context.hub.endpoint, camera="front", encoding="raw", variant="raw"
            ) as receiver:
                return next(
                    t
                    for f in receiver
                    if (t := receiver.camera_info["T_body_camera"]) == f.metadata["T_body_camera"]
                )

        told = await asyncio.to_thread(read)
        assert told == {"p_m": [1.0, 2.0, 3.0], "ypr_deg": pytest.approx([90.0, 0.0, 0.0])}


async def test_obstacles_stand_where_they_are_put(tmp_path: Path) -> None:
    async with changed_bridge(tmp_path) as (bridge, seen, _):
        controls = bridge.controls
        controls.set_prop("pillar", PropView((1.0, 0.0, 0.5), UPRIGHT, (0.2, 0.3, 1.0)))
        await until(lambda: seen.props() == {"pillar": ([1.0, 0.0, 0.5], (0.2, 0.3, 1.0))})
        controls.set_prop("pillar", PropView((2.0, 0.0, 0.5), QUARTER, (0.2, 0.3, 1.0)))
        await until(lambda: seen.props()["pillar"][0] == [2.0, 0.0, 0.5])
        longer = controls.set_prop(
            "pillar", PropView((2.0, 0.0, 0.5), (0.0, 0.0, 1.0, 1.0), (0.2, 0.3, 1.0))
        )
        assert longer.q_xyzw == pytest.approx((0.0, 0.0, 0.5**0.5, 0.5**0.5))
        assert controls.props() == {"pillar": longer}, "pages show it as renderers do"
        assert bridge.snapshot().actors == {}, "nobody tracks it"
        controls.remove_prop("pillar")
        await until(lambda: not seen.props())
        with pytest.raises(KeyError):
            controls.remove_prop("pillar")
        with pytest.raises(ValueError, match="every side"):
            controls.set_prop("flat", PropView((0.0, 0.0, 0.0), UPRIGHT, (1.0, 0.0, 1.0)))
        for n in range(64):
            controls.set_prop(f"p{n}", PropView((0.0, 0.0, 0.0), UPRIGHT, (1.0, 1.0, 1.0)))
        with pytest.raises(ValueError, match="64 obstacles already"):
            controls.set_prop("one_more", PropView((0.0, 0.0, 0.0), UPRIGHT, (1.0, 1.0, 1.0)))


async def test_the_configuration_is_read_again(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    async with changed_bridge(tmp_path) as (bridge, seen, path):
        reload = bridge.controls.reload
        assert (await asyncio.to_thread(reload)).applied == ()
        text = path.read_text()
        bag = (
            f"outputs: {{bag: {{type: ros-bag, cameras: [front], images: [raw], path: "
            f"{tmp_path / 'run'}}}}}\n"
        )
        changed = text.replace(
            "rate_hz: 50,", "rate_hz: 25, T_body_camera: {p_m: [0, 0, 4]}, max_age_ms: 90,"
        )
        path.write_text(changed + bag + "lighting: {time_of_day_h: 19.5}\n")
        told = await asyncio.to_thread(reload)
        assert set(told.applied) == {
            "cameras.front.T_body_camera",
            "cameras.front.max_age_ms",
            "outputs.bag",
            "lighting.time_of_day_h",
        }
        assert told.needs_restart == ("cameras.front.rate_hz",)
        await until(
            lambda: seen.place("front") == [0.0, 0.0, 4.0] and seen.snapshot.lighting is not None
        )
        assert seen.snapshot.lighting is not None
        assert seen.snapshot.lighting.time_of_day_h == pytest.approx(19.5)
        assert bridge.context.cameras["front"].sink.max_age_ns == 90_000_000
        bag_output = bridge.context.outputs.outputs["bag"][0]
        await until(lambda: bag_output.status.counters["sent"] > 3)
        assert bridge.controls.effective()["cameras"]["front"]["rate_hz"] == 50, "what is in force"

        path.write_text(path.read_text().replace("19.5", "20.5"))
        assert (await asyncio.to_thread(reload)).applied == ("lighting.time_of_day_h",)
        assert bridge.context.outputs.outputs["bag"][0] is bag_output, (
            "what stays the same is not touched"
        )

        other = (
            f"{{type: ros-bag, cameras: [front], images: [raw], variant: compensated, path: "
            f"{tmp_path / 'other'}}}"
        )
        path.write_text(changed + bag.replace("}}", f"}}, other: {other}}}"))
        with pytest.raises(
            ConfigError, match="camera front has no compensated rgb or gray pictures"
        ):
            await asyncio.to_thread(reload)
        assert bridge.context.outputs.outputs["bag"][0] is bag_output, "the rest goes on"

        path.write_text(changed)
        assert set((await asyncio.to_thread(reload)).applied) == {
            "outputs.bag",
            "lighting.time_of_day_h",
        }
        assert bridge.context.outputs.outputs == {}
        assert (tmp_path / "run" / "run.mcap").stat().st_size > 0, "closed when it went"
        await until(lambda: seen.snapshot.lighting is None)

        path.write_text(changed.replace("rate_hz: 25", "rate_hz: fast"))
        with pytest.raises(ConfigError, match="rate_hz"):
            await asyncio.to_thread(reload)
        path.write_text(changed + bag.replace("[front]", "[back]") + "  \n")
        with pytest.raises(ConfigError, match="back"):
            await asyncio.to_thread(reload)
        new_camera = "  back: {renderer: drawn, width_px: 32, height_px: 24}\nstream:"
        path.write_text(changed.replace("stream:", new_camera) + bag.replace("[front]", "[back]"))
        with pytest.raises(ValueError, match="before a restart"):
            await asyncio.to_thread(reload)
        assert seen.place("front") == [0.0, 0.0, 4.0]


async def test_faults_of_a_source_change(tmp_path: Path) -> None:
    async with changed_bridge(tmp_path) as (bridge, _, path):
        controls = bridge.controls
        await asyncio.to_thread(controls.set_faults, "lab", "loss=100%")
        assert controls.faults("lab") == "loss=100%"
        injector = bridge.context.sources["lab"].fault_injector
        assert injector is not None
        assert injector.text == "loss=100%"
        assert controls.effective()["sources"]["lab"]["faults"] == "loss=100%"
        for wrong in ("loss=lots", "restart=1s"):
            with pytest.raises(ConfigError):
                controls.set_faults("lab", wrong)
        path.write_text(path.read_text().replace("room: hall,", "room: hall, faults: 'loss=1%',"))
        await asyncio.to_thread(controls.reload)
        assert injector.text == "loss=1%"


async def test_what_was_changed_by_hand_is_in_force_until_the_file_is_read_again(
    tmp_path: Path,
) -> None:
    async with changed_bridge(tmp_path) as (bridge, _, _):
        controls = bridge.controls
        lit = Lighting(6.5, {"desk": LampState(0.5, (1.0, 0.5, 0.25))})
        bridge.context.world.lighting = lit
        await asyncio.to_thread(controls.set_faults, "lab", "loss=100%")
        await asyncio.to_thread(controls.set_mount, "front", MountView((1.0, 0.0, 0.0), UPRIGHT))
        assert bridge.context.world.lighting == lit, "nobody asked for another light"
        lamps = {"desk": {"power": 0.5, "colour": [1.0, 0.5, 0.25]}}
        assert controls.effective()["lighting"] == {
            "time_of_day_h": 6.5,
            "lamps": lamps,
            "weather": None,
        }
        told = await asyncio.to_thread(controls.reload)
        assert set(told.applied) == {
            "sources.lab.faults",
            "cameras.front.T_body_camera",
            "lighting.time_of_day_h",
            "lighting.lamps.desk",
        }
        assert (
            controls.faults("lab") == ""
            and bridge.snapshot().sources["lab"].report.facts.get("injected") is None
        )
        assert controls.effective()["lighting"] == {
            "time_of_day_h": None,
            "lamps": {},
            "weather": None,
        }
        assert (await asyncio.to_thread(controls.reload)).applied == ()


class ToldConfig(OutputConfigBase):
    type: Literal["told"] = "told"
    cameras: tuple[str, ...] = ("front",)
    slow: bool = False
    fails: bool = False


class ToldOutput:
    """A third party's output: notes where its camera sits, and may take its time."""

    places: ClassVar[list[list[float]]] = []
    made, go_on = threading.Event(), threading.Event()

    def __init__(self, name: str, config: ToldConfig) -> None:
        self.status = Status(name)
        self.made.set()
        assert not config.slow or self.go_on.wait(
            2 * PATIENCE_S
        )  # longer than what a test waits for while this one does
        if config.fails:
            raise OSError(98, "the port is taken")

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        self.places.append(camera.T_body_camera.p_m.tolist())
        return None

    async def run(self, world: WorldView) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        pass


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> type[ToldOutput]:
    here = f"{__name__}:"
    monkeypatch.setitem(
        registry.BUILT_IN["outputs"],
        "told",
        registry.Plugin(f"{here}ToldConfig", f"{here}ToldOutput"),
    )
    ToldOutput.places.clear()
    ToldOutput.made.clear()
    ToldOutput.go_on.clear()
    return ToldOutput


async def test_an_output_made_anew_is_told_where_the_camera_sits_now(
    tmp_path: Path, told: type[ToldOutput]
) -> None:
    async with changed_bridge(tmp_path) as (bridge, _, path):
        moved = _CONFIG.replace(
            "baseline_m: 0.5,", "baseline_m: 0.5, T_body_camera: {p_m: [0, 0, 4]},"
        )
        path.write_text(moved + "outputs: {look: {type: told}}\n")
        await asyncio.to_thread(bridge.controls.reload)
        await asyncio.to_thread(
            bridge.controls.set_mount, "front", MountView((1.0, 2.0, 3.0), UPRIGHT)
        )
        path.write_text(moved + "outputs: {look: {type: told, slow: true}}\n")
        told.go_on.set()
        await asyncio.to_thread(bridge.controls.reload)
    # The file is the truth when it is read again.
    assert told.places == [[0.0, 0.0, 4.0], [0.0, 0.0, 4.0]]


async def test_what_is_refused_moves_nothing_meanwhile(
    tmp_path: Path, told: type[ToldOutput]
) -> None:
    async with changed_bridge(tmp_path) as (bridge, _, path):
        before = bridge.controls.effective()
        moved = _CONFIG.replace(
            "baseline_m: 0.5,", "baseline_m: 0.5, T_body_camera: {p_m: [0, 0, 4]},"
        )
        path.write_text(moved + "outputs: {look: {type: told, slow: true, fails: true}}\n")
        reload = asyncio.create_task(asyncio.to_thread(bridge.controls.reload))
        assert await asyncio.to_thread(told.made.wait, PATIENCE_S)
        assert bridge.controls.mount("front").p_m == (0.0, 0.0, 0.0)
        told.go_on.set()
        with pytest.raises(ConfigError, match="the port is taken"):
            await reload
        assert bridge.controls.effective() == before
        path.write_text(moved + "outputs: {look: {type: told}}\n")
        await asyncio.to_thread(bridge.controls.reload)
        assert told.places == [[0.0, 0.0, 4.0]]


async def test_a_light_set_while_the_file_is_read_stays(
    tmp_path: Path, told: type[ToldOutput]
) -> None:
    async with changed_bridge(tmp_path) as (bridge, _, path):
        path.write_text(_CONFIG + "outputs: {look: {type: told, slow: true}}\n")
        reload = asyncio.create_task(asyncio.to_thread(bridge.controls.reload))
        assert await asyncio.to_thread(told.made.wait, PATIENCE_S)
        bridge.context.world.lighting = Lighting(time_of_day_h=20.0)
        told.go_on.set()
        assert (await reload).applied == ("outputs.look",)
        assert bridge.context.world.lighting == Lighting(time_of_day_h=20.0)


async def test_many_hangups_are_one_more_reading(tmp_path: Path, told: type[ToldOutput]) -> None:
    """None of them waits in a thread that others need."""
    async with changed_bridge(tmp_path) as (bridge, _, path):
        path.write_text(_CONFIG + "outputs: {look: {type: told, slow: true}}\n")
        bridge.controls.on_hangup()
        assert await asyncio.to_thread(told.made.wait, PATIENCE_S)
        for _ in range(40):
            bridge.controls.on_hangup()
        path.write_text(_CONFIG + "outputs: {look: {type: told}}\n")
        await asyncio.wait_for(asyncio.to_thread(lambda: None), PATIENCE_S)
        told.go_on.set()
        await until(lambda: len(told.places) == 2)
        assert bridge.context.outputs.outputs["look"][1] == ToldConfig()
