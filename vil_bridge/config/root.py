"""Configuration of a bridge: the model of one YAML file.

Sections name each other (an actor its source, a camera its actor and renderer); those references
are checked here. The sections of plug-ins are read by the plug-in's own model, found by ``type``
through the resolver that :func:`vil_bridge.config.load.load` passes as validation context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from vil_bridge.config.base import (
    Name,
    PluginConfig,
    SourceConfigBase,
    StrictModel,
    TransformConfig,
    check_size,
    custom,
)
from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.federation import FederationConfig
from vil_bridge.config.http import HttpConfig
from vil_bridge.config.lighting import LightingConfig
from vil_bridge.config.listening import port_problems
from vil_bridge.config.references import (
    MOST_ACTORS,
    RIGHT,
    similar,
    with_every_actor,
)
from vil_bridge.config.sections import every_problem, with_service_sections
from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.config.stream import StreamConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import ActorKind

__all__ = [
    "ActorConfig",
    "BridgeConfig",
    "HttpConfig",
    "RealtimeConfig",
    "Resolver",
    "RoomConfig",
    "StreamConfig",
    "TrackingPolicy",
    "WallsConfig",
    "plugin_model",
]

Resolver = Callable[[str], Mapping[str, Callable[[], type[PluginConfig]]]]
"""Section ("sources", "renderers", "outputs") to its known types.

