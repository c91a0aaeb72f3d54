"""Simulated vehicles in a scene without a renderer.

Walls, tables, corners, and what questions cost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit, SweptContact
from vil_bridge.interfaces.vehicle_moves import VehicleCollision, VehicleDisturbance
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import DisturbOrder, EditOrder, FlyCommand, PlaceOrder
from vil_simulation.source.scene_contacts import SceneContacts
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.sphere_row import SphereRow
from vil_simulation.source.vehicle_config import ContactConfig

SCENE = """
scene: walls
objects:
  - {name: thin wall, box: {size_m: [0.002, 8.0, 6.0]}, p_m: [5.0, 0.0, 0.0]}
  - {name: side wall, box: {size_m: [8.0, 0.002, 6.0]}, p_m: [2.0, 4.0, 0.0]}
  - {name: table, box: {size_m: [2.0, 2.0, 1.0]}, p_m: [-3.0, 0.0, 0.0]}
  - {name: floor, plane: {size_m: [40.0, 40.0]}, collider: mesh}
"""
STILL = (0.0, 0.0, 0.0)
LEVEL = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture
def scene(tmp_path: Path) -> str:
    path = tmp_path / "walls.yaml"
    path.write_text(SCENE)
    return str(path)


def simulation(scene: str, source: dict[str, Any] | None = None, **vehicle: Any) -> Simulation:
    contact = {"radius_m": 0.2, "restitution": 0.5, "friction": 0.0, **vehicle.pop("contact", {})}
    entry = {"model": "flightgoggles", "armed": False, "contact": contact, **vehicle}
    tree = {
        "type": "simulated",
        "contact": {"scene": scene},
        "vehicles": {"drone": entry},
        **(source or {}),
    }
    return Simulation(SimulatedConfig.model_validate(tree))


def thrown(
    made: Simulation, p_m: tuple[float, float, float], v_mps: tuple[float, float, float]
) -> None:
    made.order(PlaceOrder(0, p_m, LEVEL, v_mps, STILL, False))


def flown(made: Simulation, steps: int) -> list[VehicleCollision]:
    return [
        report.collision
        for batch in made.advance(made.steps + steps)
        for report in batch.collisions
    ]


def body(made: Simulation) -> FloatArray:
    state: FloatArray = made.batch().states()[0]
    return state


@pytest.mark.parametrize("step_hz", [10, 30, 100, 960])
def test_no_wall_is_passed_at_ten_metres_a_second_at_any_rate_of_steps(
    scene: str, step_hz: int
) -> None:
    made = simulation(scene, {"step_hz": step_hz, "control_hz": 10, "rate_hz": step_hz})
    thrown(made, (3.0, 0.3, 3.0), (10.0, 0.0, 0.0))
    hits: list[VehicleCollision] = []
    speed = 0.0
    while not hits:
        speed = float(body(made)[3])
        hits += flown(made, 1)
    after = body(made)
    (hit,) = hits
    assert hit.other == "thin wall"
    assert hit.normal_world == pytest.approx((-1.0, 0.0, 0.0), abs=1e-6)
    assert hit.point_world_m == pytest.approx((4.999, 0.3, hit.point_world_m[2]), abs=1e-4)
    assert hit.depth_m == pytest.approx(hit.p_world_m[0] + 0.2 - 4.999, abs=1e-4)
    assert 0.0 <= hit.depth_m <= speed / step_hz
    assert after[0] == pytest.approx(4.799, abs=1e-4)
    assert after[3] == pytest.approx(-0.5 * speed, abs=0.5 * 12.0 / step_hz)
    flown(made, step_hz // 2)
    assert body(made)[0] < 4.8


def test_walls_stop_other_models_too(scene: str) -> None:
    for model in ("airsim", "flightmare"):
        made = simulation(scene, model=model)
        thrown(made, (3.0, 0.3, 3.0), (10.0, 0.0, 0.0))
        assert flown(made, 400)[0].other == "thin wall"
        assert body(made)[0] < 4.8


def test_a_car_that_drives_on_stays_in_front_of_the_wall(scene: str) -> None:
    made = simulation(scene, model="car", armed=True, p_m=(3.0, 0.3, 0.0), command_timeout_ms=5000)
    made.order(FlyCommand(0, "speed", (4.0, 0.0)))
    assert flown(made, 960)[0].other == "thin wall"
    assert body(made)[0] == pytest.approx(4.799, abs=1e-4)


CAR_CONTACT = {"radius_m": 0.85, "length_m": 2.6, "height_m": 0.9}


def car(
    scene: str, p_m: tuple[float, float, float], step_hz: int = 160, **vehicle: Any
) -> Simulation:
    place = {
        "p_m": p_m,
        "armed": True,
        "on_timeout": "hold",
        "contact": {**CAR_CONTACT, **vehicle.pop("contact", {})},
    }
    return simulation(
        scene,
        {"step_hz": step_hz, "control_hz": 10, "rate_hz": step_hz},
        model="bicycle",
        **place,
        **vehicle,
    )


@pytest.mark.parametrize("step_hz", [10, 30, 100, 960])
def test_a_cars_bumper_hits_a_wall_at_any_rate_of_steps(scene: str, step_hz: int) -> None:
    """The front sphere's middle is 1.3 m ahead; the car rolls back with half of its speed."""
    made = car(scene, (0.0, 0.3, 0.0), step_hz)
    made.order(PlaceOrder(0, (0.0, 0.3, 0.0), LEVEL, (10.0, 0.0, 0.0), STILL, False))
    made.order(FlyCommand(0, "speed", (10.0, 0.0)))
    hits: list[VehicleCollision] = []
    while not hits:
        hits += flown(made, 1)
    (hit,) = hits
    assert hit.other == "thin wall"
    assert hit.normal_world == pytest.approx((-1.0, 0.0, 0.0), abs=1e-6)
    assert hit.point_world_m == pytest.approx((4.999, 0.3, 0.9), abs=1e-4)
    assert hit.depth_m == pytest.approx(hit.p_world_m[0] + 2.15 - 4.999, abs=1e-4)
    assert body(made)[0] == pytest.approx(2.849, abs=1e-4)
    assert body(made)[3] == pytest.approx(-5.0, abs=1e-6)
    for _ in range(3):
        flown(made, 3 * step_hz)
        assert body(made)[0] <= 2.849 + 1e-4
    assert body(made)[2] == 0.0


