"""AirSim's settings.json, as AirSim 1.8.1 reads it (AirLib/include/common/AirSimSettings.hpp).

What has no meaning here, and what AirSim does not know either, is listed with its place and never
fatal. As in AirSim, a vehicle that does not fit the mode is left out, and one with ``"AutoCreate":
false`` too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_simulation.airsim import settings_keys
from vil_simulation.airsim.default_cameras import default_cameras
from vil_simulation.airsim.settings_keys import SectionKeys
from vil_simulation.airsim.settings_text import parse_object, read_text

Mode = Literal["Multirotor", "Car", "ComputerVision"]

SCENE: Final = 0
DEFAULT_VEHICLE: Final[Mapping[str, tuple[str, str]]] = {
    "Multirotor": ("SimpleFlight", "simpleflight"),
    "Car": ("PhysXCar", "physxcar"),
    "ComputerVision": ("ComputerVision", "computervision"),
}
_TYPES: Final[Mapping[Mode, tuple[str, ...]]] = {
    "Multirotor": ("simpleflight", "px4multirotor", "arducopter", "arducoptersolo"),
    "Car": ("physxcar", "ardurover"),
    "ComputerVision": ("computervision",),
}
_COSYS_TYPES: Final = ("boxcar", "cphusky", "pioneer")
_COSYS_MODE: Final = "SkidVehicle"
_NEWEST_VERSION: Final = 1.2
_COSYS_SENSORS: Final = {7: "Echo", 8: "GPULidar", 9: "SensorTemplate", 10: "MarlocUwb", 11: "Wifi"}
_SENSOR_TYPES: Final = {
    1: "barometer",
    2: "imu",
    3: "gps",
    4: "magnetometer",
    5: "distance",
    6: "lidar",
}
_DEFAULT_SENSORS: Final[Mapping[str, tuple[str, ...]]] = {
    "Multirotor": ("imu", "magnetometer", "gps", "barometer"),
    "Car": ("gps",),
    "ComputerVision": (),
}
_DATA_FRAMES: Final = ("VehicleInertialFrame", "SensorLocalFrame")
_CAR_SENSOR_DOWN_M: Final = -1.0
"""Place of a sensor without a ``Z`` on what is not a multirotor: above the body."""
_MOST_VEHICLES: Final = 200
_MOST_CAMERAS: Final = 64


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Size and horizontal field of view of one kind of picture."""

    width_px: int = 256
    height_px: int = 144
    fov_deg: float = 90.0


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """A camera on a vehicle.

    Attributes:
        T_body_camera: x ahead, y left, z up of the camera in the body (FLU).
        captures: by image type; a type that is absent has the built-in values.
    """

    T_body_camera: Transform
    captures: Mapping[int, CaptureSettings] = field(default_factory=dict)

    def capture(self, image_type: int) -> CaptureSettings:
        """Return the settings of a kind of picture."""
        return self.captures.get(image_type, CaptureSettings())


@dataclass(frozen=True, slots=True)
class SensorSettings:
    """A sensor on a vehicle: its kind, its pose in the body (FLU), and AirSim's own keys."""

    kind: str
    T_body_sensor: Transform
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VehicleSettings:
    """A vehicle: its type in lower case, its start in the world (ENU, FLU), its cameras and
    sensors by name.
    """

    name: str
    kind: str
    start: Transform | None
    cameras: Mapping[str, CameraSettings]
    sensors: Mapping[str, SensorSettings]


@dataclass(frozen=True, slots=True)
class AirsimSettings:
    """A settings file, with its defaults filled in.

    Attributes:
        vehicles: in alphabetical order, at least one.
        default: name of the vehicle of calls that name none.
        external_cameras: that stand in the world; their mounts are poses in NED, as on a body that
            looks north.
        ignored: keys without a meaning here and vehicles that are left out, each with its place.
    """

    mode: Mode
    vehicles: tuple[VehicleSettings, ...]
    default: str
    clock_speed: float
    origin_deg_m: tuple[float, float, float]
    port: int
    wind_world_mps: tuple[float, float, float]
    recording: Mapping[str, Any]
    external_cameras: Mapping[str, CameraSettings]
    text: str
    ignored: tuple[str, ...]


