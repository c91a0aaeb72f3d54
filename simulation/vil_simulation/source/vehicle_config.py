"""Plain data of a simulated vehicle's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from vil_bridge.config.base import PathText, StrictModel, custom
from vil_bridge.core.sensor_readings import SensorKind
from vil_simulation.autopilots.links.poses import PoseKind
from vil_simulation.source.autopilot_parts import (
    AutopilotAirspeed,
    AutopilotBattery,
    AutopilotFlow,
    AutopilotMotors,
    AutopilotRange,
)

IDEAL: Final = "ideal"

IMU_NAME: Final = "imu"
"""Name of the sensor that the key ``imu`` configures."""

MOST_VEHICLES: Final = 1000

_Metres = Annotated[float, Field(ge=-1e6, le=1e6)]

_Wind = Annotated[float, Field(ge=-100, le=100)]

_Point = tuple[_Metres, _Metres, _Metres]

MOST_SENSORS: Final = 32

SensorName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=60)]

VehicleName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=60)]


AutopilotPath = Literal["hover", "circle", "lemniscate", "waypoints", "none"]

PATHS: Final[tuple[AutopilotPath, ...]] = get_args(AutopilotPath)


class AutopilotConfig(StrictModel):
    """Flight of a vehicle without a pilot."""

    kind: AutopilotPath = Field(
        default="hover",
        description="hover = stay at the start; none = the model's neutral command.",
    )
    radius_m: float = Field(
        default=2.0, gt=0, le=1000, description="circle, lemniscate: around the start, metres."
    )
    speed_mps: float = Field(
        default=1.0, gt=0, le=100, description="Along the path, metres per second."
    )
    points_m: tuple[_Point, ...] = Field(
        default=(),
        max_length=200,
        description="waypoints: flown in this order and again from the first, relative to the "
        "start, metres.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind == "waypoints") != (len(self.points_m) > 0):
            raise custom("points_m belong to kind: waypoints, which needs at least one")
        return self


AutopilotProgram = Literal["px4", "ardupilot", "betaflight"]

PROGRAMS: Final[tuple[AutopilotProgram, ...]] = get_args(AutopilotProgram)


class AutopilotPart(StrictModel):
    """A sensor that an autopilot's program reads."""

    preset: str = Field(
        default=IDEAL, max_length=64, description="A real part's errors, or ideal = none."
    )
    parameters: dict[str, Any] = Field(
        default={}, description="Single values of the part, as of `sensors:`."
    )


class AutopilotPose(StrictModel):
    """Pose that motion capture gives to an autopilot's program."""

    kind: PoseKind = Field(
        default="ODOMETRY",
        description="Message: ODOMETRY in a room that is not aligned with north; "
        "VISION_POSITION_ESTIMATE and "
        "GPS_INPUT (ardupilot) with north along the room's y.",
    )
    rate_hz: float = Field(
        default=50.0, gt=0, le=1000, description="Poses per second, at most one per sample."
    )
    delay_ms: float = Field(
        default=0.0, ge=0, le=1000, description="From the pose to its message, milliseconds."
    )
    position_m: float = Field(
        default=0.0005, ge=0, le=10, description="Standard deviation of each axis, metres."
    )
    attitude_rad: float = Field(
        default=0.001, ge=0, le=1, description="Standard deviation of each axis, radians."
    )
    velocity_mps: float = Field(
        default=0.01, ge=0, le=10, description="Standard deviation of each axis, m/s."
    )
    port: int | None = Field(
        default=None,
        ge=1024,
        le=65_535,
        description="ArduPilot: its MAVLink TCP port, for instance 0; null = 5762, SERIAL1.",
    )


