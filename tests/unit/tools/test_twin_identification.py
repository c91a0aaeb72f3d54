"""Identification: a vehicle with another mass, drag, motors and delay is found again, and its
twin converges.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.twin_flights import STEPS_PER_S, TrackedFlight, brisk_path, fly
from vil_bridge.assembly.recorded import recording_metadata
from vil_bridge.cli.main import app
from vil_bridge.config.load import load_text
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_exp
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import SourceEvent, SourceFrame
from vil_bridge.offline.playback import Timeline
from vil_bridge.recording.recorder import Recorder
from vil_bridge.registry import resolve
from vil_bridge.world.twin.metrics import hausdorff_m, rms
from vil_bridge.world.twin.pose_series import PoseSeries
from vil_simulation.twins.identification import divergence_m, identify
from vil_simulation.twins.rollouts import CommandLog, value_of, with_values
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import KINGFISHER
from vil_simulation.vehicles.multicopter import MulticopterParameters

pytest.importorskip(
    "numba", reason="without compiled models it takes minutes: pip install '.[sim]'"
)

DELAY_STEPS = 24
TRUTH = {
    "mass_kg": 1.22,
    "drag_ns2pm2": 0.16,
    "thrust_ns2": 1.75e-6,
    "torque_nms2": 2.3e-7,
    "motor_time_constant_s": 0.028,
    "delay_s": DELAY_STEPS / STEPS_PER_S,
}
KNOWN = FlightGogglesMulticopter()
_CHANGED: dict[str, Any] = {name: value for name, value in TRUTH.items() if name != "delay_s"}
REAL = FlightGogglesMulticopter(replace(MulticopterParameters(), **_CHANGED))
FITTED_S = 18.0


@pytest.fixture(scope="module")
def flight() -> TrackedFlight:
    return fly(REAL, KNOWN, DELAY_STEPS, brisk_path(1, 24.0), 24.0, 1)


def test_each_parameter_is_found_within_5_percent_and_its_uncertainty(
    flight: TrackedFlight,
) -> None:
    fitted, held_out = flight.cut(0.0, FITTED_S), flight.cut(FITTED_S, 24.0)
    found = identify(KNOWN, *fitted)
    assert set(found.parameters) == set(TRUTH)
    for name, true in TRUTH.items():
        value = found.parameters[name]
        assert value.value == pytest.approx(true, rel=0.05), name
        assert abs(value.value - true) < 3.0 * value.sd, name
        assert value.sd < 0.05 * true, name
    assert found.position_m == pytest.approx(5e-4, rel=0.2)
    assert found.rotation_rad == pytest.approx(1e-3, rel=0.2)
    before_m = divergence_m(KNOWN, *held_out, 0.0, window_s=1.0)
    after_m = divergence_m(found.model, *held_out, found.delay_s, window_s=1.0)
    assert after_m < before_m / 5.0

    path = brisk_path(7, 12.0)  # the same reference, flown by the vehicle and by both twins
    real, naive, twin = (
        fly(model, KNOWN, steps, path, 12.0, 2).poses.p_m
        for model, steps in (
            (REAL, DELAY_STEPS),
            (KNOWN, 0),
            (found.model, round(found.delay_s * STEPS_PER_S)),
        )
    )
    assert rms(twin - real) < rms(naive - real) / 5.0
    assert hausdorff_m(twin, real) < hausdorff_m(naive, real) / 5.0


@pytest.mark.parametrize("flights", [4, pytest.param(8, marks=pytest.mark.long)])
def test_the_stated_uncertainty_covers_the_errors_of_several_flights(flights: int) -> None:
    truth = {name: TRUTH[name] for name in ("mass_kg", "drag_ns2pm2")}
    known = FlightGogglesMulticopter(replace(REAL.parameters, mass_kg=1.0, drag_ns2pm2=0.1))
    exact = fly(REAL, KNOWN, DELAY_STEPS, brisk_path(2, 6.0), 6.0, 0)
    scores = []
    for seed in range(flights):
        noise_m = np.random.default_rng(seed).normal(scale=1e-3, size=exact.poses.p_m.shape)
        noisy = PoseSeries(exact.poses.t_s, exact.poses.p_m + noise_m, exact.poses.q_xyzw)
        found = identify(known, noisy, exact.commands, (*truth, "delay_s"), window_s=0.5)
        for name, true in (truth | {"delay_s": TRUTH["delay_s"]}).items():
            scores.append((found.parameters[name].value - true) / found.parameters[name].sd)
    assert np.abs(scores).max() < 3.5
    assert 0.4 < rms(np.array(scores)) < 1.4  # neither too small nor stated far too large


def test_flightmares_quadrotor_is_found_too() -> None:
    truth = {
        "mass_kg": 0.9,
        "drag_linear_nspm[0]": 0.36,
        "thrust_scale": 0.93,
        "motor_time_s": 0.045,
    }
    known = FlightmareQuadrotor(KINGFISHER, "thrusts")
    real = FlightmareQuadrotor(with_values(KINGFISHER, truth), "thrusts")
    flown = fly(real, known, 29, brisk_path(3, 12.0), 12.0, 3)
    found = identify(known, *flown, (*truth, "delay_s"))
    for name, true in (truth | {"delay_s": 29 / STEPS_PER_S}).items():
        value = found.parameters[name]
        assert value.value == pytest.approx(true, rel=0.05), name
        assert abs(value.value - true) < 3.0 * value.sd, name


def test_the_mean_of_commands_is_exact_and_continuous_in_the_delay() -> None:
    commands = CommandLog(np.array([0.0, 0.1, 0.2]), np.array([[1.0], [3.0], [-1.0]]))
    t_s = np.array([[-1.0, 0.0, 0.05, 0.09, 0.15, 5.0]])
    assert commands.means(t_s, 0.02, 0.0)[0, :, 0] == pytest.approx([1.0, 1.0, 1.0, 2.0, 3.0, -1.0])
    assert commands.means(t_s, 0.02, 0.1)[0, :, 0] == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    assert commands.means(np.array([0.1]), 0.02, 0.005)[0, 0] == pytest.approx(2.5)


def test_what_does_not_show_or_is_unknown_is_refused() -> None:
    t_s = np.arange(0.0, 4.0, 0.01)
    still = PoseSeries(
        t_s, np.tile((0.0, 0.0, 1.0), (400, 1)), np.tile(q_exp(np.zeros(3)), (400, 1))
    )
    hover = CommandLog(t_s, np.full((400, 4), KNOWN.parameters.hover_radps))
    with pytest.raises(ValueError, match="not every parameter shows"):
        identify(KNOWN, still, hover)
    with pytest.raises(ValueError, match="no parameter 'wings'"):
        identify(KNOWN, still, hover, ("wings",))
    with pytest.raises(ValueError, match="at least three are wanted"):
        identify(KNOWN, still, CommandLog(t_s[:90], hover.values[:90]))
    with pytest.raises(ValueError, match=r"starts at 0\.0"):
        identify(FlightmareQuadrotor(mode="thrusts"), still, hover, ("drag_linear_nspm[1]",))
    with pytest.raises(ValueError, match="of one number"):
        value_of(KNOWN.parameters, "inertia_kgm2")
    with pytest.raises(ValueError, match="strictly increase"):
        CommandLog(t_s[::-1], hover.values)
    with pytest.raises(ValueError, match="commands have shapes"):
        CommandLog(t_s, hover.values[:3])


CONFIG = """
version: 1
rooms: {hall: {}}
sources:
  mocap: {type: simulated, room: hall, vehicles: {real: {model: flightgoggles}}}
  sim:
    type: simulated
    room: hall
    vehicles: {twin: {model: flightgoggles, mode: motor_speeds,
        sensors: {controls: {type: controls, rate_hz: 240}}}}