def test_a_car_that_turns_next_to_a_wall_touches_it_with_its_corner(scene: str) -> None:
    made = car(scene, (0.0, 2.5, 0.0))
    made.order(FlyCommand(0, "speed", (2.0, 0.5)))
    hits = flown(made, 600)
    assert {hit.other for hit in hits} == {"side wall"}
    front_m = 1.3 * 2.0 * body(made)[8] * body(made)[9]
    assert front_m > 0.1
    assert body(made)[1] + front_m == pytest.approx(3.999 - 0.85, abs=0.02)
    assert body(made)[1] + front_m <= 3.999 - 0.85 + 1e-4


def test_a_vehicle_in_a_corner_touches_both_walls_and_leaves_neither(scene: str) -> None:
    made = simulation(scene, contact={"floor_m": 0.0})
    thrown(made, (4.0, 2.9, 3.0), (10.0, 10.0, 0.0))
    hits = flown(made, 500)
    assert [hit.other for hit in hits[:2]] == ["thin wall", "side wall"]
    assert hits[1].t_ns - hits[0].t_ns < 20_000_000
    assert (body(made)[3:5] < 0.0).all()
    assert (body(made)[:2] < (4.8, 3.8)).all()


def test_a_vehicle_that_is_pushed_against_an_edge_slides_off_it(tmp_path: Path) -> None:
    """A wind of 8 N against the edge of a column, 2 cm off its middle; gravity is held off."""
    path = tmp_path / "column.yaml"
    column = (
        "{name: column, box: {size_m: [1.0, 1.0, 60.0]}, p_m: [5.0, 0.0, -30.0], ypr_deg: "
        "[45.0, 0.0, 0.0]}"
    )
    path.write_text(f"scene: column\nobjects:\n  - {column}\n")
    made = simulation(
        str(path),
        {"step_hz": 320, "control_hz": 10},
        p_m=(4.0, 0.02, 3.0),
        contact={"floor_m": None},
    )
    force = 8.0, 0.0, 9.81 * made.groups[0].contacts.body.mass_kg
    made.order(DisturbOrder(0, VehicleDisturbance(force_world_n=force)))
    hits = flown(made, 320)
    assert hits[0].other == "column"
    assert body(made)[1] > 0.3
    flown(made, 640)
    assert body(made)[0] > 7.0


def test_a_vehicle_lands_on_a_table_and_the_floor_stays_the_configured_one(scene: str) -> None:
    table, floor = simulation(scene), simulation(scene)
    thrown(table, (-3.0, 0.0, 1.6), STILL)
    thrown(floor, (0.0, 0.0, 0.5), STILL)
    assert flown(table, 1500)[0].other == "table"
    flown(floor, 1500)
    assert body(table)[2] == pytest.approx(1.2, abs=1e-3)
    assert body(floor)[2] == pytest.approx(0.0, abs=1e-3)
    assert np.abs(body(table)[3:6]).max() < 0.02