def load_settings(path: Path | None) -> AirsimSettings:
    """Read a settings file; None = AirSim's defaults.

    Raises:
        ConfigError: it cannot be read, is not JSON, or a value has no meaning; names the key.
    """
    if path is None:
        return parse_settings("{}")
    try:
        return parse_settings(read_text(path))
    except ConfigError as exc:
        raise ConfigError([f"{path}: {problem}" for problem in exc.problems]) from None


def parse_settings(text: str) -> AirsimSettings:
    """Read the text of a settings file. Raises ConfigError as :func:`load_settings` does."""
    return _Reader(parse_object(text), text).read()


def added_vehicle(settings: AirsimSettings, name: str, kind: str) -> VehicleSettings | None:
    """Return a vehicle of which the file says nothing but its type.

    None = the mode has no such type.
    """
    if kind.lower() not in _TYPES[settings.mode]:
        return None
    return _Reader(parse_object(settings.text), settings.text).vehicle(
        name, {"VehicleType": kind}, settings.mode
    )


def sensor_key(name: str) -> str:
    """Return the name of a sensor in the simulation.

    Letters first, no other characters than A-Z, a-z, 0-9, _ and -.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:50]
    return plain if plain[:1].isalpha() else f"s{plain}"


class _Reader:
    """Reader of one file: collects what it ignores."""

    def __init__(self, root: dict[str, Any], text: str) -> None:
        self._root = root
        self._text = text
        self._ignored: list[str] = []

    def read(self) -> AirsimSettings:
        root = self._root
        mode = self._mode()
        self._check_version()
        self._note("", root, settings_keys.ROOT)
        origin = _section(root, "OriginGeopoint", "")
        self._note("OriginGeopoint.", origin, settings_keys.ORIGIN)
        wind = _section(root, "Wind", "")
        self._note("Wind.", wind, settings_keys.WIND)
        vehicles = self._vehicles(mode)
        return AirsimSettings(
            mode=mode,
            vehicles=vehicles,
            default=self._default(vehicles),
            clock_speed=number_of(root, "ClockSpeed", 1.0, "", least=0.01, most=100.0),
            origin_deg_m=(
                number_of(origin, "Latitude", 47.641468, "OriginGeopoint.", least=-90.0, most=90.0),
                number_of(
                    origin, "Longitude", -122.140165, "OriginGeopoint.", least=-180.0, most=180.0
                ),
                number_of(origin, "Altitude", 122.0, "OriginGeopoint.", least=-1e4, most=1e6),
            ),
            port=int(number_of(root, "ApiServerPort", 41451, "", least=0, most=65535)),
            wind_world_mps=_vector(wind, "Wind."),
            recording=self._recording(),
            external_cameras=self._listed_cameras(
                _section(root, "ExternalCameras", ""), "ExternalCameras.", {}
            ),
            text=self._text,
            ignored=tuple(dict.fromkeys(self._ignored)),
        )

    def _mode(self) -> Mode:
        given = self._root.get("SimMode")
        if given in (None, ""):
            return "Multirotor"
        for mode in _TYPES:
            if given == mode:
                return mode
            if isinstance(given, str) and given.lower() == mode.lower():
                raise ConfigError(f"SimMode: {given!r} has the wrong case. Write {mode}")
        if given == _COSYS_MODE:
            raise ConfigError(
                f"SimMode: {_COSYS_MODE} is a mode of Cosys-AirSim that is missing here. Write Car"
            )
        raise ConfigError(f"SimMode: {given!r:.40} is unknown. Write {', '.join(_TYPES)}")

    def _check_version(self) -> None:
        """Collect that the file was written for an older version; both spellings are AirSim's."""
        version = self._root.get("SettingsVersion", self._root.get("SettingdVersion"))
        if isinstance(version, int | float) and version < _NEWEST_VERSION:
            self._ignored.append(
                f"SettingsVersion: {version} is older than {_NEWEST_VERSION}, which is read here"
            )

    def _recording(self) -> Mapping[str, Any]:
        recording = _section(self._root, "Recording", "")
        self._note("Recording.", recording, settings_keys.RECORDING)
        cameras = recording.get("Cameras")
        for index, entry in enumerate(cameras if isinstance(cameras, list) else ()):
            if isinstance(entry, dict):
                self._note(f"Recording.Cameras[{index}].", entry, settings_keys.RECORDED_CAMERA)
        return recording

    def _note(self, place: str, section: Mapping[str, Any], keys: SectionKeys) -> None:
        """Collect the keys that have no meaning here."""
        for key in section:
            remark = keys.remark(key)
            if remark is not None:
                self._ignored.append(f"{place}{key}: {remark}")

    def _vehicles(self, mode: Mode) -> tuple[VehicleSettings, ...]:
        given = _section(self._root, "Vehicles", "")
        if not given:
            name, kind = DEFAULT_VEHICLE[mode]
            given = {name: {"VehicleType": kind}}
        if len(given) > _MOST_VEHICLES:
            raise ConfigError(f"Vehicles: {len(given)} are more than {_MOST_VEHICLES}")
        vehicles = []
        left_out = []
        for name in sorted(given):
            section = _section(given, name, "Vehicles.")
            reason = self._left_out(name, section, mode)
            if reason is None:
                vehicles.append(self.vehicle(name, section, mode))
            else:
                left_out.append(reason)
        if not vehicles:
            raise ConfigError(
                ["Vehicles: none is left. Correct SimMode, a VehicleType or AutoCreate:", *left_out]
            )
        self._ignored += [f"{reason}; the vehicle is left out" for reason in left_out]
        return tuple(vehicles)

    def _left_out(self, name: str, section: Mapping[str, Any], mode: Mode) -> str | None:
        """Return why AirSim does not create a vehicle; None = it does."""
        place = f"Vehicles.{name}."
        if section.get("AutoCreate") is False:
            return f"{place}AutoCreate: false"
        kind = _kind(section, mode)
        if kind in _TYPES[mode]:
            return None
        if kind in _COSYS_TYPES:
            return f"{place}VehicleType: {kind!r} is a vehicle of Cosys-AirSim"
        if not any(kind in kinds for kinds in _TYPES.values()):
            return (
                f"{place}VehicleType: {kind!r:.40} is unknown. Write one of "
                f"{', '.join(_TYPES[mode])}"
            )
        return f"{place}VehicleType: {kind!r} does not fit SimMode {mode}"

    def vehicle(self, name: str, section: Mapping[str, Any], mode: Mode) -> VehicleSettings:
        place = f"Vehicles.{name}."
        self._note(place, section, settings_keys.VEHICLE)
        if str(section.get("DefaultVehicleState") or "Armed").lower() != "armed":
            self._ignored.append(f"{place}DefaultVehicleState: vehicles start armed here")
        self._ignored += [
            f"{place}{key}: vehicles start level here"
            for key in ("Pitch", "Roll")
            if section.get(key)
        ]
        start = None
        if any(key in section for key in ("X", "Y", "Z", "Yaw")):
            start = self._start(section, place)
        return VehicleSettings(
            name,
            _kind(section, mode),
            start,
            self._cameras(section, place, mode),
            self._sensors(section, place, mode),
        )

    def _default(self, vehicles: tuple[VehicleSettings, ...]) -> str:
        """Return the default vehicle.

        The last one that shows the first-person view, else the first one.
        """
        given = _section(self._root, "Vehicles", "")
        shown = [
            v.name
            for v in vehicles
            if _section(given, v.name, "Vehicles.").get("IsFpvVehicle") is True
        ]
        return shown[-1] if shown else vehicles[0].name

    def _start(self, section: Mapping[str, Any], place: str) -> Transform:
        north, east, down = (number_of(section, key, 0.0, place) for key in "XYZ")
        yaw_rad = math.radians(90.0 - number_of(section, "Yaw", 0.0, place))
        return Transform.of(
            (east, north, -down), (0.0, 0.0, math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0))
        )

    def _cameras(
        self, section: Mapping[str, Any], place: str, mode: Mode
    ) -> dict[str, CameraSettings]:
        defaults = self._default_captures()
        built_in = {
            name: CameraSettings(mount, defaults)
            for name, mount in default_cameras(mode == "Car").items()
        }
        return self._listed_cameras(
            _section(section, "Cameras", place), f"{place}Cameras.", built_in
        )

    def _listed_cameras(
        self, given: Mapping[str, Any], place: str, built_in: Mapping[str, CameraSettings]
    ) -> dict[str, CameraSettings]:
        """Return the built-in cameras and those of a section."""
        defaults = self._default_captures()
        cameras = dict(built_in)
        if len(given) > _MOST_CAMERAS:
            raise ConfigError(f"{place[:-1]}: {len(given)} are more than {_MOST_CAMERAS}")
        for name in given:
            inside = f"{place}{name}."
            camera = _section(given, name, place)
            self._note(inside, camera, settings_keys.CAMERA)
            own = self._captures(camera, inside)
            before = cameras.get(name, CameraSettings(Transform.identity(), defaults))
            moved = any(key in camera for key in ("X", "Y", "Z", "Yaw", "Pitch", "Roll"))
            mount = _mount(camera, inside) if moved else before.T_body_camera
            cameras[name] = CameraSettings(mount, {**before.captures, **own})
        return cameras

    def _default_captures(self) -> dict[int, CaptureSettings]:
        given = _section(self._root, "CameraDefaults", "")
        self._note("CameraDefaults.", given, settings_keys.CAMERA_DEFAULTS)
        return self._captures(given, "CameraDefaults.")

    def _captures(self, camera: Mapping[str, Any], place: str) -> dict[int, CaptureSettings]:
        given = camera.get("CaptureSettings", [])
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            raise ConfigError(f"{place}CaptureSettings: must be a list of objects")
        captures = {}
        for index, entry in enumerate(given):
            inside = f"{place}CaptureSettings[{index}]."
            self._note(inside, entry, settings_keys.CAPTURE)
            image_type = int(number_of(entry, "ImageType", SCENE, inside, least=-1, most=11))
            built_in = CaptureSettings()
            captures[image_type] = replace(
                built_in,
                width_px=int(
                    number_of(entry, "Width", built_in.width_px, inside, least=1, most=4096)
                ),
                height_px=int(
                    number_of(entry, "Height", built_in.height_px, inside, least=1, most=4096)
                ),
                fov_deg=number_of(
                    entry, "FOV_Degrees", built_in.fov_deg, inside, least=1.0, most=179.0
                ),
            )
        return captures

    def _sensors(
        self, section: Mapping[str, Any], place: str, mode: Mode
    ) -> dict[str, SensorSettings]:
        default_section = _section(self._root, "DefaultSensors", "")
        given = _section(section, "Sensors", place)
        sensors = self._listed(given, f"{place}Sensors.", mode)
        types = {entry.kind for entry in sensors.values()}
        if default_section:
            listed = self._listed(default_section, "DefaultSensors.", mode)
            added = {
                n: s for n, s in listed.items() if s.kind not in types and s.values.get("Enabled")
            }
        else:
            added = {
                kind: SensorSettings(kind, Transform.identity(), {"Enabled": True})
                for kind in _DEFAULT_SENSORS[mode]
                if kind not in types
            }
        found = added | _enabled(sensors)
        _check_names(found, f"{place}Sensors.")
        return found

    def _listed(
        self, given: Mapping[str, Any], place: str, mode: Mode
    ) -> dict[str, SensorSettings]:
        """Return the sensors of a section in alphabetical order, as AirSim has them."""
        sensors: dict[str, SensorSettings] = {}
        for name in sorted(given):
            entry = _section(given, name, place)
            number = int(number_of(entry, "SensorType", 0, f"{place}{name}."))
            if number not in _SENSOR_TYPES:
                whose = (
                    f", {_COSYS_SENSORS[number]} of Cosys-AirSim,"
                    if number in _COSYS_SENSORS
                    else ""
                )
                self._ignored.append(
                    f"{place}{name}.SensorType: {number}{whose} is a sensor that is missing here"
                )
                continue
            kind = _SENSOR_TYPES[number]
            inside = f"{place}{name}."
            self._note(inside, entry, settings_keys.SENSORS[kind])
            if entry.get("DataFrame") not in (None, *_DATA_FRAMES):
                raise ConfigError(
                    f"{inside}DataFrame: must be {' or '.join(_DATA_FRAMES)}, not "
                    f"{entry['DataFrame']!r:.40}"
                )
            down = 0.0 if mode == "Multirotor" else _CAR_SENSOR_DOWN_M
            sensors[name] = SensorSettings(kind, _mount(entry, inside, down), entry)
        return sensors


