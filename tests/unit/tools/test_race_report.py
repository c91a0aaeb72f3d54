"""``vil-bridge race report``.

Numbers, places and progress of flights that are known, the page, files, mistakes.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.support.race_runs import (
    GRAVITY,
    group_of,
    judged_run,
    line_course,
    straight_run,
    without_track,
)
from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.courses.course import Course, RaceRules
from vil_simulation.race import flown_tracks
from vil_simulation.race.course_progress import CourseProgress
from vil_simulation.race.pilots import TrajectoryPilot
from vil_simulation.race.race_runs import RunGroup
from vil_simulation.race.report import race_page
from vil_simulation.race.report_maps import gate_planes
from vil_simulation.race.report_tables import lap_gates, lap_rows, summary_of, table_files
from vil_simulation.race.results import RaceResult, write_results_file
from vil_simulation.race.routes import through_gates
from vil_simulation.race.run_files import read_runs
from vil_simulation.race.simulated_race import race
from vil_simulation.vehicles.control.limits import Limits, fastest
from vil_simulation.vehicles.model import Model

FILES = ("summary", "laps", "crossings")


def charts_of(page: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def rows_of(page: str, title: str) -> list[list[str]]:
    """Return the cells of the first table behind a title, without its head."""
    table = page[page.index(title) :].partition("<table>")[2].partition("</table>")[0]
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in table.split("<tr>")]
    return [[re.sub(r"<.*?>", "", cell) for cell in row] for row in rows if row]


def tables(groups: list[RunGroup], folder: Path) -> dict[str, list[dict[str, str]]]:
    texts = table_files(groups, folder / "r.html")
    assert [file.name for file in texts] == [f"r_{name}.csv" for name in FILES]
    return {
        n: list(csv.DictReader(t.splitlines())) for n, t in zip(FILES, texts.values(), strict=True)
    }


# --- numbers --------------------------------------------------------------------------------------


def test_the_numbers_of_the_tables_are_those_computed_by_hand(tmp_path: Path) -> None:
    """Gates at 5, 10 and 15 m: 2.5, 5, 7.5 s at 2 m/s; 5, 10, 15 s at 1 m/s.

    1.25, 2.5, 3.75 s at 4 m/s.
    """
    course = line_course()
    slow, fast = straight_run("slow", course, 1.0), straight_run("fast", course, 4.0)
    crashed = straight_run("crashed", line_course(pole_m=12.01), 2.0)
    group = group_of("by hand", slow, crashed, fast)
    assert (crashed.episode.ended, crashed.episode.what) == ("collision", "pole")

    found = summary_of(group)
    assert (found.runs, found.completed) == (3, 2)
    assert found.best_s == pytest.approx(3.75, abs=1e-6)
    assert found.mean_s == pytest.approx(0.5 * (15.0 + 3.75), abs=1e-6)
    assert found.deviation_s == pytest.approx((15.0 - 3.75) / np.sqrt(2.0), abs=1e-6)
    # 30 points minus the time.
    assert found.score_mean == pytest.approx((15.0 + 26.25 + 0.0) / 3.0, abs=1e-6)
    assert found.best_mean == found.score_mean

    page = race_page([group])
    assert rows_of(page, "Laps and splits: by hand") == [
        ["fast", "3.750", "+0.000", "1.250", "1.250", "1.250", "finished"],
        ["slow", "15.000", "+11.250", "5.000", "5.000", "5.000", "finished"],
        ["crashed", "-", "-", "2.500", "2.500", "-", "collision (pole)"],
    ]
    (results,) = rows_of(page, "<h2>Results")
    assert results == [
        "by hand",
        "2 of 3",
        "3.75",
        "9.38 &#177; 7.95",
        "13.75 &#177; 13.17",
        "13.75",
    ]
    (end,) = rows_of(page, "where they ended")
    # Ball and pole have 0.1 m each: the first pose nearer than 0.2 m ends the race.
    assert end == ["by hand", "crashed", "collision (pole)", "2", "5.91", "11.82, 0.00, 2.00"]

    read = tables([group], tmp_path)
    assert [float(row["mean_s"]) for row in read["summary"]] == [pytest.approx(9.375)]
    assert [(r["run"], r["gate"], float(r["race_s"]), float(r["split_s"])) for r in read["laps"]][
        :3
    ] == [
        ("slow", "G1", 5.0, 5.0),
        ("slow", "G2", 10.0, 5.0),
        ("slow", "G3", 15.0, 5.0),
    ]
    assert len(read["laps"]) == len(read["crossings"]) == 3 + 2 + 3
    assert {float(r["speed_mps"]) for r in read["crossings"] if r["run"] == "fast"} == {4.0}


def test_penalties_count_in_times_and_gates_left_out_have_no_split() -> None:
    """At 2 m/s past the second gate, 1.5 m beside it: a gate left out costs 10 s."""
    course = line_course()
    t_ns = 10_000_000 * np.arange(850)
    x_m = 2e-9 * t_ns
    y_m = 1.5 * np.exp(-(((x_m - 10.0) / 1.5) ** 2))
    p_m = np.column_stack((x_m, y_m, np.full_like(x_m, 2.0)))
    v_mps = np.gradient(p_m, 0.01, axis=0)
    run = judged_run("seed 0", course, t_ns.tolist(), p_m, v_mps)
    (row,) = lap_rows(run)
    assert list(row.splits_s) == [pytest.approx(2.5, abs=1e-3), None, pytest.approx(5.0, abs=1e-3)]
    assert row.total_s == pytest.approx(17.5, abs=1e-3)
    assert summary_of(group_of("g", run)).best_s == row.total_s
    assert run.episode.score == pytest.approx(20.0 - 7.5, abs=1e-3)


def test_laps_of_a_flying_start_begin_behind_the_first_gate() -> None:
    """A circle of 10 m radius through two gates, flown in 10 s.

    The clock starts at the first gate.
    """
    base = line_course(gates=2, laps=2, rules=RaceRules("first_gate"))
    there, back = (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0)
    poses = Transform.of((0.0, -10.0, 2.0), there), Transform.of((0.0, 10.0, 2.0), back)
    gates = tuple(replace(g, T_world_gate=pose) for g, pose in zip(base.gates, poses, strict=True))
    course = replace(base, gates=gates)
    t_ns = 10_000_000 * np.arange(2250)
    angle = 2e-10 * np.pi * t_ns - 0.6 * np.pi
    p_m = np.column_stack((10.0 * np.cos(angle), 10.0 * np.sin(angle), np.full(len(angle), 2.0)))
    v_mps = 2.0 * np.pi * np.column_stack((-np.sin(angle), np.cos(angle), np.zeros(len(angle))))
    run = judged_run("seed 0", course, t_ns.tolist(), p_m, v_mps)
    assert run.finished and lap_gates(course) == ["G2", "G1"]
    first, second = lap_rows(run)
    assert list(first.splits_s) == list(second.splits_s) == pytest.approx([5.0, 5.0])
    assert first.lap_s == pytest.approx(10.0)
    assert first.total_s is None
    assert [second.lap_s, second.total_s] == [pytest.approx(10.0), pytest.approx(20.0)]
    rows = rows_of(race_page([group_of("g", run)]), "Laps and splits: g")
    splits = ["5.000", "5.000", "10.000"]
    assert [row[1:7] for row in rows] == [
        ["1", "-", "-", *splits],
        ["2", "20.000", "+0.000", *splits],
    ]


# --- places ---------------------------------------------------------------------------------------


def test_crossings_are_drawn_where_a_straight_flight_crosses() -> None:
    """0.3 m to the left and 0.2 m up of the centre of openings of 2 x 1 m with bars of 0.2 m."""
    course = line_course()
    runs = straight_run("a", course, 2.0, 0.3, 0.2), straight_run("b", course, 3.0, -0.5, -0.4)
    charts = charts_of(gate_planes([group_of("left", runs[0]), group_of("right", runs[1])]))
    assert len(charts) == 3
    for chart in charts:
        left, low, right, high, _ = _numbers(chart.find("./{*}path[@class='edge']"))
        points = [
            _numbers(path)[:2]
            for path in chart.iterfind("./{*}path")
            if "dots" in path.attrib["class"]
        ]
        scale = (right - left) / 2.0
        places = [
            ((x - 0.5 * (left + right)) / scale, (0.5 * (low + high) - y) / scale)
            for x, y in points
        ]
        assert places == [
            pytest.approx((-0.3, 0.2), abs=0.01),
            pytest.approx((0.5, -0.4), abs=0.01),
        ]
        assert (low - high) / scale == pytest.approx(1.0, abs=0.01)


def _numbers(path: ET.Element | None) -> list[float]:
    assert path is not None
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", path.attrib["d"])]


def test_a_collision_with_a_gate_is_marked_in_its_plane() -> None:
    run = straight_run("a", line_course(), 2.0, 1.1)
    assert (run.episode.ended, run.episode.what) == ("collision", "G1")
    first, second, _ = charts_of(gate_planes([group_of("g", run)]))
    (cross,) = first.iterfind("./{*}path[@class='cross']")
    left, _, right, *_ = _numbers(first.find("./{*}path[@class='edge']"))
    x = _numbers(cross)[0] + 4.0
    assert (x - 0.5 * (left + right)) / (0.5 * (right - left)) == pytest.approx(-1.1, abs=0.01)
    assert second.find("./{*}path[@class='cross']") is None


# --- progress -------------------------------------------------------------------------------------


def test_progress_is_metres_along_the_best_run_and_times_behind_it_are_exact() -> None:
    course = line_course()
    fast, slow = straight_run("fast", course, 4.0), straight_run("slow", course, 1.0, 0.2)
    progress = CourseProgress(fast)
    assert progress.grid_m[-1] == pytest.approx(15.0, abs=1e-6)
    assert list(progress.gates_m.values()) == pytest.approx([5.0, 10.0, 15.0], abs=1e-6)
    behind = progress.times_at(slow) - progress.times_at(fast)
    assert behind == pytest.approx(progress.grid_m * (1.0 - 0.25), abs=1e-3)
    assert slow.track is not None
    assert progress.values_at(slow, slow.track.speed_mps) == pytest.approx(np.ones(len(behind)))


def test_progress_does_not_jump_where_the_track_crosses_itself() -> None:
    course = line_course()
    t_s = 0.01 * np.arange(1001)
    turn = 0.2 * np.pi * t_s
    p_m = np.column_stack((10.0 * np.sin(turn), 5.0 * np.sin(2.0 * turn), np.full(len(turn), 2.0)))
    v_mps = np.gradient(p_m, 0.01, axis=0)
    eight = judged_run("eight", course, (10_000_000 * np.arange(1001)).tolist(), p_m, v_mps)
    progress = CourseProgress(replace(eight, episode=replace(eight.episode, events=())))
    found = progress.of(eight)
    lengths = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(p_m, axis=0), axis=1))))
    assert found == pytest.approx(lengths[: len(found)], abs=0.02)


def test_values_end_where_a_run_ends() -> None:
    course = line_course(pole_m=12.0)
    crashed, whole = straight_run("c", course, 2.0), straight_run("w", line_course(), 2.0)
    times = CourseProgress(whole).times_at(crashed)
    assert np.isfinite(times).sum() == pytest.approx(12.0 / 0.25, abs=1)
    assert np.isnan(times[-8:]).all()


# --- page -----------------------------------------------------------------------------------------


def test_the_page_holds_all_charts_and_refers_to_nothing_outside() -> None:
    course = line_course()
    groups = [
        group_of(
            "<slow>", straight_run("seed 0", course, 1.0), straight_run("seed 1", course, 1.5, 0.3)
        ),
        group_of(
            "fast", straight_run("seed 0", course, 4.0), straight_run("seed 1", course, 2.0, 1.1)
        ),
    ]
    page = race_page(groups)
    # 3 of the results; 2 maps, 3 planes, 6 curves, 2 of times behind the best, 1 map of crashes
    assert len(charts_of(page)) == 3 + 2 + 3 + 6 + 2 + 1
    for title in (
        "coloured by speed",
        "Laps and splits",
        "gates' planes",
        "Over the course",
        "behind the best run",
    ):
        assert title in page
    assert "&lt;slow&gt;" in page and "<slow>" not in page
    assert (
        "prefers-color-scheme: dark" in page
        and "@media print" in page
        and 'name="viewport"' in page
    )
    assert not re.search(r"<script|src=|href=|url\(|@import", page)
    assert set(re.findall(r"https?://[^\"' <]+", page)) == {"http://www.w3.org/2000/svg"}


def test_runs_without_tracks_still_have_tables_crossings_and_the_course() -> None:
    course = line_course()
    page = race_page(
        [group_of("g", *(without_track(straight_run("a", course, v)) for v in (1.0, 2.0)))]
    )
    assert "The tracks are not there" in page
    assert len(charts_of(page)) == 3 + 1 + 3
    assert "Over the course" not in page


def test_thrust_is_drawn_in_g() -> None:
    page = race_page([group_of("g", straight_run("a", line_course(), 2.0))])
    thrust = next(chart for chart in charts_of(page) if chart.attrib["aria-label"] == "Thrust")
    ticks = {
        text.text: float(text.attrib["y"])
        for text in thrust.iterfind("./{*}text[@text-anchor='end']")
    }
    (curve,) = thrust.iterfind("./{*}path[@class='curve l0']")
    assert _numbers(curve)[1] == pytest.approx(ticks["1"] - 4.0, abs=0.1)
    assert GRAVITY == 9.80665


# --- files ----------------------------------------------------------------------------------------


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["race", *map(str, words)])


LIMIT_S = 1.57


def plain_pilot(courses: Sequence[Course], model: Model) -> TrajectoryPilot:
    """Return a pilot that does not rehearse its flights."""
    limits = Limits(acceleration_mps2=25.0)
    return TrajectoryPilot(model, [fastest(through_gates(course), limits) for course in courses])


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of four real races, of which the slow ones run out of time."""
    folder = tmp_path_factory.mktemp("runs")
    course = line_course(rules=RaceRules("signal", timeout_s=LIMIT_S))
    spread = replace(course.gates[0].spread, low_m=(0.0, -0.4, 0.0), high_m=(0.0, 0.4, 0.0))
    course = replace(course, gates=tuple(replace(gate, spread=spread) for gate in course.gates))
    result = race(course, "minimum-snap", plain_pilot, range(4))
    assert {one.ended for one in result.episodes} == {"finished", "timed_out"}
    write_results_file(result, course, folder / "results.json")
    return folder / "results.json"


