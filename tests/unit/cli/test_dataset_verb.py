"""What ``vil-bridge dataset`` does with options beside a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError


def test_options_that_a_plan_says_are_refused_beside_it(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("frames: 2\n")
    words = ["dataset", str(tmp_path / "set"), "--plan", str(tmp_path / "plan.yaml")]
    words += [
        "--frames",
        "9",
        "--camera",
        "front",
        "--size",
        "64",
        "48",
        "--rate",
        "20",
        "--workers",
        "2",
    ]
    told = CliRunner().invoke(app, words).exception
    assert isinstance(told, ConfigError)
    assert str(told).startswith("--camera, --size, --rate, --frames and --plan exclude each other")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("how", [[], ["--workers", "3"], ["--json", "--ray", "local"]])
def test_options_of_how_are_no_part_of_a_plan(tmp_path: Path, how: list[str]) -> None:
    """The plan is read: it is what is wrong here."""
    words = ["dataset", str(tmp_path / "set"), "--plan", str(tmp_path / "absent.yaml"), *how]
    told = CliRunner().invoke(app, words).exception
    assert (
        isinstance(told, ConfigError) and "absent.yaml" in str(told) and "beside" not in str(told)
    )
