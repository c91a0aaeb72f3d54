"""Configuration of simulated vehicles.

Errors with places and cures, clones, actors in numbers, plug-ins.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from vil_bridge import registry
from vil_bridge.config.load import load
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.contacts import collider_of
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.vehicle_config import ContactConfig
from vil_simulation.vehicles.kinematic import KinematicBody

HEAD = (
    "version: 1\nrooms: {hall: {}}\nsources:\n  sim:\n    type: simulated\n    room: hall\n  "
    "  vehicles:\n"
)
SWARM = "      swarm: {model: flightgoggles, count: 100}\n"


def read(folder: Path, text: str) -> BridgeConfig:
    path = folder / "sim.yaml"
    path.write_text(text)
    return load(path, env={}, resolve=registry.resolve)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [p.replace(f"{folder}/", "") for p in caught.value.problems]


def test_a_hundred_vehicles_are_three_lines(tmp_path: Path) -> None:
    actors = (
        "actors:\n  swarm: {kind: vehicle, source: sim, subject: swarm, count: 100, imu: "
        "sim/swarm}\n"
    )
    config = read(tmp_path, HEAD + SWARM + actors)
    source = config.sources["sim"]
    assert isinstance(source, SimulatedConfig)
    assert len(source.subjects()) == len(config.actors) == 100
    actor = config.actors["swarm_42"]
    assert (actor.subject, actor.imu, actor.count) == ("swarm_42", "sim/swarm_42", 1)
    assert (
        BridgeConfig.model_validate(
            config.model_dump(mode="json"), context={"resolve": registry.resolve}
        ).actors.keys()
        == config.actors.keys()
    )


def test_cameras_may_ride_on_one_of_several(tmp_path: Path) -> None:
    actors = "actors:\n  swarm: {kind: vehicle, source: sim, subject: swarm, count: 3}\n"
    rest = "renderers: {r: {type: flightgoggles}}\ncameras: {front: {actor: %s, renderer: r}}\n"
    assert (
        read(tmp_path, HEAD + SWARM + actors + rest % "swarm_2").cameras["front"].actor == "swarm_2"
    )
    (problem,) = problems(tmp_path, HEAD + SWARM + actors + rest % "swarm_4")
    assert (
        "cameras.front.actor: no actor is named 'swarm_4'; known: swarm_1, swarm_2, swarm_3"
        in problem
    )


@pytest.mark.parametrize(
    ("vehicle", "told"),
    [
        (
            "{model: flightgogles}",
            "vehicles.d: unknown model 'flightgogles'; known: airsim, bicycle, car, flightg",
        ),
        (
            "{model: flightmare, preset: big}",
            "model 'flightmare' has no preset 'big'; known: flightmare, quadrotor",
        ),
        (
            "{model: flightgoggles, preset: big}",
            "has no preset 'big'; known: flightgoggles, autopilot_quad_x",
        ),
        (
            "{model: flightmare, autopilot: {kind: px4}}",
            "no motors for autopilot.kind px4; take flightgoggles, airsim",
        ),
        (
            "{model: flightgoggles, autopilot: {kind: betaflight, pose: {}}}",
            "pose is for kind: px4 or ardupilot; remove",
        ),
        (
            "{model: flightgoggles, autopilot: {kind: px4, pose: {kind: GPS_INPUT}}}",
            "pose.kind: GPS_INPUT and pose.port are for kind: ardupilot; remove them",
        ),
        (
            "{model: flightgoggles, autopilot: {kind: px4, pose: {port: 5762}}}",
            "are for kind: ardupilot; remove them",
        ),
        (
            "{model: flightgoggles, autopilot: {kind: betaflight, device: x}}",
            "device is for kind: px4",
        ),
        (
            "{model: flightgoggles, preset: autopilot_hexa_x, autopilot: {kind: betaflight}}",
            "preset 'autopilot_hexa_x' has 6 motors, and Betaflight's simulator sends 4; "
            "take autopilot_quad_x",
        ),
        (
            "{model: airsim, preset: octo_x, autopilot: {kind: betaflight}}",
            "has 8 motors, and Betaflight's simulator",
        ),
        (
            "{model: flightgoggles, autopilot: {kind: px5}}",
            "kind 'px5' is not known; known: hover, circle, ",
        ),
        (
            "{model: flightgoggles, parameters: {mass: 1}}",
            "has no parameter 'mass'; known: mass_kg, inertia_kgm2",
        ),
        (
            "{model: flightgoggles, parameters: {mass_kg: x}}",
            "Expected `float`, got `str` - at `$.mass_kg`",
        ),
        ("{model: flightgoggles, parameters: {mass_kg: -1}}", "mass_kg must be positive"),
        (
            "{model: airsim, mode: dance}",
            "model 'airsim' has no mode 'dance'; known: rotors, rates, attitude",
        ),
        ("{model: car, imu: {preset: abc}}", "no inertial sensor 'abc'; known: ideal, bmi088"),
        ("{model: car, count: 2000}", "vehicles.d.count: should be less than or equal to 1000"),
        (
            "{model: car, autopilot: {kind: waypoints}}",
            "points_m belong to kind: waypoints, which needs at least one",
        ),
        (
            "{model: car, parameters: {speed: 3}}",
            "model 'car' has no parameter 'speed'; known: most_speed_mps",
        ),
        ("{model: car, compat: true}", "model 'car' has no parameter 'compat'"),
        (
            "{model: car, autopilot: {kind: circle}}",
            "model 'car' has no autopilot that flies 'circle'",
        ),
        (
            "{model: airsim, autopilot: {kind: waypoints, points_m: [[0, 0, 0]]}}",
            "two waypoints in a row are the same",
        ),
        (
            "{model: airsim, p_m: [1.0e+300, 0, 0]}",
            "d.p_m.0: should be less than or equal to 1000000",
        ),
        (
            "{model: car, wind: {gusts: 2}}",
            "vehicles.d.wind.gusts: unknown key (did you mean 'gusts_mps'?)",
        ),
    ],
)
def test_mistakes_are_told_with_place_and_cure(tmp_path: Path, vehicle: str, told: str) -> None:
    (problem,) = problems(tmp_path, HEAD + f"      d: {vehicle}\n")
    assert problem.startswith("sim.yaml:8:")
    assert told in problem


def test_names_must_differ_and_rates_not_exceed_the_steps(tmp_path: Path) -> None:
    (problem,) = problems(
        tmp_path, HEAD + "      a: {model: car, count: 2}\n      a_1: {model: car}\n"
    )
    assert "'a_1' is the name of two of them" in problem
    (problem,) = problems(tmp_path, HEAD + SWARM + "    rate_hz: 2000\n")
    assert "rate_hz is higher than step_hz (960)" in problem


def test_presets_parameters_and_compat_reach_the_model() -> None:
    entry = {
        "model": "flightmare",
        "preset": "agilicious",
        "parameters": {"mass_kg": 1.25},
        "compat": True,
    }
    config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"d": entry}})
    model = Simulation(config).groups[0].factory.model
    assert (model.parameters.mass_kg, model.parameters.rotor_min_radps, model.compat) == (  # type: ignore[attr-defined]
        1.25,
        150.0,
        "flightmare",
    )


BALLOON = """
import numpy as np
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout
from vil_simulation.vehicles.model import Model


