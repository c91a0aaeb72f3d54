"""Registry of plug-ins: built-ins from a table of strings, third parties from entry points.

A third party declares, in the group ``vil_bridge.sources``, ``vil_bridge.renderers``,
``vil_bridge.outputs`` or ``vil_bridge.scene_queries``, an entry point named after its ``type`` that
leads to a :class:`Plugin`. Listing plug-ins imports none of them.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from vil_bridge.config.base import PluginConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.installation import PACKAGE_FOLDERS, install_command, package_cure
from vil_bridge.interfaces.ports import Discover, OfflineRenderer
from vil_bridge.interfaces.services import services
from vil_bridge.interfaces.solid_world import SolidWorld


@dataclass(frozen=True, slots=True)
class Plugin:
    """Places of a plug-in's classes, written "module:Class".

    Attributes:
        config: its configuration model, a :class:`PluginConfig`.
        implementation: its class, constructed as ``Implementation(name, config)``.
        discover: coroutine function that searches the network
            (:class:`~vil_bridge.interfaces.ports.Discover`).
    """

    config: str
    implementation: str
    discover: str = ""


BUILT_IN: Final[Mapping[str, Mapping[str, Plugin]]] = {
    "sources": {
        "optitrack": Plugin(
            "vil_adapters.optitrack.config:OptitrackConfig",
            "vil_adapters.optitrack.source:OptitrackSource",
            "vil_adapters.optitrack.discovery:discover",
        ),
        "optitrack-legacy": Plugin(
            "vil_adapters.optitrack.config:LegacyOptitrackConfig",
            "vil_adapters.optitrack.legacy:LegacyOptitrackSource",
        ),
        "qualisys": Plugin(
            "vil_adapters.qualisys.config:QualisysConfig",
            "vil_adapters.qualisys.source:QualisysSource",
            "vil_adapters.qualisys.discovery:discover",
        ),
        "vrpn": Plugin(
            "vil_adapters.vrpn.config:VrpnConfig",
            "vil_adapters.vrpn.source:VrpnSource",
            "vil_adapters.vrpn.discovery:discover",
        ),
        "federation": Plugin(
            "vil_adapters.remote.config:RemoteConfig", "vil_adapters.remote.source:RemoteSource"
        ),
        "vicon": Plugin(
            "vil_adapters.vicon.config:ViconConfig",
            "vil_adapters.vicon.source:ViconSource",
            "vil_adapters.vicon.discovery:discover",
        ),
        "vicon-native": Plugin(
            "vil_adapters.vicon.config:ViconNativeConfig",
            "vil_adapters.vicon.native:ViconNativeSource",
        ),
        "tracker-udp": Plugin(
            "vil_adapters.vicon.config:TrackerUdpConfig",
            "vil_adapters.vicon.udp_source:TrackerUdpSource",
        ),
        "motion-file": Plugin(
            "vil_adapters.recording.config:RecordingConfig",
            "vil_adapters.recording.source:RecordingSource",
        ),
        "replay": Plugin(
            "vil_bridge.recording.config:McapConfig", "vil_bridge.recording.source:McapSource"
        ),
        "simulated": Plugin(
            "vil_simulation.source.config:SimulatedConfig",
            "vil_simulation.source.source:SimulatedSource",
        ),
        "mavlink-vehicle": Plugin(
            "vil_adapters.mavlink_vehicle.config:MavlinkVehicleConfig",
            "vil_adapters.mavlink_vehicle.source:MavlinkVehicleSource",
            "vil_adapters.mavlink_vehicle.discovery:discover",
        ),
        "mavlink-imu": Plugin(
            "vil_adapters.mavlink_imu.config:MavlinkImuConfig",
            "vil_adapters.mavlink_imu.source:MavlinkImuSource",
        ),
        "msp-imu": Plugin(
            "vil_adapters.msp_imu.config:MspImuConfig", "vil_adapters.msp_imu.source:MspImuSource"
        ),
        "onboard-imu": Plugin(
            "vil_adapters.onboard_imu.config:OnboardImuConfig",
            "vil_adapters.onboard_imu.source:OnboardImuSource",
        ),
    },
    "renderers": {
        "flightgoggles": Plugin(
            "vil_renderer.flightgoggles.config:FlightGogglesConfig",
            "vil_renderer.flightgoggles.client:FlightGogglesClient",
        ),
        "flightmare": Plugin(
            "vil_renderer.flightmare.config:FlightmareConfig",
            "vil_renderer.flightmare.client:FlightmareClient",
        ),
    },
    "scene_queries": {
        "embedded": Plugin(
            "vil_renderer.queries.config:EmbeddedQueriesConfig",
            "vil_renderer.queries.client:EmbeddedSceneQueries",
        ),
    },
    "outputs": {
        "mavlink-pose": Plugin(
            "vil_bridge.outputs.mavlink.config:MavlinkPoseConfig",
            "vil_bridge.outputs.mavlink.output:MavlinkPoseOutput",
        ),
        "mavlink-sensors": Plugin(
            "vil_bridge.outputs.mavlink.config:MavlinkSensorsConfig",
            "vil_bridge.outputs.mavlink.sensor_output:MavlinkSensorsOutput",
        ),
        "lcm": Plugin(
            "vil_bridge.outputs.lcm.config:LcmConfig", "vil_bridge.outputs.lcm.output:LcmOutput"
        ),
        "foxglove": Plugin(
            "vil_bridge.outputs.foxglove.config:FoxgloveConfig",
            "vil_bridge.outputs.foxglove.output:FoxgloveOutput",
        ),
        "ros2": Plugin(
            "vil_bridge.outputs.ros.config:Ros2Config",
            "vil_bridge.outputs.ros.ros2_output:Ros2Output",
        ),
        "ros-bag": Plugin(
            "vil_bridge.outputs.ros.config:RosBagConfig", "vil_bridge.outputs.ros.bag:RosBagOutput"
        ),
        "natnet": Plugin(
            "vil_bridge.outputs.natnet.config:NatNetOutputConfig",
            "vil_bridge.outputs.natnet.output:NatNetOutput",
        ),
        "vrpn": Plugin(
            "vil_bridge.outputs.vrpn.config:VrpnOutputConfig",
            "vil_bridge.outputs.vrpn.output:VrpnOutput",
        ),
        "rtp": Plugin(
            "vil_bridge.outputs.rtp.config:RtpConfig", "vil_bridge.outputs.rtp.output:RtpOutput"
        ),
    },
}

_SOLID_WORLD: Final = "vil_renderer.embedded.solid_world:load_solids"
_OFFLINE_RENDERER: Final = "vil_renderer.offline_renderer:open_renderer"

EXTRA_OF_MODULE: Final = {
    "cv2": "warp",
    "msgpack": "airsim",
    "scipy": "align",
    "moderngl": "gl",
    "glcontext": "gl",
    "PIL": "gl",
    "trimesh": "gl",
    "fcl": "gl",
    "qtm_rt": "qualisys",
    "natnetclient": "optitrack-legacy",
    "c3d": "c3d",
    "zenoh": "federation",
    "av": "video",
    "rosbags": "ros",
    "foxglove": "foxglove",
    "lcm": "lcm",
    "ompl": "plan",
    "pycolmap": "sfm",
    "numba": "sim",
    "pygeomag": "sim",
    "gymnasium": "learn",
    "stable_baselines3": "train",
    "ray": "ray",
}


def plugin_names(section: str) -> list[str]:
    """Return the types that a section of :data:`BUILT_IN` knows, sorted.

    Raises:
        ConfigError: two plug-ins have the same name.
    """
    return sorted(_plugins(section))


def resolve(section: str) -> dict[str, Callable[[], type[PluginConfig]]]:
    """Return the types of a section, each with a function that imports its model."""
    return {name: functools.partial(_config_model, section, name) for name in _plugins(section)}


def create(section: str, name: str, config: PluginConfig) -> Any:
    """Construct the implementation that ``config.type`` names.

    Raises:
        ConfigError: the plug-in or something that it needs is not installed.
    """
    return implementation(section, config.type)(name, config)


def implementation(section: str, type_name: str) -> Any:
    """Import the class that a type names.

    Raises:
        ConfigError: the plug-in or something that it needs is not installed.
    """
    return _import(type_name, _plugin(section, type_name).implementation)


def service(name: str) -> Any:
    """Import the class of a service.

    Raises:
        ConfigError: its package or something that it needs is not installed.
    """
    return _import(name, services()[name].implementation)


def solid_world(scene: str, floor_m: float | None) -> SolidWorld:
    """Return the solid parts of a scene of the embedded renderer.

    Args:
        scene: a shipped scene's name, or the path of a scene file.
        floor_m: height of a floor that is not part of this; None = the scene's own is.

    Raises:
        RendererError: no such scene, or it cannot be read.
        ConfigError: something that it needs is not installed.
    """
    found: SolidWorld = _import(scene, _SOLID_WORLD)(scene, floor_m)
    return found


def offline_renderer(scene: str) -> OfflineRenderer:
    """Return the embedded renderer for work without a clock.

    Args:
        scene: a shipped scene's name, or the path of a scene file.

    Raises:
        RendererError: no such scene, or no OpenGL.
        ConfigError: something that it needs is not installed.
    """
    found: OfflineRenderer = _import(scene, _OFFLINE_RENDERER)(scene)
    return found


def missing(module: str) -> str:
    """Return what to install if a module is absent; empty = it is present."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as exc:
        return explain_missing(exc)
    return ""


