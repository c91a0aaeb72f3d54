"""Recordings in AirSim's format: options with their errors, and pictures as PNG, PPM and PFM."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from vil_bridge.core.clock import NS_PER_S, WallClock
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.vehicle_commands import VehicleCommandBus
from vil_bridge.servers.airsim.cameras import ServedCameras
from vil_bridge.servers.airsim.image_methods import ImageMethods
from vil_bridge.servers.airsim.pictures import NO_FLOATS, bgr_of, packed_floats
from vil_bridge.servers.airsim.recorder import RecordingMethods, RecordingOptions, save_picture
from vil_bridge.servers.airsim.values import ImageResponse, Quaternionr, Vector3r
from vil_bridge.servers.airsim.vehicles import ServedVehicle, ServedVehicles

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
    assert options.folder == Path("~/Documents/AirSim").expanduser()


def test_cameras_are_read_with_the_old_names_too() -> None:
    entries = [{"CameraName": "1", "ImageType": 3, "VehicleName": "D"}, {"CameraID": 2, "PixelsAsFloat": True}]
    requests = RecordingOptions.of({"Cameras": entries, "RecordInterval": 1}).requests
    assert requests is not None
    assert [(v, r.camera_name, r.image_type, r.pixels_as_float) for v, r in requests] == [
        ("D", "1", 3, False),
        ("", "2", 0, True),
    ]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"RecordInterval": 0}, r"Recording\.RecordInterval: must be from 0\.001"),
        ({"RecordInterval": "x"}, r"Recording\.RecordInterval"),
        ({"Cameras": ["front"]}, r"Recording\.Cameras: an entry must be an object"),
        ({"Cameras": [{"ImageType": "x"}]}, r"Recording\.Cameras"),
        ({"Cameras": 3}, r"Recording\.Cameras: must be a list"),
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


async def test_a_vehicle_that_is_not_there_ends_no_recording(tmp_path: Path) -> None:
    """Its simulation starts or ends, or a tracked vehicle was not seen yet."""
    nothing: Any = None
    vehicle = ServedVehicle("Drone", "drone", "drone", "multirotor", Transform.identity(), np.zeros(3), {}, {})
    vehicles = ServedVehicles([vehicle], VehicleCommandBus(), nothing, WallClock.of_run())
    images = ImageMethods(vehicles, ServedCameras({}), nothing)
    seconds = itertools.count()
    options = RecordingOptions.of({"Folder": str(tmp_path), "Cameras": []})
    recording = RecordingMethods(vehicles, images, options, lambda: next(seconds) * NS_PER_S)
    await recording.start()
    while recording.is_recording() and next(seconds) < 100:
        await asyncio.sleep(0.001)
    assert recording.is_recording()
    await recording.stop()
