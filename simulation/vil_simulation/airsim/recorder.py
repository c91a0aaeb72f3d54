"""Recordings in AirSim's own format: ``airsim_rec.txt`` and a folder of images."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

from vil_bridge.core.errors import ConfigError, VilBridgeError
from vil_simulation.airsim.image_methods import ImageMethods
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.program_files import DEFAULT_FOLDER
from vil_simulation.airsim.settings import number_of
from vil_simulation.airsim.values import AirsimImageRequest, ImageResponse
from vil_simulation.airsim.vehicles import ServedMotion, ServedVehicles, kinematics_of

logger = logging.getLogger(__name__)

_COLUMNS: Final = (
    "VehicleName", "TimeStamp", "POS_X", "POS_Y", "POS_Z", "Q_W", "Q_X", "Q_Y", "Q_Z", "ImageFile",
)  # fmt: skip
_ROWS: Final = "airsim_rec.txt"
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options of the section ``Recording``.

    Attributes:
        from_start: record as soon as the server listens.
        requests: vehicle (empty = the first one) and picture of each; None = the scene of the
            default camera of every vehicle, empty = the states alone.
    """

    from_start: bool
    interval_s: float
    folder: Path
    only_moving: bool
    requests: Sequence[tuple[str, AirsimImageRequest]] | None

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> RecordingOptions:
        """Read the section. Raises ConfigError: a value has no meaning; names the key."""
        interval_s = number_of(
            section, "RecordInterval", 0.05, "Recording.", least=0.001, most=3600
        )
        cameras = section.get("Cameras")
        if not isinstance(cameras, list | None):
            raise ConfigError(f"Recording.Cameras: must be a list of objects, not {cameras!r:.40}")
        requests = None if cameras is None else [_request(entry) for entry in cameras]
        from_start = _flag(section, "Enabled")
        only_moving = _flag(section, "RecordOnMove")
        return cls(from_start, interval_s, _folder(section), only_moving, requests)


def _folder(section: Mapping[str, Any]) -> Path:
    """Return the folder of all recordings. Raises ConfigError: it is not the name of one."""
    found = section.get("Folder") or str(DEFAULT_FOLDER)
    try:
        return Path(found).expanduser()
    except (TypeError, RuntimeError):  # RuntimeError: ~ of a user that does not exist
        raise ConfigError(
            f"Recording.Folder: must be the name of a folder, not {found!r:.40}"
        ) from None


def _flag(section: Mapping[str, Any], key: str) -> bool:
    """Return a truth value; absent = False. Raises ConfigError: it is another value."""
    found = section.get(key, False)
    if not isinstance(found, bool):
        raise ConfigError(f"Recording.{key}: must be true or false, not {found!r:.40}")
    return found


def _request(entry: object) -> tuple[str, AirsimImageRequest]:
    """Return vehicle and picture of an entry. Raises ConfigError: it is not one."""
    if not isinstance(entry, dict) or not isinstance(entry.get("ImageType", 0), int):
        raise ConfigError(
            "Recording.Cameras: an entry must be an object with a number as ImageType, "
            f"not {entry!r:.60}"
        )
    camera = str(entry.get("CameraName", entry.get("CameraID", 0)))
    as_float = bool(entry.get("PixelsAsFloat", False))
    compress = bool(entry.get("Compress", True))
    request = AirsimImageRequest(camera, int(entry.get("ImageType", 0)), as_float, compress)
    return str(entry.get("VehicleName", "")), request