def searchable_sources() -> list[str]:
    """Return the types of sources whose servers can be discovered, sorted.

    Raises:
        ConfigError: two plug-ins have the same name.
    """
    return [name for name in plugin_names("sources") if _plugin("sources", name).discover]


def search_of(name: str) -> Discover:
    """Return the discovery function of a source type.

    Raises:
        ConfigError: something that it needs is not installed.
    """
    found: Discover = _import(name, _plugin("sources", name).discover)
    return found


def is_optional(error: ModuleNotFoundError) -> bool:
    """Return True if an extra brings the absent module, or it is one of our packages.

    Otherwise the installation is broken, or we have a bug.
    """
    module = (error.name or "").partition(".")[0]
    return module in EXTRA_OF_MODULE or module in PACKAGE_FOLDERS


def explain_missing(error: ModuleNotFoundError, extra: str = "") -> str:
    """Return what to install if a module is absent.

    Args:
        error: names the module.
        extra: brings it and all else that is needed; default: the smallest one that brings it.
    """
    module = (error.name or "").partition(".")[0]
    if module in PACKAGE_FOLDERS:
        return f"the package {module} is not installed: {package_cure(module)}"
    extra = extra or EXTRA_OF_MODULE.get(module, "")
    cure = install_command(extra) if extra else f"install the package that provides {module!r}"
    return f"the Python module {module!r} is not installed: {cure}"


