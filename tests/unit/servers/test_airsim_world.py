"""The bridge that `vil-bridge airsim` runs, from settings.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.tools.airsim_world import airsim_bridge


def bridge(folder: Path, port: int | None = None, **root: Any) -> BridgeConfig:
    path = folder / "settings.json"
    path.write_text(json.dumps(root))
    options: dict[str, Any] = {"bind": "127.0.0.1", "insecure": False, "http_port": 0}
    return airsim_bridge(path, scene="empty", profile="low", port=port, **options)[0]


def test_vehicles_stand_on_the_floor_at_their_starts_in_enu(tmp_path: Path) -> None:
    vehicles = {"Drone B": {"VehicleType": "SimpleFlight", "X": 3, "Y": -1, "Yaw": 90}, "A": {}}
    config = bridge(tmp_path, Vehicles=vehicles, ClockSpeed=5, OriginGeopoint={"Latitude": 47.0})
    source = config.sources["airsim"]
    starts = source.starts()  # type: ignore[attr-defined]
    assert starts == {"a": ("airsim", (0.0, 0.0, 0.15)), "drone_b": ("airsim", (-1.0, 3.0, 0.15))}
    assert config.airsim is not None and config.airsim.vehicles == {"A": "a", "Drone B": "drone_b"}
    assert config.simulation.speed == 5 and config.simulation.clock == "simulated"
    assert source.origin.latitude_deg == 47.0  # type: ignore[attr-defined]
    assert [v.yaw_deg for v in source.vehicles.values()] == pytest.approx([90.0, 0.0])  # type: ignore[attr-defined]


def test_names_that_become_the_same_are_told_apart(tmp_path: Path) -> None:
    config = bridge(tmp_path, Vehicles={"D 1": {}, "D_1": {}, "9": {}})
    assert config.airsim is not None
    assert config.airsim.vehicles == {"9": "v9", "D 1": "d_1", "D_1": "d_1_2"}


@pytest.mark.parametrize(("mode", "model"), [("Car", "bicycle"), ("ComputerVision", "kinematic")])
def test_a_mode_has_its_model(mode: str, model: str, tmp_path: Path) -> None:
    config = bridge(tmp_path, SimMode=mode, port=4000)
    (vehicle,) = config.sources["airsim"].vehicles.values()  # type: ignore[attr-defined]
    assert vehicle.model == model and config.airsim is not None and config.airsim.port == 4000


def test_a_car_stands_on_the_floor_in_its_own_shape_and_has_walls(tmp_path: Path) -> None:
    config = bridge(tmp_path, SimMode="Car", Vehicles={"C": {"VehicleType": "PhysXCar", "X": 2, "Z": -3}})
    source = config.sources["airsim"]
    (vehicle,) = source.vehicles.values()  # type: ignore[attr-defined]
    assert vehicle.p_m == (0.0, 2.0, 0.0)
    assert source.contact.scene == "empty"  # type: ignore[attr-defined]
    assert vehicle.contact.height_m > vehicle.contact.radius_m
    actor = config.actors["c"]
    assert (actor.prefab, actor.size_m) == ("car", (4.3, 2.0, 1.5))
    assert vehicle.contact.length_m + 2.0 * vehicle.contact.radius_m == pytest.approx(actor.size_m[0])


def test_an_error_names_file_and_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings\.json: ClockSpeed"):
        bridge(tmp_path, ClockSpeed=-1)


def test_an_open_address_is_refused_in_words() -> None:
    options: dict[str, Any] = {"scene": "empty", "profile": "low", "port": 0, "http_port": 0}
    with pytest.raises(ConfigError, match=r"^airsim\.bind: 0\.0\.0\.0 can be reached from the network"):
        airsim_bridge(None, bind="0.0.0.0", insecure=False, **options)
    config, _ = airsim_bridge(None, bind="0.0.0.0", insecure=True, **options)
    assert config.airsim is not None and config.airsim.bind == "0.0.0.0"
