"""`vil-bridge twin`: figures and page of two recorded paths, made ones and real ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.common import data_dir
from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_exp, q_mul, yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_simulation.dataset.plan import RecordedPath
from vil_simulation.dataset.recorded_trajectory import recorded_poses
from vil_simulation.twins.comparison import compare, figures_of_twin, read_paths
from vil_simulation.twins.report import twin_page

LATE_NS = 40_000_000


def write_tum(path: Path, t_ns: Any, p_m: FloatArray, q_xyzw: FloatArray) -> Path:
    rows = zip(t_ns.tolist(), p_m.tolist(), q_xyzw.tolist(), strict=True)
    lines = [f"{t // 10**9}.{t % 10**9:09d} " + " ".join(map(repr, (*p, *q))) for t, p, q in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def flights(
    folder: Path, offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> tuple[Path, Path]:
    """A flight with a gap, and its twin 40 ms later."""
    t_ns = 1_700_000_000 * 10**9 + np.arange(0, 20 * 10**9, 10**7)
    s = np.arange(2000) * 0.01
    p_m = np.column_stack(
        (3.0 * np.sin(0.7 * s), 2.0 * np.sin(1.1 * s), 1.5 + 0.5 * np.sin(1.9 * s))
    )
    q = q_exp(np.column_stack((0.1 * np.sin(s), 0.0 * s, 0.3 * s)))
    seen = (s < 8.0) | (s > 9.0)
    real = write_tum(folder / "real.txt", t_ns[seen], p_m[seen], q[seen])
    return real, write_tum(folder / "twin.txt", t_ns + LATE_NS, p_m + offset_m, q)


def charts_of(page: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_the_verb_writes_figures_and_a_page(tmp_path: Path) -> None:
    real, twin = flights(tmp_path, (0.02, 0.0, 0.0))
    page = tmp_path / "out.html"
    done = CliRunner().invoke(app, ["twin", str(real), str(twin), "-o", str(page), "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["delay_s"] == pytest.approx(0.04, abs=5e-4)
    assert figures["hausdorff_m"] == pytest.approx(0.02, abs=1e-3)
    assert figures["delay_removed"]["position_m"]["rms"] == pytest.approx(0.02, abs=5e-4)
    assert figures["delay_removed"]["offset_m"] == pytest.approx([0.02, 0.0, 0.0], abs=5e-4)
    assert figures["equal_instants"]["position_m"]["rms"] > 0.05
    assert figures["compared_s"] == pytest.approx(19.0, abs=0.1)  # the gap is cut
    text = page.read_text()
    assert len(charts_of(text)) == 2 + 4 + 2 + 2
    assert "The twin is 40.0 ms late" in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|src=|href=", text)
    text = CliRunner().invoke(app, ["twin", str(real), str(twin)]).stdout
    assert re.search(r"delay +40\.0 ms", text)


def test_curves_and_paths_are_interrupted_at_gaps(tmp_path: Path) -> None:
    real, twin = flights(tmp_path)
    found = compare(*read_paths((real, ""), (twin, ""), "same"))
    charts = charts_of(twin_page(found))
    for path in charts[0].iterfind(".//{*}path[@class='curve l0']"):
        assert path.attrib["d"].count("M") == 2


def test_posyaw_finds_another_frame(tmp_path: Path) -> None:
    real, twin = flights(tmp_path)
    seen = recorded_poses(RecordedPath(file=twin))
    turn = q_exp(np.array([0.0, 0.0, 0.7]))
    moved = write_tum(
        tmp_path / "moved.txt",
        seen.t_ns,
        seen.p_m @ yaw_matrix(0.7).T + (4.0, 1.0, 0.5),
        q_mul(turn, seen.q_xyzw),
    )
    figures = figures_of_twin(
        compare(*read_paths((real, ""), (moved, ""), "same"), alignment="posyaw")
    )
    assert figures["yaw_deg"] == pytest.approx(-np.degrees(0.7), abs=0.05)
    assert figures["delay_s"] == pytest.approx(0.04, abs=1e-3)
    assert figures["delay_removed"]["position_m"]["rms"] < 2e-3
    assert figures["delay_removed"]["attitude_deg"]["max"] < 0.2


def test_clocks_that_do_not_meet_are_named_and_can_start_together(tmp_path: Path) -> None:
    real, twin = flights(tmp_path)
    seen = recorded_poses(RecordedPath(file=twin))
    other = write_tum(tmp_path / "boot.txt", seen.t_ns - seen.t_ns[0], seen.p_m, seen.q_xyzw)
    with pytest.raises(ConfigError, match="hardly an instant in common"):
        compare(*read_paths((real, ""), (other, ""), "same"))
    found = compare(*read_paths((real, ""), (other, ""), "start"))
    assert found.delay is not None
    assert abs(found.delay.delay_s) < 1e-3


def test_mistakes_are_refused(tmp_path: Path) -> None:
    real, twin = flights(tmp_path)
    for arguments, problem in (
        ([str(real)], "A and B are the same body"),
        ([str(real), str(twin), "-o", str(twin)], "is an input of the comparison"),
        ([str(real), str(twin), "--twin", "x"], "holds no body named 'x'; it has twin"),
    ):
        done = CliRunner().invoke(app, ["twin", *arguments])
        assert isinstance(done.exception, ConfigError)
        assert problem in str(done.exception)


@pytest.mark.parametrize(
    "name", ["tumvi_room1/dataset-room1_512_16.csv.gz", "broad_12_slow_translation"]
)
def test_a_twin_of_a_real_recording_is_compared(name: str, tmp_path: Path) -> None:
    file = data_dir(name.partition("/")[0]) / name.partition("/")[2]
    seen = recorded_poses(RecordedPath(file=file))
    t_s = (seen.t_ns - seen.t_ns[0]) / 1e9
    twin = write_tum(
        tmp_path / "twin.txt",
        seen.t_ns + LATE_NS,
        seen.p_m + np.array([0.0, 0.01, 0.0]),
        seen.q_xyzw,
    )
    found = compare(*read_paths((file, ""), (twin, ""), "same"))
    figures = figures_of_twin(found)
    assert figures["delay_s"] == pytest.approx(0.04, abs=1e-3)
    assert figures["delay_removed"]["position_m"]["rms"] == pytest.approx(0.01, abs=1e-3)
    assert (
        figures["equal_instants"]["position_m"]["rms"]
        > 1.3 * figures["delay_removed"]["position_m"]["rms"]
    )
    gaps_s = np.diff(t_s)[np.diff(t_s) > 0.05].sum()
    assert figures["compared_s"] == pytest.approx(t_s[-1] - gaps_s, abs=1.0 + 0.1 * gaps_s)
    assert len(charts_of(twin_page(found))) == 10