class AutopilotProgramConfig(StrictModel):
    """Flight of a vehicle by an autopilot's own program, over its simulator interface."""

    kind: AutopilotProgram = Field(
        description="px4, ardupilot: in lockstep, one sample of the sensors is one step of the "
        "program; betaflight: in "
        "real time."
    )
    instance: int = Field(
        default=0,
        ge=0,
        le=250,
        description="Number of the program, which its ports follow; clones count on.",
    )
    bind: str = Field(default="127.0.0.1", max_length=64, description="Address of our end.")
    port: int | None = Field(
        default=None,
        ge=1024,
        le=65_535,
        description="Our port for instance 0; null = 4560 of PX4, 9002 of ArduPilot. Betaflight's "
        "are fixed.",
    )
    device: str | None = Field(
        default=None,
        max_length=4096,
        description="PX4: serial device of a flight controller in HITL, instead of a program; "
        "needs `clock: real`.",
    )
    baud: int = Field(
        default=921_600, ge=1200, le=12_000_000, description="Bits per second; USB ignores it."
    )
    command: tuple[str, ...] = Field(
        default=(),
        max_length=100,
        description="The program and its arguments: it is started, watched and started again; "
        "{instance}, {vehicle} "
        "and {port} are filled in. Empty = it is started elsewhere.",
    )
    folder: PathText = Field(
        default="autopilots/{vehicle}",
        min_length=1,
        max_length=4096,
        description="In which the program runs, made if absent; its output goes to output.log "
        "there.",
    )
    environment: dict[str, str] = Field(
        default={},
        max_length=200,
        description="Environment of the program that `command` starts, where the bridge's own does "
        "not set it.",
    )
    namespace: bool = Field(
        default=False,
        description="Give the program that `command` starts, with our end of its link, a network "
        "namespace of its own; "
        "needs the right to make one.",
    )
    rate_hz: int | None = Field(
        default=None,
        ge=50,
        le=4000,
        description="Samples per second of simulated time, a divisor of step_hz; null = 250 of "
        "PX4, 1200 of ArduPilot, "
        "1000 of Betaflight.",
    )
    timeout_ms: float = Field(
        default=2000.0,
        gt=0,
        le=60_000,
        description="A program that does not answer for longer is silent: its motors stop, "
        "milliseconds.",
    )
    imu: AutopilotPart = Field(
        default=AutopilotPart(
            preset="bmi088", parameters={"accel": {"white": 1.6e-3, "walk": 2e-4}}
        ),
        description="Gyroscope and accelerometer, with the range that `parameters` state, else "
        "with none. The preset's "
        "own bias walks by 0.01 m/s2 a minute, which PX4's filter does not follow.",
    )
    magnetometer: AutopilotPart = Field(
        default=AutopilotPart(preset="airsim"), description="Magnetometer."
    )
    barometer: AutopilotPart = Field(
        default=AutopilotPart(preset="ms5611", parameters={"drift": 0.0, "noise_pa": 1.2}),
        description="Barometer, with the noise that its data sheet states at the highest "
        "resolution.",
    )
    gps: AutopilotPart | None = Field(
        default=AutopilotPart(
            preset="airsim",
            parameters={
                "latency_s": 0.11,
                "noise_horizontal_m": 0.01,
                "noise_vertical_m": 0.02,
                "noise_mps": 0.02,
            },
        ),
        description="Satellite receiver; null = indoors. Its noise is that from reading to "
        "reading: PX4 puts its "
        "origin, and with it the floor, where one reading says.",
    )
    gps_hz: float = Field(
        default=10.0, gt=0, le=100, description="Readings of the receiver per second."
    )
    motors: AutopilotMotors = Field(
        default=AutopilotMotors(), description="From its outputs to rotor speeds."
    )
    battery: AutopilotBattery | None = Field(
        default=None, description="null = rotors have all the power they ask for."
    )
    airspeed: AutopilotAirspeed | None = Field(
        default=None, description="px4, ardupilot: pitot tube; null = none."
    )
    range_finder: AutopilotRange | None = Field(
        default=None, description="px4, ardupilot: downwards; null = none."
    )
    optical_flow: AutopilotFlow | None = Field(
        default=None, description="px4: of a camera downwards; null = none."
    )
    pose: AutopilotPose | None = Field(
        default=None,
        description="Motion capture's pose, to PX4 on the same link, to ArduPilot on its MAVLink "
        "port; null = none.",
    )

    @model_validator(mode="after")
    def _namespace_of_a_child(self) -> Self:
        if self.namespace and not self.command:
            raise custom(
                "namespace is for a program that the bridge starts in it; set command "
                "(`vil-bridge sitl`: --command)"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_program(self) -> Self:
        if self.device is not None and (self.kind != "px4" or self.command):
            raise custom(
                "device is for kind: px4 on a flight controller, without a command that "
                "starts a program"
            )
        if self.kind == "betaflight" and (self.airspeed or self.range_finder):
            raise custom(
                "airspeed and range_finder: Betaflight's simulator takes neither; remove them"
            )
        if self.optical_flow is not None and self.kind != "px4":
            raise custom(
                f"optical_flow is for kind: px4; {self.kind}'s simulator takes none, remove it"
            )
        pose = self.pose
        if pose is not None and self.kind == "betaflight":
            raise custom("pose is for kind: px4 or ardupilot; remove it. betaflight takes no poses")
        if (
            pose is not None
            and self.kind == "px4"
            and (pose.kind == "GPS_INPUT" or pose.port is not None)
        ):
            raise custom(
                "pose.kind: GPS_INPUT and pose.port are for kind: ardupilot; remove "
                "them. px4 takes poses on its "
                "simulator's link, and fixes by gps"
            )
        return self


def _flown_by(value: object) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "program" if kind in PROGRAMS else "path"


class ImuConfig(StrictModel):
    """An inertial sensor; an actor takes it as `imu: SOURCE/VEHICLE`."""

    preset: str = Field(
        default=IDEAL, description="A real part's noise and bias, or ideal = neither."
    )
    rate_hz: float = Field(
        default=200.0, gt=0, le=10_000, description="Samples per second, at most one a step."
    )


class SensorConfig(StrictModel):
    """A sensor on a vehicle, whose readings the bridge hands out."""

    type: SensorKind = Field(
        description="imu, barometer, magnetometer, gps; rotors = speeds, thrusts and torques of "
        "the rotors; controls = the command that the model obeys; distance = ranges of "
        "beams, and lidar = points: both "
        "need the source's `contact: {scene}`; beacons = ranges to fixed points."
    )
    preset: str = Field(
        default=IDEAL,
        max_length=64,
        description="A real part's errors, or ideal = none: imu has those of `imu:`; barometer "
        "ms5611; magnetometer "
        "and gps airsim.",
    )
    rate_hz: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="Readings per second, at most one a step; null = the part's own, or 200 where "
        "it has none.",
    )
    parameters: dict[str, Any] = Field(
        default={},
        description="Single values of the part, by names of vil_simulation.vehicles.sensors: "
        "latency_s, startup_s, "
        "noise_pa, mounting: {p_body_m, q_body_sensor}...",
    )


