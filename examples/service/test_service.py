"""A bridge runs the service: run ``pytest`` in this folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.common import wait_until
from tests.support.extensions import make_known, readme_configuration
from tests.support.programs import Program, run

PACKAGE = Path(__file__).parent
PROGRAM = Path(sys.executable).with_name("vil-bridge")
ANSWER_S = 30.0


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return variables by which programs find the package, as if it was installed."""
    make_known(PACKAGE, tmp_path, monkeypatch)
    given = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(PACKAGE), given])}


@pytest.fixture
def bridge(known: dict[str, str], tmp_path: Path) -> Iterator[httpx.Client]:
    """Return a client of a bridge with the configuration of the README."""
    file = tmp_path / "lab.yaml"
    file.write_text(yaml.safe_dump(readme_configuration(PACKAGE)))
    with Program(PROGRAM, "run", file, env=known) as program:
        page = program.await_text(r"status page (http\S+)", 60.0)[1]
        with httpx.Client(base_url=page, timeout=ANSWER_S) as client:
            yield client


def test_a_fast_actor_degrades_the_bridge(bridge: httpx.Client) -> None:
    """Status, metrics and readiness have what the service sees."""

    def status() -> dict[str, object]:
        return bridge.get("/api/v1/status").raise_for_status().json()

    # TODO: bring about what the service is there for.
    wait_until(lambda: any("its limit is" in why for why in status()["degraded_because"]), 60.0)
    now = status()
    assert "example" in now["services"]
    assert now["example"]["drone"]["fast"] and now["example"]["drone"]["episodes"] == 1
    metrics = bridge.get("/metrics").raise_for_status().text
    assert 'vil_example_episodes_total{actor="drone"} 1.0' in metrics
    speed = re.search(r'vil_example_speed_metres_per_second{actor="drone"} (\S+)', metrics)
    assert speed is not None and 0.5 < float(speed[1]) < 1.3  # it accelerates to 1 m/s


def test_people_may_ask_it_over_rest(bridge: httpx.Client) -> None:
    """The document of the interface has the routes."""
    assert "/api/v1/example/{actor}/forget" in bridge.get("/api/v1/openapi.json").json()["paths"]
    assert bridge.post("/api/v1/example/drone/forget").json()["limit_mps"] == 0.5
    unknown = bridge.post("/api/v1/example/ghost/forget")
    assert (unknown.status_code, "known: drone" in unknown.text) == (404, True)


def test_a_wrong_section_is_refused_at_its_place(known: dict[str, str], tmp_path: Path) -> None:
    """`vil-bridge check` names the line and what is known."""
    config = readme_configuration(PACKAGE) | {"example": {"ghost": {"limit_mps": 0.5}}}
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(config))
    done = run(PROGRAM, "check", file, env=known)
    assert done.returncode == 2
    assert "example.ghost: no actor is named 'ghost'; known: drone" in done.stdout + done.stderr
