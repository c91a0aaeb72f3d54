"""Simulated vehicles as a source: in bridge time, next to real ones (implements ``PoseSource``)."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.bridge_time import REAL_TIME, BridgeTime
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import (
    BoolArray,
    ClockExchange,
    FloatArray,
    ImuSample,
    SourceFrame,
    SourceReset,
)
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import Host, ProcessHost, ThreadHost
from vil_simulation.source.ipc import ClockUpdate, Order, SensorValues, StatusUpdate, VehicleBatch
from vil_simulation.source.mocap_model import MocapModel
from vil_simulation.source.ranging import RangingSensors
from vil_simulation.source.sensor_parts import RANGING_KINDS

logger = logging.getLogger(__name__)

_HOUSEKEEPING_S: Final = 0.25
_FIRST_EXCHANGES: Final = 3
"""Emitted before the first pose, so that its stamp is taken at its word."""
_MARGIN_S: Final = 0.25
"""Simulated time passes the newest pose by no more than this, and by no more than two poses."""
_ROUNDING_NS: Final = 1000
_SILENT_NS: Final = 2 * NS_PER_S
_OWN_PROCESS_FROM: Final = 9
"""Vehicles from which on the steps get a process of their own.

docs/guides/simulated.md has the measurement.
"""


class SimulatedSource:
    """The vehicles of one configuration; they start again with the source.

    Raises:
        ConfigError: a model or its parameters are wrong.
    """

    def __init__(self, name: str, config: SimulatedConfig) -> None:
        self.name = name
        self._config = config
        self._host: Host | None = None
        self._clock_sent = False
        self._sending_clock = threading.Lock()
        try:
            self.handler = CommandHandler(name, config, self._send)
        except ValueError as exc:
            raise ConfigError(f"sources.{name}.{exc}") from None
        waits = bool(config.programs()) and not config.mocap
        self._pose_period_ns = (
            waits * math.ceil(config.step_hz / config.rate_hz) * NS_PER_S // config.step_hz
        )
        own = len(self.handler.subjects) >= _OWN_PROCESS_FROM or bool(config.programs())
        self._own_process = own if config.process is None else config.process

    async def run(self, emit: Emit, status: Status, context: SourceContext) -> None:
        """Fly until cancelled.

        Raises:
            SourceUnavailable: another source simulates a vehicle of the same name, or the process
                ended.
        """
        status.waiting("loads and compiles the models")
        status.facts.update(
            subjects=list(self.handler.subjects),
            process=self._own_process,
            step_hz=self._config.step_hz,
        )
        config = self._config
        count = len(self.handler.subjects)
        mocap: MocapModel | None = None
        if config.mocap:
            mocap = MocapModel(count, {"rate_hz": config.rate_hz, **config.mocap}, config.seed)
        margin_ns = round(max(_MARGIN_S, 2.0 / config.rate_hz) * NS_PER_S)
        clock = context.clock
        emitter = _BatchEmitter(self.name, self.handler, emit, status, mocap, margin_ns, clock)
        emitter.ranging = self._ranging(emit, status, context)
        emitter.pose_period_ns = self._pose_period_ns
        host: Host = (ProcessHost if self._own_process else ThreadHost)(
            self.name, config, emitter.emit_batch
        )
        unwatch = clock.watch(lambda: self._send_clock(clock))
        try:
            await host.load()
            with context.vehicles.serving(self.name, self.handler.subjects, self.handler):
                emitter.begin(now_ns())
                self.handler.begin(emitter.start_ns)
                self._host = host
                for _ in range(_FIRST_EXCHANGES):
                    emitter.emit_clock()
                with self._sending_clock:
                    host.start(emitter.start_ns)
                self.handler.send_added()
                for scene, edit in context.vehicles.scene_edits():
                    self.handler.edit_scene(scene, edit)
                emitter.start_ranging()
                while True:
                    host.check()
                    emitter.check()
                    if not self._clock_sent:
                        self._send_clock(clock)
                    await asyncio.sleep(_HOUSEKEEPING_S)
        finally:
            unwatch()
            self._host = None
            host.stop()
            emitter.close()
            self.handler.end()
            clock.unbound(emitter)
            for source in emitter.sources:
                emit(SourceReset(source, "the simulation ended"))
            await host.ended()

    def _ranging(self, emit: Emit, status: Status, context: SourceContext) -> RangingSensors | None:
        """Return what casts the rays of distance sensors and lidars.

        None = nothing has such sensors here.
        """
        readings = self.handler.newest_readings
        contact = self._config.contact
        if contact is None or not any(sensor.kind in RANGING_KINDS for sensor in readings.sensors):
            return None
        if context.rays is None:
            return None
        return RangingSensors(
            self.name, contact.scene, context.rays, readings, emit, status, self._config.seed
        )

    def _send_clock(self, clock: BridgeTime) -> None:
        """Send the steps how time passes now; repeated later if too many orders wait.

        Any thread changes the clock. One sends at a time, so that what is sent last is the newest:
        the steps would stand where an older one ends.
        """
        with self._sending_clock:
            self._clock_sent = self._send(ClockUpdate.of(clock.mapping))

    def _send(self, order: Order) -> bool:
        return self._host is not None and self._host.send(order)


class _BatchEmitter:
    """Converter from batches of the steps to events of the source.

    Attributes:
        ranging: takes the poses of distance sensors and lidars; None = they are left out.
        pose_period_ns: within it a pose comes in any case, and pictures in simulated time wait for
            it; 0 = they do not.
        start_ns: bridge time of step 0. sources: names under which events were emitted.
    """

    def __init__(
        self,
        name: str,
        handler: CommandHandler,
        emit: Emit,
        status: Status,
        mocap: MocapModel | None,
        margin_ns: int,
        clock: BridgeTime,
    ) -> None:
        self.ranging: RangingSensors | None = None
        self.pose_period_ns = 0
        self.start_ns = 0
        self.sources: dict[str, None] = {name: None}
        self._name = name
        self._handler = handler
        self._emit = emit
        self._status = status
        self._mocap = mocap
        self._margin_ns = margin_ns
        self._clock = clock
        self._newest_ns = 0
        self._received_ns = 0
        self._bound_ns = 0
        self._frames = 0
        self._emitted_t_ns = -1
        self._links: dict[str, str] = {}
        self._ended: dict[str, str] = {}

    def begin(self, start_ns: int) -> None:
        """Step 0 is at this bridge time."""
        self.start_ns = self._newest_ns = start_ns
        self._received_ns = machine_ns()
        self._bound_time()

    def emit_clock(self) -> None:
        """Emit that the vehicles' clock is the bridge's own: an exchange that took no time.

        A mocap room has its own.
        """
        if self._mocap is not None:
            return
        t_ns = now_ns()
        self._emit(ClockExchange(self._name, t_ns, t_ns, t_ns))

    def emit_batch(self, batch: VehicleBatch) -> None:
        """Emit a batch."""
        t_arrival_ns = now_ns()
        states = batch.states()
        self._handler.update(batch, states)
        counters = self._status.counters
        counters["steps"] = batch.steps
        counters["late"] = batch.late
        counters["dropped"] = batch.dropped
        if batch.strangers:
            counters["foreign"] = batch.strangers
        if batch.notes is not None:
            counters["clipped"] = sum(note.clipped for note in batch.notes)
            pairs = zip(self._handler.subjects[: len(batch.notes)], batch.notes, strict=True)
            self._links = {subject: note.link for subject, note in pairs if note.link}
            if self._links:
                self._status.facts["autopilots"] = self._links
            self._note_ends(batch.notes)
        self._status.facts["behind_ms"] = round(batch.behind_ns / NS_PER_MS, 3)
        self._status.running()
        self._newest_ns, self._received_ns = self.start_ns + batch.t_ns, machine_ns()
        self._bound_time()
        for values in batch.sensors:
            self._emit_readings(values, t_arrival_ns)
        if batch.pose and self._mocap is not None and batch.t_ns > self._emitted_t_ns:
            self._emitted_t_ns = batch.t_ns
            start_ns = self.start_ns
            for seen in self._mocap.frames(batch.t_ns, states, self._name, self._handler.subjects):
                t_mocap_ns = start_ns + (seen.t_foreign_ns or 0)
                arrived_ns = start_ns + seen.t_arrival_ns
                tracked = seen.tracked & self._flying(seen.subjects)
                self._emit(
                    replace(seen, t_foreign_ns=t_mocap_ns, t_arrival_ns=arrived_ns, tracked=tracked)
                )
        elif batch.pose and self._mocap is None:
            self._emit_poses(batch, states, t_arrival_ns)

    def _note_ends(self, notes: list[StatusUpdate]) -> None:
        """Log the vehicles that have ended since, and show all that have."""
        pairs = zip(self._handler.subjects, notes, strict=False)
        ended = {subject: note.ended for subject, note in pairs if note.ended}
        for subject, problem in ended.items():
            if subject not in self._ended:
                self._status.counters["ended"] += 1
                logger.error("%s: %s", self._name, problem)
        for subject in self._ended.keys() - ended.keys():
            logger.info("%s: %s flies again after a reset", self._name, subject)
        if ended or self._ended:
            self._status.facts["ended"] = ended
        self._ended = ended

    def start_ranging(self) -> None:
        """Cast the rays of the poses that come."""
        if self.ranging is not None:
            self.ranging.start()

    def check(self) -> None:
        """Emit the clock, send vehicles that wait, and check that steps and rays go on.

        Raises what ended the rays.
        """
        if self.ranging is not None:
            self.ranging.check()
        self.emit_clock()
        self._handler.send_added()
        self._status.facts["subjects"] = list(self._handler.subjects)
        self._check_progress()

    def close(self) -> None:
        """End the rays."""
        if self.ranging is not None:
            self.ranging.close()

    def _check_progress(self) -> None:
        """Report when steps are due and none arrive."""
        silent_ns = machine_ns() - self._received_ns
        if silent_ns > _SILENT_NS and now_ns() - self._newest_ns >= self._margin_ns:
            links = [(subject, *link.split()) for subject, link in self._links.items()]
            absent = [
                f"{program} of {subject}" for subject, program, state in links if state == "absent"
            ]
            if absent:
                self._status.waiting(
                    f"waits for {', '.join(absent)}: start it; time stands until it has connected"
                )
                return
            self._status.waiting(
                "steps are due, but the vehicles' process or thread makes none: is it stopped?"
            )

    def _bound_time(self) -> None:
        """Let simulated time wait for vehicles that cannot keep up."""
        if (
            self._clock.mapping != REAL_TIME
            and self._newest_ns + self._margin_ns // 2 >= self._bound_ns
        ):
            self._bound_ns = self._newest_ns + self._margin_ns
            self._clock.bound(self, self._bound_ns)

    def _emit_readings(self, values: SensorValues, t_arrival_ns: int) -> None:
        sensor = self._handler.newest_readings.sensors[values.sensor]
        t_ns = self.start_ns + values.t_ns
        if sensor.kind in RANGING_KINDS:
            if self.ranging is not None:
                self.ranging.enqueue(values, t_ns)
            return
        rows = values.rows(len(sensor.vehicles))
        if not sensor.feeds_filter:
            subjects = tuple(vehicle.name for vehicle in sensor.vehicles)
            arrived_ns = max(t_arrival_ns, t_ns)
            times = t_ns, arrived_ns
            self._emit(
                SensorReadings(
                    self._name, sensor.name, sensor.kind, *times, subjects, rows, values.labels
                )
            )
            return
        for vehicle, row in zip(sensor.vehicles, rows, strict=True):
            source = f"{self._name}/{vehicle.name}"
            self.sources[source] = None
            self._emit(ImuSample(source, None, t_ns, row[4:7], row[7:10]))

    def _emit_poses(self, batch: VehicleBatch, states: FloatArray, t_arrival_ns: int) -> None:
        """Emit all poses, or those of vehicles that were put elsewhere while time stood still."""
        subjects = self._handler.subjects[: len(states)]
        rows = states
        if batch.placed:
            moved = sorted(set(batch.placed))
            names = tuple(subjects[i] for i in moved)
            self._emit(
                SourceReset(self._name, "vehicles were put elsewhere", clock=False, subjects=names)
            )
            if batch.t_ns <= self._emitted_t_ns:
                subjects = names
                rows = states[moved]
        self._frames += 1
        self._emitted_t_ns = batch.t_ns
        t_ns = self.start_ns + batch.t_ns
        if self.pose_period_ns and self._clock.mapping != REAL_TIME:
            self._clock.report(self, t_ns + self.pose_period_ns + _ROUNDING_NS)
        frame = SourceFrame(
            source=self._name,
            frame_number=self._frames,
            t_foreign_ns=t_ns,
            t_arrival_ns=max(t_arrival_ns, t_ns),
            subjects=subjects,
            p_m=rows[:, 0:3],
            q_xyzw=rows[:, 6:10],
            tracked=self._flying(subjects),
        )
        self._emit(frame)

    def _flying(self, subjects: tuple[str, ...]) -> BoolArray:
        """Return which vehicles have not ended."""
        return np.array([subject not in self._ended for subject in subjects])
