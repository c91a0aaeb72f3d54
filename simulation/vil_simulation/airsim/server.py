"""The AirSim server: the method table over the vehicles, the scene and the clock of a bridge."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from vil_bridge.interfaces.scene_queries import SceneQueries
from vil_bridge.runtime.access_tokens import Role
from vil_bridge.services.service import ClockControl
from vil_simulation.airsim.accepted_methods import AcceptedMethods
from vil_simulation.airsim.added_vehicles import AS_AIRSIM, AddedOptions, AddVehicleMethods
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.car_methods import CarMethods
from vil_simulation.airsim.clock_methods import ClockMethods, frame_s
from vil_simulation.airsim.controller_methods import ControllerMethods
from vil_simulation.airsim.detection_methods import DetectionMethods
from vil_simulation.airsim.flight_methods import FlightMethods
from vil_simulation.airsim.geometry_methods import GeometryMethods
from vil_simulation.airsim.image_methods import ImageMethods
from vil_simulation.airsim.marker_methods import MarkerMethods
from vil_simulation.airsim.methods import MethodTable
from vil_simulation.airsim.msgpack_rpc import RpcServer
from vil_simulation.airsim.object_methods import ObjectMethods
from vil_simulation.airsim.program_files import ProgramFiles
from vil_simulation.airsim.race_methods import RaceMethods, ServedRace
from vil_simulation.airsim.recorder import RecordingMethods, RecordingOptions
from vil_simulation.airsim.remote_methods import RemoteMethods
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.sensor_methods import SensorMethods
from vil_simulation.airsim.settings import AirsimSettings
from vil_simulation.airsim.sky_methods import SkyMethods
from vil_simulation.airsim.spline_methods import SplineMethods
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.turns import NEXT_TO_PICTURES, Shares
from vil_simulation.airsim.unserved import MISSING
from vil_simulation.airsim.vehicles import ServedVehicles
from vil_simulation.airsim.weather_methods import WeatherMethods
from vil_simulation.airsim.world_methods import WorldMethods
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

logger = logging.getLogger(__name__)

_READY_S: Final = 0.05


class AirsimServer:
    """Server of AirSim's RPC.

    Args:
        settings: what ``getSettingsString`` returns, and the place of the world on the Earth.
        vehicles, clock: of the bridge.
        scene: answers questions about what is to be seen; closed with the server.
        scene_name: the level's name.
        race: of the bridge; None = it has none.
        added: vehicles that programs add.
        shares: of the loop's time, for programs.
        role: of every program.
        folder: for the files of programs; None = as the settings say.

    Attributes:
        rpc: the connections and their counters. table: the methods.
    """

    def __init__(
        self,
        settings: AirsimSettings,
        vehicles: ServedVehicles,
        clock: ClockControl,
        scene: SceneQueries,
        scene_name: str,
        race: ServedRace | None = None,
        added: AddedOptions = AS_AIRSIM,
        shares: Shares = NEXT_TO_PICTURES,
        role: Role = Role.CONTROL,
        folder: Path | None = None,
    ) -> None:
        origin = GeoOrigin(*settings.origin_deg_m)
        served = ServedScene(scene, vehicles.actors)
        cameras = ServedCameras(settings.external_cameras)
        flight = FlightMethods(vehicles, origin)
        remote = RemoteMethods(vehicles, flight)
        cars = CarMethods(vehicles)
        on_reset = flight.release_control, remote.release_sticks, cars.release_controls
        states = StateMethods(
            vehicles, settings.text, origin, on_reset, clears_collisions=role.covers(Role.CONTROL)
        )
        images = ImageMethods(vehicles, cameras, served, lambda: frame_s(clock))
        options = RecordingOptions.of(settings.recording)
        if folder is not None:
            options = replace(options, folder=folder)
        self._recording = RecordingMethods(vehicles, images, options, clock.clock.now_ns)
        world = WorldMethods(vehicles, scene_name, races=race is not None)
        groups: Sequence[object] = (
            states,
            flight,
            remote,
            SplineMethods(vehicles, flight),
            ControllerMethods(vehicles),
            cars,
            ClockMethods(vehicles, clock),
            images,
            DetectionMethods(vehicles, cameras, served, states),
            SkyMethods(vehicles),
            WeatherMethods(vehicles),
            self._recording,
            SensorMethods(vehicles, served, clock),
            GeometryMethods(vehicles, served, states, ProgramFiles(options.folder)),
            MarkerMethods(vehicles, served),
            ObjectMethods(vehicles, served, states, origin, race),
            RaceMethods(vehicles, race),
            world,
            AddVehicleMethods(vehicles, settings, world, added),
            AcceptedMethods(vehicles),
        )
        self.table = MethodTable(groups, MISSING, role)
        self.rpc = RpcServer("airsim", self.table.call, shares=shares)
        self._scene = scene
        self._vehicles = vehicles

    async def until_ready(self) -> None:
        """Wait until the simulated vehicles fly and the scene can be drawn.

        Raises:
            RendererError: it cannot be drawn.
        """
        await self._scene.open()
        while not self._vehicles.ready():
            logger.debug("waits for the simulated vehicles")
            await asyncio.sleep(_READY_S)

    async def start(self, bind: str, port: int) -> int:
        """Listen; returns the port. Raises OSError: it cannot be had."""
        bound = await self.rpc.start(bind, port)
        await self._recording.start_as_configured()
        return bound

    async def close(self) -> None:
        """Close every connection, the recording and the scene."""
        try:
            await self.rpc.close()
            await self._recording.end()
        finally:
            await self._scene.close()
