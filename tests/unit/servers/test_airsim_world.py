"""The bridge that `vil-bridge airsim` runs, from settings.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.programs import output
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_simulation.airsim.settings import load_settings
from vil_simulation.airsim.standalone.world import airsim_bridge
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.sensor_parts import fitted_sensors
from vil_simulation.source.simulation import Simulation, grouped, vehicles_of


def bridge(
    folder: Path,
    port: int | None = None,
    *,
    compat: bool = False,
    course: str | None = None,
    **root: Any,
) -> BridgeConfig:
    path = folder / "settings.json"
    path.write_text(json.dumps(root))
    options: dict[str, Any] = {"bind": "127.0.0.1", "insecure": False, "http_port": 0}
    options |= {"compat": compat, "course": course}
    return airsim_bridge(load_settings(path), scene="empty", profile="low", port=port, **options)


def simulated(config: BridgeConfig) -> SimulatedConfig:
    """Return the source of a bridge's vehicles."""
    source = config.sources["airsim"]
    assert isinstance(source, SimulatedConfig)
    return source


def test_vehicles_stand_on_the_floor_at_their_starts_in_enu(tmp_path: Path) -> None:
    vehicles = {"Drone B": {"VehicleType": "SimpleFlight", "X": 3, "Y": -1, "Yaw": 90}, "A": {}}
    config = bridge(tmp_path, Vehicles=vehicles, ClockSpeed=5, OriginGeopoint={"Latitude": 47.0})
    source = simulated(config)
    starts = source.starts()
    assert starts == {"a": ("airsim", (0.0, 0.0, 0.15)), "drone_b": ("airsim", (-1.0, 3.0, 0.15))}
    assert config.section("airsim").vehicles == {"A": "a", "Drone B": "drone_b"}
    assert config.simulation.speed == 5 and config.simulation.clock == "simulated"
    assert source.origin.latitude_deg == 47.0
    assert [v.yaw_deg for v in source.vehicles.values()] == pytest.approx([90.0, 0.0])


def test_names_that_become_the_same_are_told_apart(tmp_path: Path) -> None:
    config = bridge(tmp_path, Vehicles={"D 1": {}, "D_1": {}, "9": {}})
    assert config.section("airsim").vehicles == {"9": "v9", "D 1": "d_1", "D_1": "d_1_2"}


def test_vehicles_that_would_overlap_stand_side_by_side(tmp_path: Path) -> None:
    here = {"VehicleType": "SimpleFlight", "X": 1, "Y": 0, "Yaw": 90}
    config = bridge(tmp_path, Vehicles={"A": here, "B": here, "C": {**here, "Y": 7}})
    starts = simulated(config).starts()
    # They look east: the second one stands to the right, which is south.
    places = [start for _, start in starts.values()]
    np.testing.assert_allclose(
        places, [(0.0, 1.0, 0.15), (0.0, -1.0, 0.15), (7.0, 1.0, 0.15)], atol=1e-9
    )
    bodiless = bridge(
        tmp_path, SimMode="ComputerVision", Vehicles={"A": {"X": 1, "Y": 0}, "B": {"X": 1, "Y": 0}}
    )
    places = [start for _, start in simulated(bodiless).starts().values()]
    assert places[0] == places[1]


def test_a_course_is_a_level_of_the_racing_lab(tmp_path: Path) -> None:
    """Its start is the player's, who faces as the course begins, and all positions count from
    the world's origin.
    """
    gate = "{name: Gate0, p_m: [4, 9, 2], yaw_deg: 90, width_m: 2, height_m: 2}"
    course = f"course: line\nstart: {{p_m: [4, 3, 2], yaw_deg: 90}}\ngates: [{gate}]\n"
    (tmp_path / "line.yaml").write_text(course)
    vehicles = {
        name: {"X": x, "Y": 0, "Z": 0}
        for name, x in (("drone_1", 0), ("drone_2", 0), ("drone_3", 5))
    }
    config = bridge(tmp_path, course=str(tmp_path / "line.yaml"), Vehicles=vehicles)
    starts = simulated(config).starts()
    places = [start for _, start in starts.values()]
    np.testing.assert_allclose(
        places, [(4.0, 3.0, 0.15), (6.0, 3.0, 0.15), (4.0, 8.0, 0.15)], atol=1e-9
    )
    headings = [vehicle.yaw_deg for vehicle in simulated(config).vehicles.values()]
    assert headings == pytest.approx([90.0] * 3)
    assert config.section("race").racers == ("drone_1", "drone_2", "drone_3")
    assert config.section("airsim").positions == "world"
    elsewhere = bridge(tmp_path).section("airsim")
    assert elsewhere is not None and elsewhere.positions == "start"


@pytest.mark.parametrize("compat", [False, True])
def test_multirotors_brake_unless_they_shall_fly_as_airsim(compat: bool, tmp_path: Path) -> None:
    config = bridge(tmp_path, compat=compat, Vehicles={"A": {}, "B": {}})
    vehicles = simulated(config).vehicles.values()
    assert [vehicle.compat for vehicle in vehicles] == [compat, compat]
    assert config.section("airsim").compat is compat
    car = simulated(bridge(tmp_path, compat=compat, SimMode="Car"))
    assert [vehicle.compat for vehicle in car.vehicles.values()] == [False]


@pytest.mark.parametrize(("mode", "model"), [("Car", "bicycle"), ("ComputerVision", "kinematic")])
def test_a_mode_has_its_model(mode: str, model: str, tmp_path: Path) -> None:
    config = bridge(tmp_path, SimMode=mode, port=4000)
    (vehicle,) = simulated(config).vehicles.values()
    assert vehicle.model == model and config.section("airsim").port == 4000