Each value imports the type's model.
"""


class WallsConfig(StrictModel):
    """Box that a room's actors shall not leave."""

    min_m: tuple[float, float, float] = Field(
        description="Its lower corner in the room's frame, metres."
    )
    max_m: tuple[float, float, float] = Field(
        description="Its upper corner in the room's frame, metres."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not all(low < high for low, high in zip(self.min_m, self.max_m, strict=True)):
            raise custom("min_m must be smaller than max_m along each axis")
        return self


class RoomConfig(StrictModel):
    """A tracked room and its place in the shared world."""

    T_world_room: TransformConfig = Field(
        default=TransformConfig(), description="The room's frame (z up) in the shared world (ENU)."
    )
    walls: WallsConfig | None = Field(
        default=None,
        description="Virtual walls: warned of when an actor is about to leave them; none = no "
        "walls.",
    )
    margin_m: float = Field(
        default=0.5,
        ge=0,
        le=100,
        description="Warn when its actors come this near to those of another room in the virtual "
        "world, metres.",
    )


class TrackingPolicy(StrictModel):
    """Times at which a lost body changes state, and what its pictures do then."""

    coast_after_ms: float = Field(
        default=30.0,
        gt=0,
        le=60_000,
        description="Age from which a body is `coasting` (predicted), milliseconds.",
    )
    stale_after_ms: float = Field(
        default=250.0,
        gt=0,
        le=60_000,
        description="Age from which a body is `stale`, milliseconds.",
    )
    lost_after_ms: float = Field(
        default=1000.0,
        gt=0,
        le=600_000,
        description="Age from which a body is `lost`, milliseconds.",
    )
    max_speed_mps: float = Field(
        default=30.0,
        gt=0,
        le=1000,
        description="A sample that asks for more is refused until others confirm it, m/s.",
    )
    max_rate_dps: float = Field(
        default=2292.0,
        gt=0,
        le=36_000,
        description="The same for turning, degrees per second (flips, swapped labels).",
    )
    frozen_after_ms: Annotated[float, Field(gt=0, le=60_000)] | Literal["auto", "never"] = Field(
        default="auto",
        description="A pose that repeats to the bit for longer is `frozen`, milliseconds; auto = "
        "200 for systems whose "
        "poses carry noise (optitrack, vicon, vrpn, qualisys), never for others.",
    )
    on_loss: Literal["hold", "blank", "stop"] = Field(
        default="stop",
        description="Cameras of a lost actor: hold the last pose, send a blank picture, or stop "
        "sending.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.coast_after_ms < self.stale_after_ms < self.lost_after_ms:
            raise custom("must grow: coast_after_ms < stale_after_ms < lost_after_ms")
        return self


class ActorConfig(StrictModel):
    """A body of the shared world: a vehicle, a human or a prop, tracked by one source."""

    kind: ActorKind = Field(description="What it is: vehicle, human (a skeleton) or prop.")
    source: str = Field(description="Name of the source that tracks it.")
    subject: str = Field(
        min_length=1, max_length=255, description="Its name in the source, as Motive shows it."
    )
    T_body_markers: TransformConfig = Field(
        default=TransformConfig(),
        description="The tracked rigid body (its pivot and axes) in the body frame (FLU).",
    )
    count: int = Field(
        default=1,
        ge=1,
        le=MOST_ACTORS,
        description="How many: several are the actors NAME_1, NAME_2... with the subjects "
        "SUBJECT_1, SUBJECT_2...",
    )
    imu: str | None = Field(
        default=None,
        description="Name of the source with its inertial samples, SOURCE/SUBJECT where it has "
        "several; none = no IMU.",
    )
    T_body_imu: TransformConfig = Field(
        default=TransformConfig(), description="The IMU's axes (FLU) in the body frame (FLU)."
    )
    prefab: str = Field(
        default="", max_length=255, description="Name of the renderer's model; empty = its default."
    )
    size_m: tuple[float, float, float] = Field(
        default=(0.35, 0.35, 0.12), description="Bounding box along the body's x, y, z, metres."
    )
    tracking: TrackingPolicy = Field(
        default=TrackingPolicy(), description="What happens when tracking is lost."
    )

    @field_validator("T_body_markers", "T_body_imu")
    @classmethod
    def _on_the_body(cls, mount: TransformConfig) -> TransformConfig:
        check_size(mount.p_m, "lies off the body by")
        return mount

    @field_validator("size_m")
    @classmethod
    def _positive(cls, size_m: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(size_m) <= 0.0:
            raise custom("every side must be larger than 0 m")
        check_size(size_m, "a side of")
        return size_m


class DebugConfig(StrictModel):
    """Data stored for the later analysis of a problem."""

    packet_capture: Path | None = Field(
        default=None,
        description="Folder for captures (pcap) of the datagrams of sources over UDP, at most 1 "
        "GiB each; none = none.",
    )


class RealtimeConfig(StrictModel):
    """Scheduling that the daemon requests from the operating system."""

    fifo_priority: int = Field(
        default=20,
        ge=0,
        le=99,
        description="SCHED_FIFO priority where allowed; 0 = do not ask for it.",
    )


def _read_plugin(
    value: Any, read_base: Callable[[Any], PluginConfig], info: ValidationInfo
) -> PluginConfig:
    """Read one plug-in section with the model of its ``type``; its errors keep their places."""
    resolve: Resolver | None = (info.context or {}).get("resolve")
    if isinstance(value, PluginConfig) or not isinstance(value, Mapping) or resolve is None:
        return read_base(value)
    name = value.get("type")
    if name is None:
        meant = [(str(key), similar(str(key), ["type"])) for key in value if key != "type"]
        wrong = [
            InitErrorDetails(type=custom(f"unknown key{hint}"), loc=(k,), input=k)
            for k, hint in meant
            if hint
        ]
        missing = InitErrorDetails(type="missing", loc=("type",), input=value)
        raise ValidationError.from_exception_data("section", [missing, *wrong])
    section = str(info.field_name)
    try:
        model = plugin_model(section, name, resolve)
    except ConfigError as exc:
        raise _error(custom(str(exc)), ("type",), name) from None
    if model is None:
        known = resolve(section)
        text = f"unknown type {name!r}; known: {', '.join(sorted(known))}{similar(name, known)}"
        raise _error(custom(text), ("type",), name)
    return model.model_validate(dict(value), context=info.context)


def plugin_model(section: str, name: object, resolve: Resolver) -> type[PluginConfig] | None:
    """Return the model of a plug-in's configuration, None if the section has no such type.

    Raises:
        ConfigError: the plug-in cannot be imported; the text says what to install.
    """
    known = resolve(section)
    return known[name]() if isinstance(name, str) and name in known else None


def _error(kind: str | PydanticCustomError, loc: tuple[str, ...], value: object) -> ValidationError:
    return ValidationError.from_exception_data(
        "section", [InitErrorDetails(type=kind, loc=loc, input=value)]
    )


Plugin = Annotated[SerializeAsAny[PluginConfig], WrapValidator(_read_plugin)]


@with_service_sections
class BridgeConfig(StrictModel):
    """Whole bridge: rooms, sources, actors, renderers, cameras, outputs and ports.

    The services' sections follow its own.
    """

    version: Literal[1] = Field(description="Version of the file format.")
    name: str = Field(
        default="vil-bridge",
        min_length=1,
        max_length=64,
        description="Name shown on the status page.",
    )
    rooms: dict[Name, RoomConfig] = Field(default={}, description="Tracked rooms by name.")
    sources: dict[Name, Plugin] = Field(default={}, description="Mocap systems and IMUs by name.")
    actors: dict[Name, ActorConfig] = Field(
        default={}, description="Bodies of the shared world by name."
    )
    renderers: dict[Name, Plugin] = Field(default={}, description="Renderer connections by name.")
    cameras: dict[Name, CameraConfig] = Field(default={}, description="Virtual cameras by name.")
    require_cameras: bool = Field(
        default=True,
        description="false = this bridge is meant to have no camera, and is ready without one.",
    )
    lighting: LightingConfig = Field(
        default=LightingConfig(), description="Light of the virtual world."
    )
    stream: StreamConfig = Field(
        default=StreamConfig(), description="The stream to the onboard computers."
    )
    outputs: dict[Name, Plugin] = Field(
        default={}, description="Outputs by name: video, ROS, LCM, poses to an autopilot."
    )
    http: HttpConfig = Field(default=HttpConfig(), description="The status page and REST.")
    federation: FederationConfig = Field(
        default=FederationConfig(), description="Actors that bridges in other rooms receive."
    )
    debug: DebugConfig = Field(
        default=DebugConfig(), description="Data stored for the later analysis of a problem."
    )
    simulation: SimulationConfig = Field(default=SimulationConfig(), description="How time passes.")
    realtime: RealtimeConfig = Field(
        default=RealtimeConfig(), description="Scheduling of the daemon."
    )

    def section(self, key: str) -> Any:
        """Return a section by its key, a service's too. Raises AttributeError: none has it."""
        return getattr(self, key)

    def every_camera(self) -> dict[str, CameraConfig]:
        """Return the cameras by name, each stereo pair's right one after its left one."""
        found: dict[str, CameraConfig] = {}
        for name, camera in self.cameras.items():
            found[name] = camera
            if camera.stereo_baseline_m is not None:
                found[name + RIGHT] = camera.right_camera(camera.stereo_baseline_m)
        return found

    def left_of(self, camera: str) -> str:
        """Return the left camera of the pair whose right one this is; empty for all others."""
        return "" if camera in self.cameras else camera.removesuffix(RIGHT)

    @model_validator(mode="before")
    @classmethod
    def _every_actor(cls, data: Any) -> Any:
        return with_every_actor(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _real_rooms_in_real_time(self) -> Self:
        if self.simulation.clock == "simulated":
            for name, source in self.sources.items():
                problem = source.needs_real_time() if isinstance(source, SourceConfigBase) else ""
                if problem:
                    raise _error(custom(problem), ("sources", name, "type"), source.type)
        return self

    @model_validator(mode="after")
    def _outputs_without_humans(self) -> Self:
        problems = [
            InitErrorDetails(
                type=custom(
                    f"{actor!r} is a human, who has no single pose: {output.type} sends "
                    "rigid actors only."
                    " Take it out; `ros2`, `ros-bag`, `lcm`, `foxglove` and recordings carry humans"
                ),
                loc=("outputs", name, "actors", i),
                input=actor,
            )
            for name, output in self.outputs.items()
            if not getattr(output, "takes_humans", True)
            for i, actor in enumerate(getattr(output, "actors", ()))
            if actor in self.actors and self.actors[actor].kind is ActorKind.HUMAN
        ]
        if problems:
            raise ValidationError.from_exception_data("outputs", problems)
        return self

    @model_validator(mode="after")
    def _ports(self) -> Self:
        problems = port_problems(self, len(self.every_camera()))
        if problems:
            raise ValidationError.from_exception_data(
                "ports",
                [InitErrorDetails(type=custom(p.reason), loc=p.path, input=None) for p in problems],
            )
        return self

    @model_validator(mode="after")
    def _references(self) -> Self:
        problems = every_problem(self.model_dump(mode="json"))
        if problems:
            raise ValidationError.from_exception_data(
                "references",
                [InitErrorDetails(type=custom(p.reason), loc=p.path, input=None) for p in problems],
            )
        return self