class WindConfig(StrictModel):
    """Moving air."""

    mean_mps: tuple[_Wind, _Wind, _Wind] = Field(
        default=(0.0, 0.0, 0.0), description="Mean velocity, east, north, up, m/s."
    )
    gusts_mps: float = Field(
        default=0.0,
        ge=0,
        le=50,
        description="Dryden gusts (MIL-F-8785C, low altitude) of this wind at 6 m height, m/s; 0 = "
        "none.",
    )


class ContactConfig(StrictModel):
    """Response to contact with the floor, the source's scene, or surfaces that a renderer
    reports.
    """

    response: Literal["bounce", "reset", "none"] = Field(
        default="bounce",
        description="bounce = rigid contact with the surfaces that the renderer reports; where it "
        "reports a collision "
        "only, and for reset: back to the start, disarmed, as FlightGoggles does.",
    )
    radius_m: float = Field(
        default=0.15, gt=0, le=10, description="The vehicle's sphere for contacts, metres."
    )
    length_m: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Length of a row of such spheres along the body's x axis, from the first "
        "middle to the last, "
        "metres; 0 = one sphere.",
    )
    height_m: float = Field(
        default=0.0,
        ge=-10,
        le=10,
        description="Height of the spheres' middles above the vehicle's origin, metres.",
    )
    restitution: float = Field(
        default=0.3, ge=0, le=1, description="Share of the normal speed that remains."
    )
    friction: float = Field(default=0.5, ge=0, le=10, description="Coulomb coefficient.")
    reach_m: float = Field(
        default=1.0,
        gt=0,
        le=20,
        description="Surfaces this near to a camera with `collision: true` are asked of the "
        "renderer, metres: at least "
        "the way flown from a picture to the next.",
    )
    floor_m: float | None = Field(
        default=0.0,
        ge=-1e4,
        le=1e4,
        description="Height of a floor for vehicles' origins, metres; null = none.",
    )