actors:
  drone: {kind: vehicle, source: mocap, subject: real}
  drone_sim: {kind: vehicle, source: sim, subject: twin}
"""


def recorded(path: Path, flown: TrackedFlight) -> Path:
    """A recording of the flight, as a bridge with the vehicle and its twin writes it."""
    config = load_text(CONFIG, "test", resolve=resolve)
    begin_ns = now_ns()
    stamps = [begin_ns + round(t * 1e9) for t in flown.poses.t_s.tolist()]
    events: list[tuple[int, SourceEvent]] = [
        (t_ns, SourceFrame("mocap", i, None, t_ns, ("real",), p[None], q[None], np.array([True])))
        for i, (t_ns, p, q) in enumerate(
            zip(stamps, flown.poses.p_m, flown.poses.q_xyzw, strict=True)
        )
    ]
    for t_s, values in zip(flown.commands.t_s.tolist(), flown.commands.values, strict=True):
        t_ns = begin_ns + round(t_s * 1e9)
        names = ("motor_speeds",)
        events.append(
            (
                t_ns,
                SensorReadings(
                    "sim", "controls", "controls", t_ns, t_ns, ("twin",), values[None], names
                ),
            )
        )
    facts = recording_metadata(config, WallClock.of_run().offset_ns)
    recorder = Recorder(
        path,
        facts,
        lambda event: getattr(event, "t_ns", None) or getattr(event, "t_arrival_ns", None),
    )
    with Timeline().running():
        for number, (t_ns, event) in enumerate(sorted(events, key=lambda pair: pair[0])):
            bridge_clock().stand_at(t_ns)
            recorder.queue.enqueue_event(event)
            if number % 100 == 0:
                time.sleep(0.02)  # the queue is bounded
    recorder.stop(30.0)
    return path


def test_the_verb_reads_commands_and_model_of_the_twin_from_a_recording(
    flight: TrackedFlight, tmp_path: Path
) -> None:
    file = recorded(tmp_path / "flight.mcap", flight.cut(0.0, 6.0))
    names = [option for name in TRUTH for option in ("--fit", name)]
    done = CliRunner().invoke(
        app, ["identify", str(file), "--actor", "drone", "--twin", "drone_sim", *names, "--json"]
    )
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)["parameters"]
    for name, true in TRUTH.items():
        assert found[name]["value"] == pytest.approx(true, rel=0.05), name
    done = CliRunner().invoke(app, ["identify", str(file), "--actor", "drone", "--twin", "drone"])
    assert isinstance(done.exception, ConfigError)
    assert "has no commands of 'drone'" in str(done.exception)