def test_a_vehicle_returns_to_its_start_where_contacts_reset(scene: str) -> None:
    made = simulation(scene, contact={"response": "reset"}, p_m=(0.0, 0.0, 2.0))
    thrown(made, (3.0, 0.3, 3.0), (10.0, 0.0, 0.0))
    flown(made, 195)
    assert body(made)[0] == 0.0


def test_a_sweep_ends_at_the_wall_and_a_placement_beyond_it_does_not(scene: str) -> None:
    made = simulation(scene)
    made.order(PlaceOrder(0, (0.0, 0.0, 3.0), LEVEL, STILL, STILL, False))
    made.order(PlaceOrder(0, (9.0, 0.0, 3.0), LEVEL, STILL, STILL, True))
    (hit,) = (report.collision for report in made.batch().collisions)
    assert body(made)[0] == pytest.approx(4.799, abs=1e-4)
    assert (hit.other, hit.depth_m) == ("thin wall", 0.0)
    made.order(PlaceOrder(0, (9.0, 0.0, 3.0), LEVEL, STILL, STILL, False))
    flown(made, 100)
    assert body(made)[0] > 8.9


def edited(
    name: str, p_m: tuple[float, float, float], asset: str = "", *, gone: bool = False
) -> EditOrder:
    return EditOrder(SceneEdit(name, asset, p_m, LEVEL, (1.0, 1.0, 1.0), gone))


