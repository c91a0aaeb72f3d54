"""A flight for identification.

Poses of a tracked actor, and the commands and the model of its twin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vil_bridge.assembly.recorded import recorded_config, recording_metadata
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.sensor_readings import ControlsReading
from vil_bridge.recording.export.measurements import readings
from vil_bridge.recording.reader import Recording
from vil_bridge.world.twin.pose_series import PoseSeries
from vil_simulation.dataset.plan import RecordedPath
from vil_simulation.dataset.recorded_trajectory import recorded_poses
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.twins.identification import Fittable
from vil_simulation.twins.rollouts import CommandLog
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor


class RecordedTwinFlight(NamedTuple):
    """Poses of the vehicle, and commands and model of its twin; times from one zero."""

    model: Fittable
    poses: PoseSeries
    commands: CommandLog


def recorded_flight(file: Path, actor: str, twin: str) -> RecordedTwinFlight:
    """Read a flight.

    Args:
        file: recording of ours.
        actor: the tracked vehicle.
        twin: a simulated vehicle with a sensor of type ``controls``.

    Raises:
        ConfigError: no such actor, the twin has no commands, or its model cannot be fitted.
        RecordingError: the file cannot be read.
    """
    seen = recorded_poses(RecordedPath(file=file, subject=actor))
    with Recording(file) as recording:
        config = recorded_config(recording)
        facts = recording_metadata(config, recording.utc_offset_ns, recording.version)
        obeyed = [
            (found.t_utc_ns, found.reading.mode, found.reading.values)
            for found in readings(recording, facts)
            if found.actor.name == twin and isinstance(found.reading, ControlsReading)
        ]
    if not obeyed:
        raise ConfigError(
            f"{file} has no commands of {twin!r}: give the simulated vehicle the sensor "
            f"controls: {{type: controls, "
            "rate_hz: 120}} before the flight is recorded"
        )
    mode = obeyed[-1][1]
    model = _model_of(config, twin, mode)
    begin_ns = int(seen.t_ns[0])
    rows = [(t_ns, values) for t_ns, of_mode, values in obeyed if of_mode == mode]
    t_s = (np.array([t_ns for t_ns, _ in rows], np.int64) - begin_ns) / NS_PER_S
    poses = PoseSeries((seen.t_ns - begin_ns) / NS_PER_S, seen.p_m, seen.q_xyzw)
    return RecordedTwinFlight(
        model, poses, CommandLog(t_s, np.array([values for _, values in rows]))
    )


def _model_of(config: Any, twin: str, mode: str) -> Fittable:
    """Return the model of a simulated vehicle.

    Raises ConfigError: there is none that can be fitted.
    """
    actor = config.actors.get(twin)
    source = None if actor is None else config.sources.get(actor.source)
    if (
        actor is None
        or not isinstance(source, SimulatedConfig)
        or actor.subject not in source.vehicles
    ):
        raise ConfigError(
            f"{twin!r} is not an actor that a source of type simulated flies: name the "
            "twin with --twin"
        )
    model = ModelFactory(source.vehicles[actor.subject]).make(mode)
    if not isinstance(model, FlightGogglesMulticopter | FlightmareQuadrotor):
        raise ConfigError(
            f"{twin}: parameters of model {source.vehicles[actor.subject].model!r} cannot be fitted"
        )
    return model