def _check_names(sensors: Mapping[str, SensorSettings], place: str) -> None:
    """Raise ConfigError where two sensors have one name in the simulation."""
    known: dict[str, str] = {}
    for name in sensors:
        other = known.setdefault(sensor_key(name), name)
        if other != name:
            raise ConfigError(
                f"{place}{name}: is the same as {other!r} here: 50 characters A-Z, a-z, "
                "0-9, _ and - count. Rename one"
            )


def _enabled(sensors: Mapping[str, SensorSettings]) -> dict[str, SensorSettings]:
    return {name: entry for name, entry in sensors.items() if entry.values.get("Enabled", False)}


def _kind(section: Mapping[str, Any], mode: Mode) -> str:
    """Return the type of a vehicle in lower case, as AirSim compares it.

    One without a type is the mode's own.
    """
    return str(section.get("VehicleType") or DEFAULT_VEHICLE[mode][1]).lower()


def _section(parent: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    found = parent.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{place}{key}: must be an object {{...}}, not {type(found).__name__}")
    return found


def number_of(
    section: Mapping[str, Any],
    key: str,
    default: float,
    place: str,
    *,
    least: float = -1e6,
    most: float = 1e6,
) -> float:
    """Return a number; null and absent keys have the default.

    Raises ConfigError: none, or out of bounds.
    """
    found = section.get(key)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int | float) or not least <= found <= most:
        raise ConfigError(
            f"{place}{key}: must be a number from {least:g} to {most:g}, not {found!r:.40}"
        )
    return float(found)


def _vector(section: Mapping[str, Any], place: str) -> tuple[float, float, float]:
    """Return a vector (NED) as ENU."""
    north, east, down = (number_of(section, key, 0.0, place) for key in "XYZ")
    return (east, north, -down)


def _mount(section: Mapping[str, Any], place: str, default_down_m: float = 0.0) -> Transform:
    """Return a pose on the body (FRD, degrees; positive pitch up, yaw right) in FLU."""
    ahead, right = (number_of(section, key, 0.0, place) for key in "XY")
    down = number_of(section, "Z", default_down_m, place)
    yaw, pitch, roll = (
        math.radians(number_of(section, key, 0.0, place)) for key in ("Yaw", "Pitch", "Roll")
    )
    return Transform.of((ahead, -right, -down), q_from_euler_zyx(-yaw, -pitch, roll))
