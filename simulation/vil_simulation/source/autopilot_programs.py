"""Vehicles that autopilots' own programs fly.

Their sensors, their links, and when the steps wait for them.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, machine_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.sensor_readings import Vector
from vil_simulation.autopilots.links.ardupilot import ArduPilotLink
from vil_simulation.autopilots.links.ardupilot_port import ArduPilotPort
from vil_simulation.autopilots.links.betaflight import BetaflightLink
from vil_simulation.autopilots.links.link import AutopilotLink
from vil_simulation.autopilots.links.px4 import Px4Link
from vil_simulation.autopilots.links.px4_frames import Places
from vil_simulation.autopilots.links.px4_serial import Px4SerialLink
from vil_simulation.source.program_parts import parts_of
from vil_simulation.source.program_ports import commands_of, port_of, pose_port_of, rate_of
from vil_simulation.source.program_process import ProgramProcess, end_programs
from vil_simulation.source.program_sensors import ProgramSensors
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, Vehicle
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.environment.geodesy import GeoOrigin


def link_of(config: AutopilotProgramConfig, instance: int, origin: GeoOrigin) -> AutopilotLink:
    """Return the link to one program, closed."""
    timeout_s = config.timeout_ms / 1e3
    port = port_of(config, instance)
    if config.device is not None:
        return Px4SerialLink(config.device, config.baud, timeout_s)
    if port is None:
        return BetaflightLink(config.bind, timeout_s)
    if config.kind == "px4":
        return Px4Link(config.bind, port, timeout_s, places_of(origin))
    pose_port = pose_port_of(config, instance)
    zero = (origin.lat_deg, origin.lon_deg, origin.h_m)
    poses = None if pose_port is None else ArduPilotPort(pose_port, zero)
    return ArduPilotLink(config.bind, port, timeout_s, poses)


def places_of(origin: GeoOrigin) -> Places:
    """Return how to find a position's latitude and longitude, degrees, and altitude, metres."""

    def place(p_world_m: Vector) -> Vector:
        latitude, longitude, altitude = origin.to_geodetic(p_world_m)
        return float(latitude), float(longitude), float(altitude)

    return place


class AutopilotPrograms:
    """Links of all vehicles of a source that programs fly.

    Args:
        groups: of vehicles. vehicles: of each group. step_hz: steps per second. origin: place of
            the room's zero.
        seed: of all noise.

    Attributes:
        waits: how often an answer was waited for.
    """

    def __init__(
        self,
        groups: Sequence[VehicleGroup],
        vehicles: Sequence[Sequence[Vehicle]],
        step_hz: int,
        origin: GeoOrigin,
        seed: int,
    ) -> None:
        self._flown = [
            _ProgramGroup(group, part, step_hz, origin, seed)
            for group, part in zip(groups, vehicles, strict=True)
            if isinstance(part[0].config.autopilot, AutopilotProgramConfig)
        ]
        self._links = [link for flown in self._flown for link in flown.links]
        self.waits = 0
        self._open = False
        self._holds = False

    @property
    def strangers(self) -> int:
        """Datagrams that came from elsewhere than the programs."""
        return sum(link.strangers for link in self._links)

    def next_exchanges(self, step: int, due: int) -> list[int]:
        """Return the step after which each group's next sample is taken.

        Those in real time leave late ones out.
        """
        return [flown.next_exchange(step, due) for flown in self._flown]

    def open(self, *, holds: bool) -> None:
        """Open the links.

        ``holds``: no step is made before every program in lockstep has connected.

        Raises:
            SourceUnavailable: a port is taken.
        """
        self._holds = holds
        for flown in self._flown:
            flown.open()
        self._open = bool(self._flown)

    def close(self) -> None:
        """End the programs, all at the same time, and close the links."""
        end_programs(process for flown in self._flown for process in flown.processes)
        for flown in self._flown:
            flown.close()
        self._open = False

    def listen(self) -> None:
        """Take what has come, and note changes; for times at which no step is due."""
        if self._open:
            for link in self._links:
                link.receive()
                link.check()
            for flown in self._flown:
                flown.apply()
                flown.check()

    def exchange(self, step: int, *, late: bool) -> None:
        """Send the samples that are due after a step."""
        for flown in self._flown:
            if step % flown.every == 0:
                flown.exchange(late=late)

    def ready(self, patience_ns: int) -> bool:
        """Return True once no program owes an answer.

        Waits for that no longer than ``patience_ns``.
        """
        if not self._open:
            return True
        until_ns = machine_ns() + patience_ns
        while True:
            waiting = [link for link in self._links if link.waiting or self._held(link)]
            if not waiting:
                self._holds = False
                self._apply()
                return True
            self.waits += 1
            now_ns = machine_ns()
            ends_ns = min([until_ns, *(link.due_ns for link in waiting if link.due_ns is not None)])
            poll = select.poll()
            for link in waiting:
                for fd in link.descriptors():
                    poll.register(fd, select.POLLIN)
            poll.poll(max(0, ends_ns - now_ns) / NS_PER_MS)
            for link in waiting:
                link.receive()
                link.check()
            if machine_ns() >= until_ns and any(
                link.waiting or self._held(link) for link in waiting
            ):
                self._apply()
                return False

    def _held(self, link: AutopilotLink) -> bool:
        return self._holds and link.lockstep and link.state == "absent"

    def _apply(self) -> None:
        for flown in self._flown:
            flown.apply()


