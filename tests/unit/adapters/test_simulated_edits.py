"""Edits of a scene on their way to the vehicles that fly in it."""

from __future__ import annotations

from typing import Any

from vil_bridge.interfaces.solid_world import MovingBody, SceneEdit
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import BodiesUpdate, EditOrder, Order, decode_order, encode

LEVEL = (0.0, 0.0, 0.0, 1.0)


def edit(name: str, x_m: float = 0.0, *, asset: str = "", gone: bool = False) -> SceneEdit:
    return SceneEdit(name, asset, (x_m, 0.0, 0.0), LEVEL, (1.0, 1.0, 1.0), gone)


def handler(orders: list[Order], contact: dict[str, Any] | None) -> CommandHandler:
    def send(order: Order) -> bool:
        orders.append(order)
        return True

    vehicles = {"a": {"model": "kinematic"}, "b": {"model": "kinematic"}}
    tree = {"type": "simulated", "contact": contact, "vehicles": vehicles}
    return CommandHandler("sim", SimulatedConfig.model_validate(tree), send)


def test_an_edit_reaches_each_source_in_that_scene_once_and_later_sources_too() -> None:
    bus = VehicleCommandBus()
    inside: list[Order] = []
    elsewhere: list[Order] = []
    with (
        bus.serving("sim", ["a", "b"], handler(inside, {"scene": "blocks"})),
        bus.serving("other", ["c"], handler(elsewhere, {"scene": "hall"})),
        bus.serving("bare", ["d"], handler(elsewhere, None)),
    ):
        bus.edit_scene("blocks", edit("Cone", 1.0))
        bus.edit_scene("blocks", edit("Cone", 2.0))
        bus.edit_scene("blocks", edit("box", asset="Cube"))
        bus.edit_scene("blocks", edit("ball", asset="Sphere"))
        bus.edit_scene("blocks", edit("ball", asset="Sphere", gone=True))
        bus.edit_scene("blocks", edit("Wall", gone=True))
    assert [(e.edit.name, e.edit.gone) for e in inside if isinstance(e, EditOrder)] == [
        ("Cone", False),
        ("Cone", False),
        ("box", False),
        ("ball", False),
        ("ball", True),
        ("Wall", True),
    ]
    assert elsewhere == []
    assert bus.scene_edits() == [
        ("blocks", edit("Cone", 2.0)),
        ("blocks", edit("box", asset="Cube")),
        ("blocks", edit("Wall", gone=True)),
    ]


def test_orders_of_the_surroundings_pass_the_pipe_to_a_process() -> None:
    body = MovingBody("tracked", 5, 0.3, ((1.0, 2.0, 3.0), (1.5, 2.0, 3.0)), (8.0, 0.0, 0.0))
    for order in (EditOrder(edit("box", 1.0, asset="Cube")), BodiesUpdate((body,))):
        assert decode_order(encode(order)) == order
