"""Occupancy maps in the metrics and on a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.support.sample_snapshot import sample_snapshot
from vil_bridge.cli.top import rows_of
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.services.maps.view import MapView
from vil_bridge.web.routes.status import status_json

HALL = MapView(
    cameras=("front",),
    min_m=(0.0, 0.0, 0.0),
    max_m=(9.0, 9.0, 3.0),
    resolution_m=0.1,
    number=7,
    t_ns=1,
    free=20500,
    occupied=1200,
    pictures=6,
    superseded=2,
    failed=1,
    insert_ms=4.5,
)


def test_metrics_have_known_voxels_by_state_and_pictures_that_the_map_took() -> None:
    bare: Any = sample_snapshot()
    now = replace(bare, maps={"hall": HALL})
    value = metrics_registry(lambda: now).get_sample_value
    assert value("vil_map_voxels", {"map": "hall", "state": "free"}) == 20500.0
    assert value("vil_map_voxels", {"map": "hall", "state": "occupied"}) == 1200.0
    assert value("vil_map_pictures_total", {"map": "hall"}) == 6.0


def test_a_row_of_a_terminal_has_the_voxels_or_the_problem() -> None:
    failed = replace(HALL, problem="a bug ended it")
    bare: Any = sample_snapshot()
    now = replace(bare, maps={"hall": HALL, "yard": failed})
    rows = [row for row in rows_of(json.loads(status_json(now))) if row["kind"] == "map"]
    assert [(row["name"], row["state"], row["note"]) for row in rows] == [
        ("hall", "", "1,200 occupied, 20,500 free voxels"),
        ("yard", "", "a bug ended it"),
    ]