@pytest.mark.parametrize("step_hz", [10, 960])
def test_objects_that_are_moved_spawned_and_destroyed_stop_vehicles_where_they_are(
    scene: str, step_hz: int
) -> None:
    made = simulation(
        scene,
        {"step_hz": step_hz, "control_hz": 10, "rate_hz": step_hz},
        contact={"floor_m": -100.0},
    )

    def met() -> VehicleCollision | None:
        thrown(made, (3.0, 0.3, 3.0), (10.0, 0.0, 0.0))
        return next(iter(flown(made, step_hz // 2)), None)

    made.order(edited("thin wall", (7.0, 0.0, 0.0)))
    hit = met()
    assert hit is not None
    assert hit.other == "thin wall"
    assert hit.point_world_m[0] == pytest.approx(6.999, abs=1e-4)
    made.order(edited("thin wall", (7.0, 0.0, 0.0), gone=True))
    assert met() is None
    assert body(made)[0] > 6.9
    made.order(edited("box", (6.0, 0.0, 2.5), "Cube"))
    hit = met()
    assert hit is not None
    assert hit.other == "box"
    assert hit.normal_world == pytest.approx((-1.0, 0.0, 0.0), abs=1e-6)
    assert hit.point_world_m[0] == pytest.approx(5.5, abs=1e-4)
    made.order(EditOrder(SceneEdit("box", "Cube", (6.0, 0.0, 2.5), LEVEL, (3.0, 8.0, 8.0), False)))
    hit = met()
    assert hit is not None
    assert hit.point_world_m[0] == pytest.approx(4.5, abs=1e-4)
    made.order(edited("box", (6.0, 0.0, 2.5), "Cube", gone=True))
    assert met() is None


def test_an_object_that_is_put_onto_a_vehicle_pushes_it_out(scene: str) -> None:
    """Its face is 10 cm inside the sphere; a program that moves it on shoves the vehicle along."""
    made = simulation(scene, contact={"floor_m": 2.0}, p_m=(0.0, 0.0, 2.0))
    flown(made, 10)
    for face_m in (0.1, 0.0, -0.1):
        made.order(edited("box", (face_m + 0.5, 0.0, 2.0), "Cube"))
        hit = next(hit for hit in flown(made, 200) if hit.other == "box")
        assert hit.depth_m == pytest.approx(0.1, abs=2e-3)
        assert hit.normal_world == pytest.approx((-1.0, 0.0, 0.0), abs=1e-2)
        assert body(made)[0] == pytest.approx(face_m - 0.2, abs=2e-3)


def test_edits_are_a_simulations_own_and_unknown_objects_are_logged(
    scene: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = simulation(scene), simulation(scene)
    first.order(edited("thin wall", (7.0, 0.0, 0.0), gone=True))
    first.order(edited("fog", (0.0, 0.0, 0.0)))
    assert "'fog'" in caplog.text
    thrown(first, (3.0, 0.3, 3.0), (10.0, 0.0, 0.0))
    thrown(second, (3.0, 0.3, 3.0), (10.0, 0.0, 0.0))
    assert "thin wall" not in {hit.other for hit in flown(first, 300)}
    assert flown(second, 300)[0].other == "thin wall"


def test_a_scene_stands_in_the_room_as_configured(scene: str) -> None:
    placed = {
        "contact": {
            "scene": scene,
            "T_room_scene": {"p_m": [1.0, 0.0, 0.0], "ypr_deg": [90.0, 0.0, 0.0]},
        }
    }
    made = simulation(scene, placed)
    thrown(made, (1.0, 3.0, 3.0), (0.0, 10.0, 0.0))
    (hit,) = flown(made, 250)
    assert hit.point_world_m[:2] == pytest.approx((1.0, 4.999), abs=1e-4)
    assert hit.normal_world == pytest.approx((0.0, -1.0, 0.0), abs=1e-6)


def test_a_scene_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RendererError, match="no scene is named 'hal'"):
        simulation("hal")


class CountedPlane:
    """Half space behind x = 5 that counts questions."""

    asked = 0

    def clearance_m(self, p_world_m: FloatArray) -> float:
        self.asked += 1
        return abs(5.0 - float(p_world_m[0]))

    def first_contact(
        self, start_m: FloatArray, goal_m: FloatArray, radius_m: float
    ) -> SweptContact | None:
        self.asked += 1
        share = (5.0 - radius_m - float(start_m[0])) / float(goal_m[0] - start_m[0])
        point = start_m + share * (goal_m - start_m) + (radius_m, 0.0, 0.0)
        return (
            SweptContact(share, point, np.array((-1.0, 0.0, 0.0)), "plane")
            if 0.0 <= share <= 1.0
            else None
        )

    def overlap(self, p_world_m: FloatArray, radius_m: float) -> SweptContact | None:
        raise AssertionError("not asked here")

    def edit(self, edit: SceneEdit) -> None:
        raise AssertionError("not asked here")


def test_a_scene_is_asked_seldom_far_from_its_walls_and_in_time_near_them() -> None:
    plane, active, dt_s = CountedPlane(), np.ones(1, np.bool_), 1.0 / 960
    scene = SceneContacts(
        plane, Transform.identity(), SphereRow(ContactConfig(radius_m=0.2)), 1, dt_s
    )
    asked = []
    for step in range(481):
        p_m = np.array(((10.0 * step * dt_s, 0.0, 0.0),))
        for row in scene.due(step, active):
            start_m = scene.settle(row, p_m, 10.0, step)
            found = None if start_m is None else scene.first_contact(start_m, p_m)
            if start_m is not None and found is not None:
                _, hit = found
                assert p_m[0, 0] - 4.8 <= 10.0 * dt_s
                assert start_m[0, 0] + hit.share * (p_m[0, 0] - start_m[0, 0]) == pytest.approx(4.8)
                asked.append(step)
    assert asked == [461]
    assert plane.asked < 481 / 8


class MovedPlane(CountedPlane):
    """The same half space; an edit moves it away."""

    away_m = 0.0

    def clearance_m(self, p_world_m: FloatArray) -> float:
        return super().clearance_m(p_world_m) + self.away_m

    def edit(self, edit: SceneEdit) -> None:
        self.away_m = edit.p_m[0]


def test_a_vehicle_that_stands_is_asked_for_once_until_it_moves_or_the_scene_is_edited() -> None:
    plane = MovedPlane()
    scene = SceneContacts(
        plane, Transform.identity(), SphereRow(ContactConfig(radius_m=0.2)), 1, 1e-3
    )
    here_m = np.array(((4.8, 0.0, 0.0),))
    there_m = here_m - (0.001, 0.0, 0.0)
    for step in range(5):
        assert scene.settle(0, here_m, 0.0, step) is None
        assert scene.next_due == step + 1
    assert plane.asked == 1
    for step in range(5, 10):
        scene.settle(0, there_m, 0.0, step)
        assert scene.next_due == step + 3  # 1 mm at 200 m/s2
    assert plane.asked == 2
    scene.edit(SceneEdit("plane", "", (0.099, 0.0, 0.0), LEVEL, (1.0, 1.0, 1.0)))
    assert scene.next_due == 0
    scene.settle(0, there_m, 0.0, 10)
    assert plane.asked == 3
    assert scene.next_due == 10 + 31  # 0.1 m