class Balloon(Model):
    state = StateLayout(*RIGID_BODY)
    commands = {"lift": StateLayout(Field("lift_mps2", 1, "m/s^2", "upwards"))}
    mode = "lift"

    def __init__(self, drag_ps=1.0):
        self.drag_ps = drag_ps

    def derivative(self, x, u, around):
        rates = np.zeros_like(x)
        rates[:, :3] = x[:, 3:6]
        rates[:, 3:6] = -self.drag_ps * x[:, 3:6]
        rates[:, 5:6] += u
        return rates
"""


def test_a_third_partys_model_flies_by_the_name_of_its_entry_point(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "balloons.py").write_text(BALLOON)
    info = tmp_path / "balloons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: balloons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vil_bridge.vehicles]\nballoon = balloons:Balloon\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "balloons", raising=False)
    entry = {"model": "balloon", "parameters": {"drag_ps": 2.0}, "command_timeout_ms": 60_000}
    simulation = Simulation(
        SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"b": entry}})
    )
    assert list(simulation.groups[0].factory.modes) == ["lift"]
    from vil_simulation.source.ipc import FlyCommand

    simulation.order(FlyCommand(0, "lift", (1.0,)))
    simulation.advance(5 * 960)
    assert simulation.batch().states()[0, 5] == pytest.approx(0.5, abs=1e-3)


class Sled(KinematicBody):
    mass_kg = 3.0


class Sledge(Sled):
    inertia_kgm2 = (0.1, 0.2, 0.3)


def test_contacts_take_mass_and_inertia_of_a_third_partys_model() -> None:
    ball = collider_of(Sled(), ContactConfig(radius_m=0.5))
    assert ball.mass_kg == 3.0
    assert ball.inertia_kgm2.tolist() == pytest.approx([0.3] * 3)  # 2/5 m r^2
    assert collider_of(Sledge(), ContactConfig()).inertia_kgm2.tolist() == [0.1, 0.2, 0.3]


def test_a_programs_samples_are_whole_numbers_of_steps() -> None:
    vehicle = {"model": "flightgoggles", "autopilot": {"kind": "px4"}}
    with pytest.raises(
        ValidationError, match="no whole number of steps at step_hz 960; set step_hz: 1000"
    ):
        SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"quad": vehicle}})


NAMESPACE = {"namespace": True, "command": ["betaflight"]}
SHARED = {"command": ["px4"], "folder": "run"}


@pytest.mark.parametrize(
    ("autopilots", "problem"),
    [
        (
            ({"kind": "px4"}, {"kind": "px4"}),
            "one has port 4560 on 127.0.0.1 already; set another instance",
        ),
        (
            ({"kind": "betaflight"}, {"kind": "betaflight"}),
            "Betaflight's ports are fixed, and one has them",
        ),
        (({"kind": "betaflight", **NAMESPACE}, {"kind": "px4"}), "a namespace holds one vehicle"),
        (
            ({"kind": "betaflight", "namespace": True}, {"kind": "px4"}),
            "namespace is for a program that the bridge",
        ),
        (
            ({"kind": "px4", **SHARED}, {"kind": "px4", "instance": 1, **SHARED}),
            "one runs in run already, and",
        ),
    ],
)
def test_two_programs_do_not_meet_on_one_port(
    autopilots: tuple[object, object], problem: str
) -> None:
    vehicles = {
        name: {"model": "flightgoggles", "autopilot": autopilot}
        for name, autopilot in zip(("one", "two"), autopilots, strict=True)
    }
    with pytest.raises(ValidationError, match=problem):
        SimulatedConfig.model_validate({"type": "simulated", "step_hz": 1000, "vehicles": vehicles})


def test_betaflight_and_simulated_time_do_not_go_together() -> None:
    vehicles = {"quad": {"model": "flightgoggles", "autopilot": {"kind": "betaflight"}}}
    config = SimulatedConfig.model_validate(
        {"type": "simulated", "step_hz": 1000, "vehicles": vehicles}
    )
    assert "cannot be paused: use `clock: real`" in config.needs_real_time()
