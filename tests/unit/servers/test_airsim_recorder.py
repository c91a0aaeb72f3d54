"""Recordings in AirSim's format: options with their errors, and pictures as PNG, PPM and PFM."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest

from vil_bridge.core.clock import NS_PER_S, WallClock, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceFrame
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.image_methods import ImageMethods
from vil_simulation.airsim.pictures import NO_FLOATS, bgr_of, packed_floats
from vil_simulation.airsim.recorder import RecordingMethods, RecordingOptions, save_picture
from vil_simulation.airsim.values import ImageResponse, Quaternionr, Vector3r
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.simulation import Simulation

FRAME_S = 1 / 30
RGB = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
DEPTH = np.arange(8, dtype=np.float32).reshape(2, 4)


def response(**changes: Any) -> ImageResponse:
    made: dict[str, Any] = {
        "image_data_uint8": b"",
        "image_data_float": NO_FLOATS,
        "camera_name": "front center/0",
        "camera_position": Vector3r(),
        "camera_orientation": Quaternionr(),
        "time_stamp": 123_456_789,
        "message": "",
        "pixels_as_float": False,
        "compress": True,
        "width": 4,
        "height": 2,
        "image_type": 0,
    }
    return ImageResponse(**(made | changes))


def test_the_defaults_are_airsims() -> None:
    options = RecordingOptions.of({})
    assert (options.interval_s, options.only_moving, options.requests) == (0.05, False, None)
    assert not options.from_start and RecordingOptions.of({"Enabled": True}).from_start
    assert options.folder == Path("~/Documents/AirSim").expanduser()


def test_cameras_are_read_with_the_old_names_too() -> None:
    entries = [
        {"CameraName": "1", "ImageType": 3, "VehicleName": "D"},
        {"CameraID": 2, "PixelsAsFloat": True},
    ]
    requests = RecordingOptions.of({"Cameras": entries, "RecordInterval": 1}).requests
    assert requests is not None
    assert [(v, r.camera_name, r.image_type, r.pixels_as_float) for v, r in requests] == [
        ("D", "1", 3, False),
        ("", "2", 0, True),
    ]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"RecordInterval": 0}, r"Recording\.RecordInterval: must be a number from 0\.001"),
        ({"RecordInterval": "x"}, r"Recording\.RecordInterval"),
        ({"Cameras": ["front"]}, r"Recording\.Cameras: an entry must be an object"),
        ({"Cameras": [{"ImageType": "x"}]}, r"Recording\.Cameras"),
        ({"Cameras": 3}, r"Recording\.Cameras: must be a list"),
        ({"RecordInterval": True}, r"Recording\.RecordInterval"),
        ({"Folder": 3}, r"Recording\.Folder: must be the name of a folder, not 3"),
        ({"Folder": "~missing/x"}, r"Recording\.Folder: must be the name of a folder"),
        ({"Enabled": "false"}, r"Recording\.Enabled: must be true or false"),
        ({"RecordOnMove": 1}, r"Recording\.RecordOnMove: must be true or false"),
    ],
)
def test_an_error_names_the_key(section: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RecordingOptions.of(section)


def test_pictures_are_files_that_others_read(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    camera: Any = None
    bgr = bytes(bgr_of(0, RGB, camera, np.zeros(1, np.int16)))
    name = save_picture(tmp_path, "D 1", response(image_data_uint8=bgr, compress=False))
    assert name == "img_D_1_front_center_0_0_123456789.ppm"
    shown = cv2.imread(str(tmp_path / "images" / name))
    assert shown is not None and np.array_equal(shown[:, :, ::-1], RGB)
    floats = response(image_data_float=packed_floats(DEPTH), pixels_as_float=True, image_type=1)
    name = save_picture(tmp_path, "D", floats)
    read = cv2.imread(str(tmp_path / "images" / name), cv2.IMREAD_UNCHANGED)
    assert read is not None and np.array_equal(read, DEPTH)


def recorder(
    section: dict[str, Any], *, names: tuple[str, ...] = ("Drone",), flying: bool = False
) -> Recorder:
    """Return a recorder of vehicles, whose clock makes a second at each look."""
    nothing: Any = None
    config = SimulatedConfig.model_validate(
        {"type": "simulated", "vehicles": {name.lower(): {"model": "kinematic"} for name in names}}
    )
    handler = CommandHandler("sim", config, lambda _order: True)
    handler.begin(now_ns())
    if flying:
        for batch in Simulation(config).advance(24):
            handler.update(batch, batch.states())
    served = [
        ServedVehicle(
            name,
            name.lower(),
            name.lower(),
            "computervision",
            Transform.identity(),
            np.zeros(3),
            {},
            {},
        )
        for name in names
    ]
    world = World(
        {"sim": Transform.identity()},
        [Actor(s, ActorKind.VEHICLE, "sim", s) for s in handler.subjects],
    )
    level = np.tile((0.0, 0.0, 0.0, 1.0), (len(names), 1))
    known = np.ones(len(names), np.bool_)
    world.ingest(
        SourceFrame(
            "sim", 0, None, now_ns(), handler.subjects, np.zeros((len(names), 3)), level, known
        )
    )
    bus = VehicleCommandBus()
    vehicles = ServedVehicles(served, bus, world, WallClock.of_run())
    images = ImageMethods(vehicles, ServedCameras({}), nothing, lambda: FRAME_S)
    seconds = itertools.count()
    recording = RecordingMethods(
        vehicles, images, RecordingOptions.of(section), lambda: next(seconds) * NS_PER_S
    )
    return Recorder(recording, bus.serving("sim", handler.subjects, handler))


class Recorder(NamedTuple):
    recording: RecordingMethods
    flying: AbstractContextManager[None]


def folders_in(parent: Path) -> list[Path]:
    found = sorted(parent.iterdir())
    assert all((folder / "images").is_dir() for folder in found)
    return found


def rows(folder: Path) -> list[list[str]]:
    return [line.split("\t") for line in (folder / "airsim_rec.txt").read_text().splitlines()]


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30.0):
        while not reached():
            await asyncio.sleep(0.001)


async def test_a_vehicle_that_is_not_there_ends_no_recording(tmp_path: Path) -> None:
    """Its simulation starts or ends, or a tracked vehicle was not seen yet."""
    recording, _ = recorder({"Folder": str(tmp_path), "Cameras": []})
    await recording.start()
    folder = folders_in(tmp_path)[0]
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert recording.is_recording() and len(rows(folder)) == 1
    await recording.stop()
    assert not recording.is_recording()


async def test_a_camera_that_does_not_exist_ends_no_recording_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cameras = [{"CameraName": "missing", "VehicleName": "Drone"}, {"VehicleName": "Dron"}]
    recording, flying = recorder({"Folder": str(tmp_path), "Cameras": cameras}, flying=True)
    assert "Recording.Cameras: no vehicle is named 'Dron'" in caplog.text
    with flying:
        await recording.start()
        await until(lambda: "Camera 'missing' does not exist on 'Drone'" in caplog.text)
        assert recording.is_recording()
        for _ in range(20):
            await asyncio.sleep(0.001)
        await recording.stop()
    assert caplog.text.count("does not exist") == 1


async def test_pictures_without_a_vehicles_name_are_of_the_first_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    section = {"Folder": str(tmp_path), "Cameras": [{"CameraName": "missing"}]}
    recording, flying = recorder(section, names=("Drone1", "Drone2"), flying=True)
    with flying:
        await recording.start()
        folder = folders_in(tmp_path)[0]
        await until(lambda: len(rows(folder)) > 3)
        await recording.stop()
    assert {row[0] for row in rows(folder)[1:]} == {"Drone2"} and "rows of Drone1" in caplog.text


async def test_two_programs_that_start_at_once_start_one_recording(tmp_path: Path) -> None:
    recording, flying = recorder({"Folder": str(tmp_path), "Cameras": []}, flying=True)
    with flying:
        await asyncio.gather(recording.start(), recording.start())
        (folder,) = folders_in(tmp_path)
        await until(lambda: len(rows(folder)) > 2)
        await asyncio.gather(recording.stop(), recording.stop())
        count = len(rows(folder))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(rows(folder)) == count and not recording.is_recording()


async def test_recordings_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    recording, flying = recorder({"Folder": str(tmp_path), "Cameras": []}, flying=True)
    with flying:
        for _ in range(3):
            await recording.start()
            await recording.stop()
    folders = folders_in(tmp_path)
    assert len(folders) == 3
    time.strptime(folders[0].name, "%Y-%m-%d-%H-%M-%S")  # AirSim's own name
    assert all(rows(folder)[0][0] == "VehicleName" for folder in folders)


async def test_a_recording_that_cannot_begin_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    recording, _ = recorder({"Folder": str(tmp_path / "file"), "Enabled": True})
    with pytest.raises(
        ValueError, match=r"cannot record: .*file.*Change airsim\.folder .* Recording\.Folder"
    ):
        await recording.start()
    assert not recording.is_recording()
    await recording.start_as_configured()
    assert "does not record: cannot record" in caplog.text
    await recording.stop()


async def test_a_recording_that_cannot_be_written_ends_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording, flying = recorder(
        {"Folder": str(tmp_path), "Cameras": [], "Enabled": True}, flying=True
    )
    with flying:
        await recording.start_as_configured()
        assert recording.is_recording()
        folder = folders_in(tmp_path)[0]
        (folder / "airsim_rec.txt").unlink()
        (folder / "airsim_rec.txt").symlink_to("/dev/full")
        await until(lambda: not recording.is_recording())
        assert "No space left on device" in caplog.text
        with pytest.raises(ValueError, match=r"has ended: .*No space left on device"):
            await recording.stop()
        await recording.stop()
        await recording.start()
        assert recording.is_recording()
        assert await recording.end() == ""


async def test_a_vehicle_that_rests_is_recorded_once_where_only_motion_is(tmp_path: Path) -> None:
    section = {"Folder": str(tmp_path), "Cameras": [], "RecordOnMove": True}
    seen = itertools.count()
    recording, flying = recorder(section, flying=True)
    with flying:
        await recording.start()
        while next(seen) < 50:
            await asyncio.sleep(0.001)
        await recording.stop()
    assert len(rows(folders_in(tmp_path)[0])) == 2