class VehicleConfig(StrictModel):
    """A simulated vehicle, or several that differ by their place alone."""

    model: str = Field(
        min_length=1,
        max_length=64,
        description="flightgoggles, flightmare, airsim, kinematic, car, bicycle, or an entry point "
        "of the group vil_bridge.vehicles.",
    )
    preset: str = Field(
        default="", max_length=64, description="Named parameters of the model; empty = its default."
    )
    parameters: dict[str, Any] = Field(
        default={}, description="Single parameters of the model, with its own names and units."
    )
    compat: bool = Field(
        default=False,
        description="Reproduce the original simulator's slips instead of the right equations; "
        "airsim: in moves, too.",
    )
    mode: str = Field(
        default="",
        max_length=64,
        description="What commands hold at first, as the model names it; empty = its default.",
    )
    count: int = Field(
        default=1,
        ge=1,
        le=MOST_VEHICLES,
        description="How many; several are named NAME_1, NAME_2... and stand in a square grid.",
    )
    spacing_m: float = Field(
        default=2.0, gt=0, le=1000, description="Between neighbours of the grid, metres."
    )
    p_m: _Point = Field(
        default=(0.0, 0.0, 1.0), description="Start (of the first) in the room's frame, metres."
    )
    yaw_deg: float = Field(
        default=0.0, ge=-360, le=360, description="Heading at the start, from x to y, degrees."
    )
    armed: bool = Field(default=True, description="Whether the motors obey from the start.")
    command_delay_ms: float = Field(
        default=0.0,
        ge=0,
        le=10_000,
        description="From a command's time to its effect, milliseconds.",
    )
    command_timeout_ms: float = Field(
        default=500.0,
        gt=0,
        le=3_600_000,
        description="A pilot that is silent for longer is gone, milliseconds.",
    )
    on_timeout: Literal["hover", "neutral", "hold"] = Field(
        default="hover",
        description="What follows then: hover in place (neutral where the model has no autopilot), "
        "the model's neutral "
        "command, or the last command for ever.",
    )
    autopilot: Annotated[
        Annotated[AutopilotConfig, Tag("path")] | Annotated[AutopilotProgramConfig, Tag("program")],
        Discriminator(_flown_by),
    ] = Field(
        default=AutopilotConfig(),
        description="What it flies without a pilot, or the autopilot's program that flies it.",
    )
    imu: ImuConfig | None = Field(
        default=None,
        description="Inertial sensor that an actor takes, named imu among the sensors; null = "
        "none.",
    )
    sensors: dict[SensorName, SensorConfig] = Field(
        default={},
        max_length=MOST_SENSORS,
        description="Further sensors by name; their readings are handed out.",
    )
    wind: WindConfig = Field(default=WindConfig(), description="Wind and gusts.")
    rotor_radius_m: float = Field(
        default=0.1, gt=0, le=10, description="ground_effect, downwash: radius of a rotor, metres."
    )
    ground_effect: bool = Field(default=False, description="More thrust near the floor.")
    downwash: bool = Field(
        default=False, description="Vehicles of this entry push those below them."
    )
    contact: ContactConfig = Field(default=ContactConfig(), description="Collisions.")

    @field_validator("autopilot", mode="before")
    @classmethod
    def _known_autopilot(cls, value: object) -> object:
        kind = value.get("kind", "hover") if isinstance(value, dict) else "hover"
        if kind not in (*PATHS, *PROGRAMS):
            raise custom(f"kind {kind!r} is not known; known: {', '.join((*PATHS, *PROGRAMS))}")
        return value

    @model_validator(mode="after")
    def _one_sensor_a_name(self) -> Self:
        if self.imu is not None and IMU_NAME in self.sensors:
            raise custom(
                f"sensors.{IMU_NAME} and imu are two sensors of one name; rename the one "
                "among the sensors"
            )
        return self


@dataclass(frozen=True, slots=True)
class Vehicle:
    """One vehicle.

    Attributes:
        index: its number in the source. p_m: its start, (3,), room frame.
    """

    index: int
    name: str
    config: VehicleConfig
    p_m: tuple[float, float, float]