def test_a_car_stands_on_the_floor_in_its_own_shape_and_has_walls(tmp_path: Path) -> None:
    config = bridge(
        tmp_path, SimMode="Car", Vehicles={"C": {"VehicleType": "PhysXCar", "X": 2, "Z": -3}}
    )
    source = simulated(config)
    (vehicle,) = source.vehicles.values()
    assert vehicle.p_m == (0.0, 2.0, 0.0)
    assert source.contact is not None and source.contact.scene == "empty"
    assert vehicle.contact.height_m > vehicle.contact.radius_m
    actor = config.actors["c"]
    assert (actor.prefab, actor.size_m) == ("car", (4.3, 2.0, 1.5))
    assert vehicle.contact.length_m + 2.0 * vehicle.contact.radius_m == pytest.approx(
        actor.size_m[0]
    )


NOISY: dict[str, Any] = {
    "Imu": {
        "SensorType": 2,
        "AngularRandomWalk": 3.0,
        "VelocityRandomWalk": 2.4,
        "AccelBiasStability": 0,
    },
    "Baro": {
        "SensorType": 1,
        "UncorrelatedNoiseSigma": 27.0,
        "PressureFactorSigma": 0,
        "UpdateFrequency": 100,
    },
    "Mag": {"SensorType": 4, "NoiseSigma": 0.05, "ScaleFactor": 2},
    "Gps": {
        "SensorType": 3,
        "EphInitial": 9,
        "EPH_TimeConstant": 0.1,
        "UpdateLatency": 0,
        "StartupDelay": 0.5,
    },
}


def readings(folder: Path, sensors: dict[str, Any]) -> dict[str, FloatArray]:
    """Return what the sensors of a vehicle that stands still measure in four seconds, (n,
    columns) by name.
    """
    given = {"D": {"Sensors": {key: {"Enabled": True, **entry} for key, entry in sensors.items()}}}
    source = simulated(bridge(folder, Vehicles=given)).model_copy(update={"contact": None})
    found: dict[str, list[FloatArray]] = {
        fitted.name: [] for fitted in fitted_sensors(grouped(vehicles_of(source)))
    }
    names = tuple(found)
    for batch in Simulation(source).advance(4 * source.step_hz):
        for reading in batch.sensors:
            found[names[reading.sensor]].append(np.frombuffer(reading.values, np.float64))
    return {name: np.array(rows) for name, rows in found.items()}


def test_noise_keys_of_sensors_have_their_effect(tmp_path: Path) -> None:
    plain = {name: {"SensorType": entry["SensorType"]} for name, entry in NOISY.items()}
    all_quiet = readings(tmp_path, plain)
    all_loud = readings(tmp_path, NOISY)
    quiet = all_quiet["Imu"].std(axis=0)
    loud = all_loud["Imu"].std(axis=0)
    noisy = quiet > 1e-6  # the attitude is the true one
    assert noisy.sum() == 6 and np.allclose(loud[noisy] / quiet[noisy], 10.0, rtol=0.1)
    quiet = all_quiet["Baro"]
    loud = all_loud["Baro"]
    assert (len(quiet), len(loud)) == (200, 400)
    pressure = 1
    assert (
        loud[:, pressure].std() == pytest.approx(27.0, rel=0.15) and quiet[:, pressure].std() < 9.0
    )
    quiet = all_quiet["Mag"]
    loud = all_loud["Mag"]
    assert np.allclose(loud.mean(axis=0), 2 * quiet.mean(axis=0), atol=2e-6)
    assert np.allclose(loud.std(axis=0), 5e-6, rtol=0.3)
    assert len(all_loud["Gps"]) > len(all_quiet["Gps"])


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"SensorType": 1, "UncorrelatedNoiseSigma": "x"},
            r"Vehicles\.D\.Sensors\.S\.UncorrelatedNoiseSigma: must be",
        ),
        (
            {"SensorType": 2, "GyroBiasStabilityTau": 0},
            r"Sensors\.S\.GyroBiasStabilityTau: must be",
        ),
        ({"SensorType": 3, "UpdateFrequency": -1}, r"Sensors\.S\.UpdateFrequency: must be"),
    ],
)
def test_noise_without_a_meaning_is_refused(
    entry: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        bridge(tmp_path, Vehicles={"D": {"Sensors": {"S": {"Enabled": True, **entry}}}})


def test_an_error_names_file_and_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings\.json: ClockSpeed"):
        bridge(tmp_path, ClockSpeed=-1)


def test_an_open_address_is_refused_in_words() -> None:
    options: dict[str, Any] = {"scene": "empty", "profile": "low", "port": 0, "http_port": 0}
    with pytest.raises(
        ConfigError, match=r"^airsim\.bind: 0\.0\.0\.0 can be reached from the network"
    ):
        airsim_bridge(load_settings(None), bind="0.0.0.0", insecure=False, **options)
    config = airsim_bridge(load_settings(None), bind="0.0.0.0", insecure=True, **options)
    assert config.section("airsim").bind == "0.0.0.0"


@pytest.mark.process
def test_the_configuration_of_a_world_needs_no_compiler() -> None:
    """Numba's import takes a fifth of the start of the bridge's process, which has no use for
    it.
    """
    program = """
import sys
from vil_simulation.airsim.settings import load_settings
from vil_simulation.airsim.standalone.world import airsim_bridge
airsim_bridge(load_settings(None), scene="empty", profile="low", port=0, bind="127.0.0.1",
    insecure=False, http_port=0)
assert "numba" not in sys.modules
"""
    output(sys.executable, "-c", program)