class _ProgramGroup:
    """Vehicles of one entry, each flown by a program of its own."""

    def __init__(
        self,
        group: VehicleGroup,
        vehicles: Sequence[Vehicle],
        step_hz: int,
        origin: GeoOrigin,
        seed: int,
    ) -> None:
        config = vehicles[0].config.autopilot
        assert isinstance(config, AutopilotProgramConfig)
        self.links: Final = [
            link_of(config, config.instance + i, origin) for i in range(len(vehicles))
        ]
        self.every: Final = step_hz // rate_of(config)
        self._lockstep = all(link.lockstep for link in self.links)
        self._config = config
        assert group.program is not None
        self._group = group
        self._rc_us = group.program.rc_us
        self._vehicles = tuple(vehicles)
        self._sensors = ProgramSensors(config, rate_of(config), group, vehicles, origin, seed)
        self._parts = parts_of(config, group, vehicles, seed)
        self._open = False
        self.processes: Final = [
            ProgramProcess(vehicle.name, command, folder, config.environment)
            for i, vehicle in enumerate(vehicles)
            for command, folder in commands_of(config, vehicle.name, config.instance + i)
        ]
        self._seen = [(link.answers, link.state, "") for link in self.links]

    def open(self) -> None:
        """Open the links. Raises SourceUnavailable: a port is taken."""
        self._open = True
        for i, (link, vehicle) in enumerate(zip(self.links, self._vehicles, strict=True)):
            try:
                link.open()
            except OSError as exc:
                raise SourceUnavailable(
                    f"{vehicle.name}: {_unopened(self._config, self._config.instance + i, exc)}"
                ) from None

        for process in self.processes:
            process.start()

    def check(self) -> None:
        """Start programs again that have ended."""
        # There are as many, or no programs.
        for process, link in zip(self.processes, self.links, strict=False):
            if process.check():
                link.program_ended()

    def close(self) -> None:
        """Close the links."""
        for link in self.links:
            link.close()

    def exchange(self, *, late: bool) -> None:
        """Measure, and send to each program."""
        taking = [link.takes(late=late) for link in self.links]
        if self._open and not any(taking):
            self.apply()
            return
        truth = self._group.truth()
        samples = self._sensors.samples(truth, self._rc_us)
        if self._parts is not None:
            samples = self._parts.added(samples, truth)
        if not self._open:
            return  # a first run, which compiles
        for link, sample in zip(self.links, samples, strict=True):
            link.send(sample)
        self.apply()

    def next_exchange(self, step: int, due: int) -> int:
        """Return the step after which the next sample is taken."""
        following = step + self.every - step % self.every
        return following if self._lockstep else max(following, due - due % self.every)

    def apply(self) -> None:
        """Let the motors follow the newest outputs; note what state the links are in."""
        for row, link in enumerate(self.links):
            seen = link.answers, link.state, link.note
            if seen != self._seen[row]:
                state = f"{self._config.kind} {link.state}{link.note}"
                self._group.drive(row, link.motors, state, armed=link.armed)
                self._seen[row] = seen


def _unopened(config: AutopilotProgramConfig, instance: int, exc: OSError) -> str:
    """Return why a link cannot be opened, and the cure."""
    if config.device is not None:
        return (
            f"cannot open {config.device}: {exc.strerror or exc}. Connect the flight "
            "controller, or set another device"
        )
    port = port_of(config, instance)
    where = "its fixed ports" if port is None else f"port {port}"
    return (
        f"cannot listen for {config.kind} on {config.bind}, {where}: {exc.strerror}. End "
        "the program that has it, or "
        "set another autopilot.instance or port"
    )