def test_results_are_read_as_they_were_flown(flown: Path) -> None:
    (group,) = read_runs([flown])
    written = json.loads(flown.read_text())
    for one, run_ in zip(written["episodes"], group.runs, strict=True):
        episode = run_.episode
        assert (one["time_s"], one["score"], one["penalty_s"]) == (
            episode.time_s,
            episode.score,
            episode.penalty_s,
        )
        assert (one["passed"], one["ended"], one["what"]) == (
            episode.passed,
            episode.ended,
            episode.what,
        )
        track = run_.track
        assert track is not None
        assert np.median(np.diff(track.t_s)) == pytest.approx(1.0 / 120.0, abs=1e-5)
        assert track.t_s[0] == 0.0 and track.t_s[-1] == pytest.approx(episode.end_s, abs=1e-5)
        assert track.thrust_mps2[0] == pytest.approx(9.81, abs=0.1)
        # The track crosses the planes where and when the clock says.
        for gate in episode.gates:
            pose = next(g.T_world_gate for g in run_.course.gates if g.name == gate.gate)
            place = pose.inverse().apply(track.place_at(gate.race_s))
            assert place == pytest.approx((0.0, gate.y_m, gate.z_m), abs=2e-3)


def test_the_verb_writes_the_page_and_its_tables(flown: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    done = run("report", flown, "-o", page)
    assert done.exit_code == 0, done.output
    assert f"{page}: 4 runs of 1 files" in done.output
    assert "where they ended" in page.read_text()
    for name in FILES:
        assert (tmp_path / f"out_{name}.csv").read_text().startswith("course,group,")
    before = page.read_bytes()
    assert run("report", flown, "-o", page).exit_code == 0
    assert page.read_bytes() == before


def test_results_without_tracks_leave_none_of_before(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    course = line_course()
    episode, track = straight_run("a", course, 2.0).episode, straight_run("a", course, 2.0).track
    assert track is not None
    for tracks in ((track,), ()):
        write_results_file(RaceResult("line", "p", (episode,), tracks), course, file)
        ((one,),) = [group.runs for group in read_runs([file])]
        assert (one.episode, one.track is None) == (episode, not tracks)


def test_the_same_pilot_twice_is_named_by_its_files(flown: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(flown.read_bytes())
    first, second = read_runs([flown, other])
    assert (first.name, second.name) == ("minimum-snap (results.json)", "minimum-snap (other.json)")
    assert second.runs[0].track is None


def test_mistakes_have_a_cure(flown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(change: object, problem: str, *, tracks: bytes | None = None) -> None:
        file = tmp_path / "bad.json"
        text = change if isinstance(change, str) else json.dumps(change)
        file.write_text(text, encoding="utf-8")
        file.with_suffix(".tracks.npz").unlink(missing_ok=True)
        if tracks is not None:
            file.with_suffix(".tracks.npz").write_bytes(tracks)
        done = run("report", file, "-o", tmp_path / "x.html")
        assert isinstance(done.exception, ConfigError), done.output
        assert re.search(problem, str(done.exception)), str(done.exception)
        assert not (tmp_path / "x.html").exists()

    good, tracks = json.loads(flown.read_text()), flown.with_suffix(".tracks.npz").read_bytes()
    refused("{", r"bad\.json holds no results of races: .*line 1.*Write one with: vil-bridge race")
    refused("[1]", "holds no results of races: the file")
    refused({**good, "episodes": []}, "episodes: List should have at least 1 item")
    refused(
        {key: value for key, value in good.items() if key != "course_yaml"},
        "course_yaml: Field required",
    )
    refused({**good, "course_yaml": "course: x"}, r"course_yaml\).*gates")
    assert flown_tracks._MOST_BYTES == 1 << 30
    limit = 1 << 20
    bomb = io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("t_s.npy", "w") as member,
    ):
        member.write(bytes(limit + 1))
    with monkeypatch.context() as patched:
        patched.setattr(flown_tracks, "_MOST_BYTES", limit)
        refused(
            good,
            f"no tracks of races: it holds more than 128 arrays or {limit} bytes",
            tracks=bomb.getvalue(),
        )
    one = good["episodes"][0]
    refused(
        {**good, "episodes": [{**one, "events": [{"event": "flown"}]}]},
        "'flown' is not an event of a race",
    )
    refused({**good, "episodes": [{**one, "events": [{"event": "started"}]}]}, "t_ns")
    refused({**good, "episodes": [{**one, "ended": "won"}]}, r"episodes\.0\.ended")
    gate = {
        **next(event for event in one["events"] if event["event"] == "gate_passed"),
        "gate": "G9",
    }
    refused({**good, "episodes": [{**one, "events": [gate]}]}, "has no gate 'G9'")
    far = {**gate, "gate": "G1", "number": 10**12}
    refused(
        {**good, "episodes": [{**one, "events": [far]}]},
        r"has 3 gates, none is number 1000000000000\. Write the",
    )
    endless = {**far, "number": 0, "race_s": math.nan}
    refused(
        {**good, "episodes": [{**one, "events": [endless]}]},
        "'gate_passed' has numbers that are not finite",
    )
    refused(
        {**good, "episodes": [one]},
        r"bad\.tracks\.npz holds 4 tracks for 1 episodes",
        tracks=tracks,
    )
    refused(good, r"bad\.tracks\.npz holds no tracks", tracks=b"no archive")
    refused(good, r"bad\.tracks\.npz holds no tracks", tracks=tracks[:-300])
    same = run("report", flown, "-o", flown)
    assert isinstance(same.exception, ConfigError) and "is an input of the report" in str(
        same.exception
    )
    assert run("report").exit_code == 2
    assert run("report", tmp_path / "none.json").exit_code == 2
