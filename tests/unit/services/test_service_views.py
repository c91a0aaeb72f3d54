"""Views of services: their parts of the status, their metrics and rows of a terminal."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from tests.support.sample_snapshot import sample_snapshot
from vil_bridge.cli.top import rows_of
from vil_bridge.core.measure import Measure
from vil_bridge.interfaces.services import ServicePlugin, services
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.web.routes.status import status_json
from vil_bridge.web.schemas import status


@dataclass(frozen=True)
class BatteryView:
    vehicle: str
    left: Annotated[float | None, Measure("battery_left_ratio", "Charge that is left.")] = None
    warned: Annotated[int, Measure("battery_warnings", "Warnings so far.", counts=True)] = 0


def battery_rows(batteries: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for name, battery in batteries.items():
        yield "battery", name, "", f"{battery['left']:.0%} left"


@pytest.fixture
def with_battery(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The type of the status of a bridge that has one service more."""
    module = ModuleType("battery_view")
    module.__dict__.update(View=dict[str, BatteryView], LABEL="battery", rows=battery_rows)
    monkeypatch.setitem(sys.modules, "battery_view", module)
    monkeypatch.setitem(services(), "battery", ServicePlugin("none:None", view="battery_view"))
    return status._with_services()


def test_a_view_is_in_the_status_and_its_schema(with_battery: Any) -> None:
    bare = with_battery(t_ns=1, name="b", version="1", uptime_s=1.0, ready=True)
    assert bare.battery == {} and bare.twins == {} and bare.warnings == ()
    schema = TypeAdapter(with_battery).json_schema()
    assert {"battery", "twins", "warnings", "sources"} <= set(schema["properties"])
    assert "left" in schema["$defs"]["BatteryView"]["properties"]
    full = replace(bare, battery={"main": BatteryView("drone", 0.25)})
    assert b'"battery":{"main":{"vehicle":"drone","left":0.25,"warned":0}}' in status_json(full)


def test_marked_fields_are_metrics_and_unknown_ones_have_no_sample(with_battery: Any) -> None:
    batteries = {"main": BatteryView("drone", 0.25, 3), "spare": BatteryView("drone")}
    now = with_battery(t_ns=1, name="b", version="1", uptime_s=1.0, ready=True, battery=batteries)
    value = metrics_registry(lambda: now).get_sample_value
    assert value("vil_battery_left_ratio", {"battery": "main"}) == 0.25
    assert value("vil_battery_left_ratio", {"battery": "spare"}) is None
    assert value("vil_battery_warnings_total", {"battery": "main"}) == 3.0


@pytest.mark.usefixtures("with_battery")
def test_rows_of_a_terminal_come_from_the_view() -> None:
    shown = json.loads(status_json(sample_snapshot()))
    shown["battery"] = {"main": {"left": 0.25}}
    (row,) = [row for row in rows_of(shown) if row["kind"] == "battery"]
    assert (row["name"], row["note"]) == ("main", "25% left")


@pytest.mark.parametrize("name", [name for name, plugin in services().items() if plugin.view])
def test_a_view_imports_the_core_alone(name: str) -> None:
    path = Path(import_module(services()[name].view).__file__ or "")
    nodes = ast.walk(ast.parse(path.read_text()))
    ours = [
        node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vil_")
    ]
    assert all(module is not None and module.startswith("vil_bridge.core.") for module in ours)