@functools.lru_cache(maxsize=8)
def _installed(section: str, _path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of installed distributions; cached, since reading them takes long."""
    return tuple(entry_points(group=f"vil_bridge.{section}"))


def _plugins(section: str) -> dict[str, Plugin | EntryPoint]:
    found: dict[str, Plugin | EntryPoint] = dict(BUILT_IN[section])
    for entry in _installed(section, tuple(sys.path)):
        if entry.name in found:
            other = found[entry.name]
            owner = other.value if isinstance(other, EntryPoint) else "the bridge itself"
            raise ConfigError(
                f"two {section} are named {entry.name!r}: {owner} and {entry.value}; uninstall one"
            )
        found[entry.name] = entry
    return found


def _plugin(section: str, name: str) -> Plugin:
    entry = _plugins(section)[name]
    if isinstance(entry, Plugin):
        return entry
    plugin = _import(name, entry.value)
    if not isinstance(plugin, Plugin):
        raise ConfigError(f"type {name!r}: {entry.value} is not a vil_bridge.registry.Plugin")
    return plugin


def _config_model(section: str, name: str) -> type[PluginConfig]:
    place = _plugin(section, name).config
    model = _import(name, place)
    if not (isinstance(model, type) and issubclass(model, PluginConfig)):
        raise ConfigError(f"type {name!r}: {place} is not a PluginConfig")
    return model


def _import(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
    except ModuleNotFoundError as exc:
        raise ConfigError(f"type {name!r}: {explain_missing(exc)}") from exc
    except AttributeError as exc:
        raise ConfigError(f"type {name!r}: {place} does not exist") from exc