class RecordingMethods:
    """Start and stop of a recording; one at a time.

    Args:
        now_ns: bridge time.
    """

    def __init__(
        self,
        vehicles: ServedVehicles,
        images: ImageMethods,
        options: RecordingOptions,
        now_ns: Callable[[], int],
    ) -> None:
        self._vehicles = vehicles
        self._images = images
        self._options = options
        self._now_ns = now_ns
        self._task: asyncio.Task[str] | None = None
        self._changes = asyncio.Lock()
        for owner, _ in options.requests or ():
            if owner and owner not in vehicles.names:
                logger.warning(
                    "Recording.Cameras: no vehicle is named %r: its pictures are not recorded",
                    owner[:80],
                )

    async def start_as_configured(self) -> None:
        """Record from now on where the settings say so."""
        if self._options.from_start:
            try:
                await self.start()
            except ValueError as exc:
                logger.error("does not record: %s", exc)

    @method("startRecording")
    async def start(self) -> None:
        """Record from now on."""
        async with self._changes:  # another program may start it at the same time
            if self.is_recording():
                return
            try:
                folder = await asyncio.to_thread(_new_folder, self._options.folder)
            except OSError as exc:
                cure = (
                    "Change airsim.folder (`--folder`), or where that is not set "
                    "Recording.Folder in settings.json"
                )
                raise ValueError(f"cannot record: {exc}. {cure}") from None
            logger.info("records into %s", folder)
            self._task = asyncio.create_task(self._record(folder), name="airsim recording")

    @method("stopRecording")
    async def stop(self) -> None:
        """End the recording. Raises ValueError: it ended before, since it could not be written."""
        async with self._changes:
            if problem := await self.end():
                raise ValueError(problem)

    async def end(self) -> str:
        """End the recording; returns the reason for which it ended before, empty = it ran."""
        task = self._task
        self._task = None
        if task is None:
            return ""
        task.cancel()
        await asyncio.wait([task])
        return "" if task.cancelled() else task.result()

    @method("isRecording")
    def is_recording(self) -> bool:
        """Return True while a recording runs."""
        return self._task is not None and not self._task.done()

    async def _record(self, folder: Path) -> str:
        """Write rows until it is cancelled.

        Returns the reason for which they cannot be written any more.
        """
        try:
            with (folder / _ROWS).open("a") as rows:
                await self._write_rows(folder, rows)
        except OSError as exc:
            logger.error("the recording into %s has ended: %s", folder, exc)
            return f"the recording into {folder} has ended: {exc}"
        return ""

    async def _write_rows(self, folder: Path, rows: TextIO) -> None:
        """Write a row per vehicle and interval of bridge time.

        A row whose vehicle or picture is absent is left out.
        """
        interval_ns = round(self._options.interval_s * 1e9)
        due_ns = self._now_ns()
        before = dict[str, ServedMotion]()
        absent = set[str]()
        while True:
            if self._now_ns() < due_ns:
                await asyncio.sleep(min(0.002, self._options.interval_s))
                continue
            due_ns = max(due_ns + interval_ns, self._now_ns())
            for name in self._vehicles.names:
                try:
                    await self._row(name, folder, rows.write, before)
                except (VilBridgeError, LookupError, ValueError) as exc:
                    if name not in absent:
                        absent.add(name)
                        logger.warning(
                            "the recording lacks rows of %s (further ones are not logged): %s",
                            name,
                            exc,
                        )
            rows.flush()
            # Rows without pictures that are late shall not hold up the calls.
            await asyncio.sleep(0)

    async def _row(
        self,
        name: str,
        folder: Path,
        write: Callable[[str], object],
        before: dict[str, ServedMotion],
    ) -> None:
        vehicle = self._vehicles.find(name)
        motion = self._vehicles.motion(vehicle)
        seen = before.get(name)
        if self._options.only_moving and seen is not None and not _moved(seen, motion):
            return
        before[name] = motion
        responses = await self._pictures(name)
        if missing := [response.message for response in responses if not response.width]:
            raise ValueError(f"a picture is missing: {missing[0]}")
        files = ";".join(
            [await asyncio.to_thread(save_picture, folder, name, r) for r in responses]
        )
        state = kinematics_of(motion, vehicle.origin_m)
        p = state.position
        q = state.orientation
        numbers = (p.x_val, p.y_val, p.z_val, q.w_val, q.x_val, q.y_val, q.z_val)
        stamp = self._vehicles.utc_ns(motion.t_ns) // _NS_PER_MS
        write("\t".join([name, str(stamp), *(f"{value:.6g}" for value in numbers), files]) + "\n")

    async def _pictures(self, name: str) -> list[ImageResponse]:
        listed = self._options.requests
        first = self._vehicles.names[0]
        requests = (
            [AirsimImageRequest("", 0)]
            if listed is None
            else [r for v, r in listed if (v or first) == name]
        )
        return await self._images.images(requests, name)


def _new_folder(parent: Path) -> Path:
    """Make the folder of a recording with the head of its rows, where no other one is.

    Raises OSError.
    """
    stamp = time.strftime("%Y-%m-%d-%H-%M-%S")
    for number in itertools.count(1):
        folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            (folder / "images").mkdir()
            (folder / _ROWS).write_text("\t".join(_COLUMNS) + "\n")
            return folder
    raise AssertionError("numbers never end")


def _moved(a: ServedMotion, b: ServedMotion) -> bool:
    T = a.T_world_body
    S = b.T_world_body
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
