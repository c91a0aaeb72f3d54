"""Recordings in AirSim's own format: ``airsim_rec.txt`` and a folder of images."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.servers.airsim.image_methods import ImageMethods
from vil_bridge.servers.airsim.methods import method
from vil_bridge.servers.airsim.values import AirsimImageRequest, ImageResponse
from vil_bridge.servers.airsim.vehicles import ServedMotion, ServedVehicles, kinematics_of

logger = logging.getLogger(__name__)

_COLUMNS: Final = (
    "VehicleName", "TimeStamp", "POS_X", "POS_Y", "POS_Z", "Q_W", "Q_X", "Q_Y", "Q_Z", "ImageFile",
)  # fmt: skip
_NS_PER_MS: Final = 1_000_000
_DEFAULT_FOLDER: Final = Path("~/Documents/AirSim")


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options of the section ``Recording``.

    Attributes:
        requests: pictures of each vehicle; None = the scene of its default camera, empty = the state alone.
    """

    interval_s: float
    folder: Path
    only_moving: bool
    requests: Sequence[tuple[str, AirsimImageRequest]] | None

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> RecordingOptions:
        """Read the section. Raises ConfigError: a value has no meaning; names the key."""
        interval_s = section.get("RecordInterval", 0.05)
        if not isinstance(interval_s, int | float) or not 0.001 <= interval_s <= 3600:
            raise ConfigError(f"Recording.RecordInterval: must be from 0.001 to 3600 s, not {interval_s!r:.40}")
        cameras = section.get("Cameras")
        if not isinstance(cameras, list | None):
            raise ConfigError(f"Recording.Cameras: must be a list of objects, not {cameras!r:.40}")
        requests = None if cameras is None else [_request(entry) for entry in cameras]
        folder = Path(section.get("Folder") or _DEFAULT_FOLDER).expanduser()
        return cls(float(interval_s), folder, bool(section.get("RecordOnMove", False)), requests)


def _request(entry: object) -> tuple[str, AirsimImageRequest]:
    """Return vehicle and picture of an entry. Raises ConfigError: it is not one."""
    if not isinstance(entry, dict) or not isinstance(entry.get("ImageType", 0), int):
        raise ConfigError(
            f"Recording.Cameras: an entry must be an object with a number as ImageType, not {entry!r:.60}"
        )
    camera = str(entry.get("CameraName", entry.get("CameraID", "")))
    as_float, compress = bool(entry.get("PixelsAsFloat", False)), bool(entry.get("Compress", True))
    request = AirsimImageRequest(camera, int(entry.get("ImageType", 0)), as_float, compress)
    return str(entry.get("VehicleName", "")), request


class RecordingMethods:
    """Start and stop of a recording; one at a time.

    Args:
        now_ns: bridge time.
    """

    def __init__(
        self, vehicles: ServedVehicles, images: ImageMethods, options: RecordingOptions, now_ns: Callable[[], int]
    ) -> None:
        self._vehicles = vehicles
        self._images = images
        self._options = options
        self._now_ns = now_ns
        self._task: asyncio.Task[None] | None = None

    @method("startRecording")
    async def start(self) -> None:
        """Record from now on."""
        if self._task is None or self._task.done():
            folder = self._options.folder / time.strftime("%Y-%m-%d-%H-%M-%S")
            try:
                await asyncio.to_thread((folder / "images").mkdir, parents=True, exist_ok=True)
            except OSError as exc:
                raise ValueError(f"cannot record into {folder}: {exc}") from None
            logger.info("records into %s", folder)
            self._task = asyncio.create_task(self._record(folder), name="airsim recording")

    @method("stopRecording")
    async def stop(self) -> None:
        """End the recording."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    @method("isRecording")
    def is_recording(self) -> bool:
        """Return True while a recording runs."""
        return self._task is not None and not self._task.done()

    async def _record(self, folder: Path) -> None:
        """Write a row per vehicle and interval of bridge time; a row whose vehicle or picture is absent is left out."""
        interval_ns = round(self._options.interval_s * 1e9)
        due_ns, before = self._now_ns(), dict[str, ServedMotion]()
        with (folder / "airsim_rec.txt").open("w") as rows:
            rows.write("\t".join(_COLUMNS) + "\n")
            while True:
                if self._now_ns() < due_ns:
                    await asyncio.sleep(min(0.002, self._options.interval_s))
                    continue
                due_ns = max(due_ns + interval_ns, self._now_ns())
                for name in self._vehicles.names:
                    try:
                        await self._row(name, folder, rows.write, before)
                    except ValueError as exc:
                        logger.debug("no row of %s: %s", name, exc)
                rows.flush()
                await asyncio.sleep(0)  # rows without pictures that are late shall not hold up the calls

    async def _row(
        self, name: str, folder: Path, write: Callable[[str], object], before: dict[str, ServedMotion]
    ) -> None:
        vehicle = self._vehicles.find(name)
        motion = self._vehicles.motion(vehicle)
        seen = before.get(name)
        if self._options.only_moving and seen is not None and not _moved(seen, motion):
            return
        before[name] = motion
        responses = await self._pictures(name)
        if any(not response.width for response in responses):
            return
        files = ";".join([await asyncio.to_thread(save_picture, folder, name, r) for r in responses])
        state = kinematics_of(motion, vehicle.origin_m)
        p, q = state.position, state.orientation
        numbers = (p.x_val, p.y_val, p.z_val, q.w_val, q.x_val, q.y_val, q.z_val)
        stamp = self._vehicles.utc_ns(motion.t_ns) // _NS_PER_MS
        write("\t".join([name, str(stamp), *(f"{value:.6g}" for value in numbers), files]) + "\n")

    async def _pictures(self, name: str) -> list[ImageResponse]:
        listed = self._options.requests
        requests = [AirsimImageRequest("0", 0)] if listed is None else [r for v, r in listed if v in ("", name)]
        return await self._images.images(requests, name)


def _moved(a: ServedMotion, b: ServedMotion) -> bool:
    T, S = a.T_world_body, b.T_world_body
    return bool((T.p_m != S.p_m).any() or (T.q_xyzw != S.q_xyzw).any())


def save_picture(folder: Path, vehicle: str, response: ImageResponse) -> str:
    """Write a picture as png, ppm or pfm, and return the name of its file."""
    kind = "pfm" if response.pixels_as_float else "png" if response.compress else "ppm"
    camera = "".join(c if c.isalnum() or c in "_-" else "_" for c in response.camera_name)
    owner = "".join(c if c.isalnum() or c in "_-" else "_" for c in vehicle)
    name = f"img_{owner}_{camera}_{response.image_type}_{response.time_stamp}.{kind}"
    (folder / "images" / name).write_bytes(_file(response, kind))
    return name


def _file(response: ImageResponse, kind: str) -> bytes:
    size = f"{response.width} {response.height}\n"
    if kind == "png":
        return bytes(response.image_data_uint8)
    if kind == "ppm":
        bgr = np.frombuffer(response.image_data_uint8, np.uint8).reshape(-1, 3)
        return f"P6\n{size}255\n".encode() + bgr[:, ::-1].tobytes()
    packed = np.frombuffer(bytes(response.image_data_float)[5:], [("tag", "u1"), ("value", ">f4")])
    rows = packed["value"].astype("<f4").reshape(response.height, response.width)
    return f"Pf\n{size}-1\n".encode() + rows[::-1].tobytes()
