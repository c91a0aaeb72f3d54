"""Methods that fly a simulated vehicle.

Each answers when its move ends (microsoft/AirSim, MultirotorApiBase.cpp).
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_commands import CancelCommand, MoveCommand, VehicleCommand
from vil_bridge.interfaces.vehicle_moves import (
    MOST_POINTS,
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    Move,
    MoveEnd,
    PathMove,
    Point,
    RatesMove,
    RotorsMove,
    TakeoffMove,
    TurnMove,
    TurnRateMove,
    VelocityMove,
    YawGoal,
)
from vil_simulation.airsim.frames import body_of, heading_of, world_of, world_points
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import (
    Altitude,
    Degrees,
    DegreesPerSecond,
    Duration,
    Factor,
    Latitude,
    Longitude,
    Metres,
    MetresPerSecond,
    Radians,
    RadiansPerSecond,
    Share,
)
from vil_simulation.airsim.values import Points, Vector3r, YawMode
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.physical_ranges import TIMEOUT

_FORWARD_ONLY: Final = 1
_POLL_S: Final = 0.01


class FlightMethods:
    """Moves of simulated multirotors, and who may command them.

    Args:
        origin: the world on the Earth.
    """

    def __init__(self, vehicles: ServedVehicles, origin: GeoOrigin) -> None:
        self._vehicles = vehicles
        self._origin = origin
        self._controlled: set[str] = set()
        self._newest: dict[str, asyncio.Future[MoveEnd]] = {}

    def release_control(self) -> None:
        """Take API control from every vehicle, as ``reset`` does."""
        self._controlled.clear()

    def commands(self, name: str) -> bool:
        """Return True while programs command a vehicle."""
        return name in self._controlled

    @method("enableApiControl")
    def enable_api_control(self, is_enabled: bool, vehicle_name: str = "") -> None:
        """Say that programs command a vehicle, or no longer."""
        vehicle, _ = self._vehicles.commanded(vehicle_name)
        (self._controlled.add if is_enabled else self._controlled.discard)(vehicle.name)

    @method("isApiControlEnabled")
    def is_api_control_enabled(self, vehicle_name: str = "") -> bool:
        """Return True while programs command a vehicle."""
        return self.commands(self._vehicles.find(vehicle_name).name)

    @method("armDisarm")
    def arm_disarm(self, arm: bool, vehicle_name: str = "") -> bool:
        """Let the motors obey, or stop them.

        False without API control, and for a vehicle that is disarmed already.
        """
        vehicle, subject = self._vehicles.commanded(vehicle_name)
        if not self.commands(vehicle.name) or (
            not arm and not self._vehicles.bus.of(subject).state(subject).armed
        ):
            return False
        self._vehicles.bus.send(subject, VehicleCommand("arm" if arm else "disarm"))
        return True

    @method("takeoff")
    async def takeoff(self, timeout_sec: Duration, vehicle_name: str = "") -> bool:
        """Climb by two metres."""
        return await self.fly(vehicle_name, TakeoffMove(timeout_sec))

    @method("land")
    async def land(self, timeout_sec: Duration, vehicle_name: str = "") -> bool:
        """Sink until the floor holds the vehicle."""
        return await self.fly(vehicle_name, LandMove(timeout_sec))

    @method("goHome")
    async def go_home(self, timeout_sec: Duration, vehicle_name: str = "") -> bool:
        """Fly back to the start."""
        return await self.fly(vehicle_name, HomeMove(timeout_sec))

    @method("hover")
    async def hover(self, vehicle_name: str = "") -> bool:
        """Stay where the vehicle is."""
        return await self.fly(vehicle_name, HoverMove())

    @method("cancelLastTask")
    def cancel_last_task(self, vehicle_name: str = "") -> None:
        """End the running move."""
        _, subject = self._vehicles.commanded(vehicle_name)
        self._vehicles.bus.send(subject, CancelCommand())

    @method("waitOnLastTask")
    async def wait_on_last_task(
        self, timeout_sec: float = math.nan, vehicle_name: str = ""
    ) -> bool:
        """Wait for the end of the newest move and return its result.

        A name of the drone racing lab.

        False after ``timeout_sec`` of simulated time and where there was no move; NaN waits as long
        as it takes.
        """
        if not math.isnan(timeout_sec):
            TIMEOUT.check("timeout_sec", [timeout_sec])
        _, subject = self._vehicles.commanded(vehicle_name)
        move = self._newest.get(subject)
        bus = self._vehicles.bus
        begun_ns = bus.of(subject).state(subject).t_ns
        while move is not None and not move.done():
            flown_ns = bus.of(subject).state(subject).t_ns - begun_ns
            if flown_ns / NS_PER_S >= timeout_sec:
                return False
            await asyncio.wait([move], timeout=_POLL_S)
        return move is not None and not move.cancelled() and move.result().reached

    @method("moveByVelocity")
    async def move_by_velocity(
        self,
        vx: MetresPerSecond,
        vy: MetresPerSecond,
        vz: MetresPerSecond,
        duration: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        vehicle_name: str = "",
    ) -> bool:
        """Fly at a velocity of the world."""
        vehicle = self._vehicles.find(vehicle_name)
        v_mps = self.in_room(vehicle, Vector3r(vx, vy, vz))
        return await self.fly(
            vehicle_name, VelocityMove(v_mps, duration, yaw_goal(vehicle, yaw_mode, drivetrain))
        )

    @method("moveByVelocityBodyFrame")
    async def move_by_velocity_body(
        self,
        vx: MetresPerSecond,
        vy: MetresPerSecond,
        vz: MetresPerSecond,
        duration: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        vehicle_name: str = "",
    ) -> bool:
        """Fly at a velocity of the heading at the call; z stays down."""
        vehicle = self._vehicles.find(vehicle_name)
        v_mps = _three(body_of(Vector3r(vx, vy, vz)))
        move = VelocityMove(
            v_mps, duration, yaw_goal(vehicle, yaw_mode, drivetrain), in_heading=True
        )
        return await self.fly(vehicle_name, move)

    @method("moveByVelocityZ")
    async def move_by_velocity_z(
        self,
        vx: MetresPerSecond,
        vy: MetresPerSecond,
        z: Metres,
        duration: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        vehicle_name: str = "",
    ) -> bool:
        """Fly at a horizontal velocity and a height."""
        vehicle = self._vehicles.find(vehicle_name)
        v_mps = self.in_room(vehicle, Vector3r(vx, vy, 0.0))
        z_m = self._height(vehicle, z)
        return await self.fly(
            vehicle_name,
            VelocityMove(v_mps, duration, yaw_goal(vehicle, yaw_mode, drivetrain), z_m=z_m),
        )

    @method("moveByVelocityZBodyFrame")
    async def move_by_velocity_z_body(
        self,
        vx: MetresPerSecond,
        vy: MetresPerSecond,
        z: Metres,
        duration: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        vehicle_name: str = "",
    ) -> bool:
        """Fly at a velocity of the heading at the call, and a height."""
        vehicle = self._vehicles.find(vehicle_name)
        v_mps = _three(body_of(Vector3r(vx, vy, 0.0)))
        z_m = self._height(vehicle, z)
        move = VelocityMove(
            v_mps, duration, yaw_goal(vehicle, yaw_mode, drivetrain), in_heading=True, z_m=z_m
        )
        return await self.fly(vehicle_name, move)

    @method("moveOnPath")
    async def move_on_path(
        self,
        path: Points,
        velocity: MetresPerSecond,
        timeout_sec: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        lookahead: Metres = -1.0,
        adaptive_lookahead: Factor = 1.0,
        vehicle_name: str = "",
    ) -> bool:
        """Fly along a path."""
        vehicle = self._vehicles.find(vehicle_name)
        if len(path) > MOST_POINTS:
            raise ValueError(
                f"a path has at most {MOST_POINTS} points, not {len(path)}: fly it in parts"
            )
        points_m = tuple(self.points(vehicle, path))
        yaw = yaw_goal(vehicle, yaw_mode, drivetrain)
        return await self.fly(
            vehicle_name,
            PathMove(points_m, velocity, timeout_sec, yaw, lookahead, adaptive_lookahead),
        )

    @method("moveToPosition")
    async def move_to_position(
        self,
        x: Metres,
        y: Metres,
        z: Metres,
        velocity: MetresPerSecond,
        timeout_sec: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        lookahead: Metres = -1.0,
        adaptive_lookahead: Factor = 1.0,
        vehicle_name: str = "",
    ) -> bool:
        """Fly to a point."""
        return await self.move_on_path(
            np.array([[x, y, z]]), velocity, timeout_sec, drivetrain, yaw_mode, lookahead,
            adaptive_lookahead,
            vehicle_name,
        )  # fmt: skip

    @method("moveToZ")
    async def move_to_z(
        self, z: Metres, velocity: MetresPerSecond, timeout_sec: Duration, yaw_mode: YawMode,
        lookahead: Metres = -1.0,
        adaptive_lookahead: Factor = 1.0, vehicle_name: str = "",
    ) -> bool:  # fmt: skip
        """Fly to a height."""
        vehicle = self._vehicles.find(vehicle_name)
        p_m = self._vehicles.motion(vehicle).T_world_body.p_m - vehicle.origin_m
        here = np.array([[p_m[1], p_m[0], z]])
        return await self.move_on_path(
            here, velocity, timeout_sec, 0, yaw_mode, lookahead, adaptive_lookahead, vehicle_name
        )

    @method("moveToGPS")
    async def move_to_gps(
        self,
        latitude: Latitude,
        longitude: Longitude,
        altitude: Altitude,
        velocity: MetresPerSecond,
        timeout_sec: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        lookahead: Metres = -1.0,
        adaptive_lookahead: Factor = 1.0,
        vehicle_name: str = "",
    ) -> bool:
        """Fly to a place on the Earth."""
        vehicle = self._vehicles.find(vehicle_name)
        p_m = self._origin.to_world(latitude, longitude, altitude) - vehicle.origin_m
        goal = np.array([[p_m[1], p_m[0], -p_m[2]]])
        return await self.move_on_path(
            goal,
            velocity,
            timeout_sec,
            drivetrain,
            yaw_mode,
            lookahead,
            adaptive_lookahead,
            vehicle_name,
        )

    @method("rotateToYaw")
    async def rotate_to_yaw(
        self, yaw: Degrees, timeout_sec: Duration, margin: Degrees = 5.0, vehicle_name: str = ""
    ) -> bool:
        """Turn to a heading in place, degrees."""
        heading_rad = self._vehicles.find(vehicle_name).yaw_in_room(heading_of(yaw))
        return await self.fly(
            vehicle_name, TurnMove(heading_rad, math.radians(margin), timeout_sec)
        )

    @method("rotateByYawRate")
    async def rotate_by_yaw_rate(
        self, yaw_rate: DegreesPerSecond, duration: Duration, vehicle_name: str = ""
    ) -> bool:
        """Turn at a rate in place, degrees per second."""
        return await self.fly(vehicle_name, TurnRateMove(-math.radians(yaw_rate), duration))

    @method("moveByRollPitchYawZ")
    async def move_by_roll_pitch_yaw_z(
        self,
        roll: Radians,
        pitch: Radians,
        yaw: Radians,
        z: Metres,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:
        """Hold an attitude and a height."""
        vehicle = self._vehicles.find(vehicle_name)
        z_m = self._height(vehicle, z)
        return await self.fly(
            vehicle_name, AttitudeMove(roll, -pitch, _heading(vehicle, yaw), duration, z_m=z_m)
        )

    @method("moveByRollPitchYawThrottle")
    async def move_by_roll_pitch_yaw_throttle(
        self,
        roll: Radians,
        pitch: Radians,
        yaw: Radians,
        throttle: Share,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:
        """Hold an attitude and a throttle."""
        heading = _heading(self._vehicles.find(vehicle_name), yaw)
        return await self.fly(
            vehicle_name, AttitudeMove(roll, -pitch, heading, duration, throttle=throttle)
        )

    @method("moveByRollPitchYawrateThrottle")
    async def move_by_roll_pitch_yawrate_throttle(
        self,
        roll: Radians,
        pitch: Radians,
        yaw_rate: RadiansPerSecond,
        throttle: Share,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:
        """Hold roll and pitch, a yaw rate and a throttle."""
        return await self.fly(
            vehicle_name,
            AttitudeMove(roll, -pitch, YawGoal(-yaw_rate), duration, throttle=throttle),
        )

    @method("moveByRollPitchYawrateZ")
    async def move_by_roll_pitch_yawrate_z(
        self,
        roll: Radians,
        pitch: Radians,
        yaw_rate: RadiansPerSecond,
        z: Metres,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:
        """Hold roll and pitch, a yaw rate and a height."""
        z_m = self._height(self._vehicles.find(vehicle_name), z)
        return await self.fly(
            vehicle_name, AttitudeMove(roll, -pitch, YawGoal(-yaw_rate), duration, z_m=z_m)
        )

    @method("moveByAngleRatesZ")
    async def move_by_angle_rates_z(
        self,
        roll_rate: RadiansPerSecond,
        pitch_rate: RadiansPerSecond,
        yaw_rate: RadiansPerSecond,
        z: Metres,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:
        """Turn at body rates at a height."""
        z_m = self._height(self._vehicles.find(vehicle_name), z)
        return await self.fly(
            vehicle_name, RatesMove((roll_rate, -pitch_rate, -yaw_rate), duration, z_m=z_m)
        )

    @method("moveByAngleRatesThrottle")
    async def move_by_angle_rates_throttle(
        self,
        roll_rate: RadiansPerSecond,
        pitch_rate: RadiansPerSecond,
        yaw_rate: RadiansPerSecond,
        throttle: Share,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:
        """Turn at body rates with a throttle."""
        w_radps = (roll_rate, -pitch_rate, -yaw_rate)
        return await self.fly(vehicle_name, RatesMove(w_radps, duration, throttle=throttle))

    @method("moveByMotorPWMs")
    async def move_by_motor_pwms(
        self, front_right: Share, rear_left: Share, front_left: Share, rear_right: Share,
        duration: Duration,
        vehicle_name: str = "",
    ) -> bool:  # fmt: skip
        """Give each rotor its control."""
        controls = (front_right, rear_left, front_left, rear_right)
        return await self.fly(vehicle_name, RotorsMove(controls, duration))

    async def fly(self, name: str, move: Move) -> bool:
        """Fly a move to its end. Raises ValueError: the vehicle refuses it."""
        _, subject = self._vehicles.commanded(name)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[MoveEnd] = loop.create_future()

        def end(result: MoveEnd) -> None:
            if not ended.done():
                ended.set_result(result)

        self._vehicles.bus.send(subject, MoveCommand(move, end))
        self._newest[subject] = ended
        # Other programs may wait for the move of one that is gone.
        result = await asyncio.shield(ended)
        if result.problem:
            raise ValueError(result.problem)
        return result.reached

    def in_room(self, vehicle: ServedVehicle, v_ned: Vector3r) -> Point:
        """Return a vector in the frame of a vehicle's simulation."""
        return _three(self._vehicles.in_room(vehicle, world_of(v_ned)))

    def point(self, vehicle: ServedVehicle, p_ned: Vector3r) -> Point:
        """Return a point, relative to a vehicle's start, in the frame of its simulation."""
        return _three(self._vehicles.point_in_room(vehicle, world_of(p_ned) + vehicle.origin_m))

    def points(self, vehicle: ServedVehicle, p_ned: FloatArray) -> list[Point]:
        """Return points (n, 3), relative to a vehicle's start, in the frame of its simulation."""
        p_m = self._vehicles.point_in_room(vehicle, world_points(p_ned) + vehicle.origin_m)
        return [(x, y, z) for x, y, z in p_m.tolist()]

    def _height(self, vehicle: ServedVehicle, z: float) -> float:
        return self.point(vehicle, Vector3r(0.0, 0.0, z))[2]


def _three(v: FloatArray) -> Point:
    x, y, z = np.asarray(v).tolist()
    return x, y, z


def _heading(vehicle: ServedVehicle, yaw_rad: float) -> YawGoal:
    """Return a heading clockwise from north, radians, as a goal."""
    return YawGoal(vehicle.yaw_in_room(0.5 * math.pi - yaw_rad), by_rate=False)


def yaw_goal(vehicle: ServedVehicle, mode: YawMode, drivetrain: int) -> YawGoal:
    """Return the heading of a move.

    Relative to the course where the drivetrain flies forward only.
    """
    if mode.is_rate:
        return YawGoal(
            -math.radians(mode.yaw_or_rate), by_rate=True, ahead=drivetrain == _FORWARD_ONLY
        )
    if drivetrain == _FORWARD_ONLY:
        return YawGoal(-math.radians(mode.yaw_or_rate), by_rate=False, ahead=True)
    return YawGoal(vehicle.yaw_in_room(heading_of(mode.yaw_or_rate)), by_rate=False)
