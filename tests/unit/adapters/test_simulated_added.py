"""Vehicles that are added to a simulation while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.sensor_readings import BarometerReading
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleCommandBus
from vil_bridge.interfaces.vehicle_moves import TakeoffMove
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    AddOrder,
    EditOrder,
    MoveOrder,
    Order,
    PlaceOrder,
    VehicleBatch,
    decode_order,
    decode_report,
    encode,
)
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.vehicle_config import VehicleConfig

STANDING: dict[str, Any] = {
    "model": "airsim",
    "autopilot": {"kind": "none"},
    "contact": {"radius_m": 0.15, "floor_m": 0.15, "friction": 0.0},
}
LEVEL, STILL = (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0)


def entry(x_m: float, **more: Any) -> dict[str, Any]:
    return {**STANDING, "p_m": [x_m, 0.0, 0.15], **more}


def config(vehicles: dict[str, Any], **source: Any) -> SimulatedConfig:
    return SimulatedConfig.model_validate(
        {"type": "simulated", "step_hz": 320, "vehicles": vehicles, **source}
    )


def order(name: str, described: dict[str, Any]) -> AddOrder:
    return AddOrder(name, VehicleConfig.model_validate(described).model_dump_json())


class Joined:
    """A command handler on a bus, and its simulation: every order and batch is encoded on its way.

    Attributes:
        open: False = orders do not fit into the queue.
    """

    def __init__(self, **source: Any) -> None:
        self.config = config({"first": entry(0.0)}, **source)
        self.open = True
        self.handler = CommandHandler("sim", self.config, self._send)
        self.bus = VehicleCommandBus()
        self.start()

    def start(self) -> None:
        self.simulation = Simulation(self.config)
        self.handler.begin(1_000)
        self.handler.send_added()

    def _send(self, sent: Order) -> bool:
        return self.open and self.simulation.order(decode_order(encode(sent)))  # type: ignore[arg-type]

    def report(self, *batches: VehicleBatch) -> None:
        for batch in batches:
            received = decode_report(encode(batch))
            self.handler.update(received, received.states())

    def advance(self, steps: int) -> None:
        self.report(*self.simulation.advance(self.simulation.steps + steps))


def heights(made: Simulation, steps: int) -> FloatArray:
    return np.array([b.states()[:, 2] for b in made.advance(made.steps + steps) if b.pose])


def test_it_flies_as_if_it_had_been_there_and_the_others_fly_on() -> None:
    alone, both = Simulation(config({"a": entry(0.0)})), Simulation(config({"a": entry(0.0)}))
    for made in (alone, both):
        made.order(MoveOrder(0, 1, TakeoffMove(20.0)))
        made.advance(160)
    both.order(order("b", entry(3.0)))
    assert both.has_news and both.subjects == ("a", "b")
    first = both.batch(pose=False)
    assert first.placed == [1] and first.pose and first.notes is not None and len(first.notes) == 2
    np.testing.assert_array_equal(first.states()[1, :3], (3.0, 0.0, 0.15))
    both.order(MoveOrder(1, 2, TakeoffMove(20.0)))
    climbs, before = heights(both, 1600), heights(alone, 1600)
    np.testing.assert_array_equal(climbs[:, 0], before[:, 0])
    assert climbs[-1, 1] > 1.4
    early = Simulation(config({"a": entry(3.0)}))
    early.order(MoveOrder(0, 2, TakeoffMove(20.0)))
    np.testing.assert_allclose(climbs[:, 1], heights(early, 1600)[:, 0], atol=1e-9)


def test_it_meets_the_others_and_what_was_edited_before() -> None:
    scene = {"scene": "empty"}
    made = Simulation(config({"a": entry(0.0)}, contact=scene))
    box = SceneEdit("box", "1M_Cube_Chamfer", (9.0, 0.0, 0.5), LEVEL, (1.0, 1.0, 1.0))
    made.order(EditOrder(box))
    made.advance(32)
    made.order(order("b", entry(3.0)))
    made.order(PlaceOrder(1, (3.0, 0.0, 2.0), LEVEL, (-8.0, 0.0, 3.0), STILL))
    made.order(PlaceOrder(0, (1.0, 0.0, 2.0), LEVEL, (0.0, 0.0, 3.0), STILL))
    hits = {
        hit.vehicle: hit.collision.other
        for b in made.advance(made.steps + 160)
        for hit in b.collisions
    }
    assert hits == {0: "b", 1: "a"}
    made.order(PlaceOrder(1, (6.0, 0.0, 0.6), LEVEL, (15.0, 0.0, 0.0), STILL))
    others = {
        hit.collision.other
        for b in made.advance(made.steps + 160)
        for hit in b.collisions
        if hit.vehicle == 1
    }
    assert "box" in others
    assert made.batch().states()[1, 0] < 9.0


def test_it_takes_commands_and_measures_once_the_steps_have_it() -> None:
    made = Joined()
    with made.bus.serving("sim", made.handler.subjects, made.handler):
        with pytest.raises(ValueError, match="cannot be added yet: its source is starting"):
            made.bus.add("sim", "second", entry(3.0))
        made.report(made.simulation.batch())
        made.advance(64)
        made.open = False
        made.bus.add(
            "sim", "second", entry(3.0, yaw_deg=90.0, sensors={"Baro": {"type": "barometer"}})
        )
        made.bus.add("sim", "third", entry(6.0))
        assert made.bus.names() == ["first", "second", "third"]
        assert made.bus.bodies()["sim"].names == ("first",)
        assert made.bus.of("second").state("second").mode == "" and made.bus.of("second").state(
            "second"
        ).p_world_m == (
            3.0,
            0.0,
            0.15,
        )
        with pytest.raises(ValueError, match="second does not fly yet"):
            made.bus.send("second", VehicleCommand("reset"))
        made.open = True
        made.handler.send_added()
        made.handler.send_added()
        made.report(made.simulation.batch(pose=False))
        assert made.simulation.subjects == made.handler.subjects == ("first", "second", "third")
        assert (
            made.bus.of("second").state("second").mode == "rotors"
            and made.bus.of("second").state("second").placements == 1
        )
        assert made.bus.bodies()["sim"].names == ("first", "second", "third"), (
            "other sources meet them"
        )
        made.advance(64)
        reading = made.bus.of("second").readings("second")["Baro"]
        assert isinstance(reading, BarometerReading) and 100.0 < reading.altitude_m < 150.0
        made.bus.send("third", VehicleCommand("disarm"))
        made.advance(2)
        assert (
            not made.bus.of("third").state("third").armed
            and made.bus.of("second").state("second").armed
        )
    assert made.bus.names() == []


def test_it_is_there_again_after_a_restart_of_the_source() -> None:
    made = Joined()
    made.report(made.simulation.batch())
    with made.bus.serving("sim", made.handler.subjects, made.handler):
        made.bus.add("sim", "second", entry(3.0))
        made.advance(10)
    made.handler.end()
    made.start()
    made.report(made.simulation.batch())
    with made.bus.serving("sim", made.handler.subjects, made.handler):
        assert made.bus.names() == ["first", "second"]
        assert made.bus.of("second").state("second").mode == "rotors"


@pytest.mark.parametrize(
    ("name", "described", "problem"),
    [
        ("first", entry(1.0), "is named 'first' already"),
        ("2nd", entry(1.0), "vehicles.2nd"),
        ("x", {"model": "submarine"}, "unknown model 'submarine'"),
        ("x", entry(1e7), "vehicles.x.p_m"),
        ("x", entry(1.0, colour="red"), "vehicles.x.colour"),
        ("x", entry(1.0, count=2), "leave them out"),
        ("x", entry(1.0, sensors={"d": {"type": "distance"}}), "leave them out"),
        ("x", {"model": "airsim", "autopilot": {"kind": "px4"}}, "leave them out"),
    ],
)
def test_what_cannot_be_added_is_refused_in_words(
    name: str, described: dict[str, Any], problem: str
) -> None:
    made = Joined(contact={"scene": "empty"}, step_hz=1000)
    made.report(made.simulation.batch())
    with made.bus.serving("sim", made.handler.subjects, made.handler):
        with pytest.raises(ValueRefused, match=problem):
            made.bus.add("sim", name, described)
        with pytest.raises(ValueError, match="source 'other' does not simulate now"):
            made.bus.add("other", "x", entry(1.0))
    assert made.handler.subjects == made.simulation.subjects == ("first",)


def test_a_source_with_a_mocap_system_refuses() -> None:
    made = Joined(mocap={"latency_s": 0.01})
    made.report(made.simulation.batch())
    with pytest.raises(
        ValueRefused, match="a mocap system, which sees the configured vehicles only"
    ):
        made.handler.add("x", entry(1.0))
