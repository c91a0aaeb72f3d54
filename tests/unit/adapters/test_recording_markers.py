"""Recordings of markers: tables and C3D, written by hand as they are described."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.target import CORPORA
from tests.support.recording import write
from vil_adapters.recording.formats import open_recording
from vil_bridge.core.errors import ConfigError

TRC = """PathFileType\t4\t(X/Y/Z)\ttake.trc
DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits
100\t100\t2\t2\tmm
Frame#\tTime\tHEAD\t\t\tTOE\t\t
\t\tX1\tY1\tZ1\tX2\tY2\tZ2

1\t0.00\t1000\t1700\t3\t10\t20\t30
2\t0.01\t1001\t1701\t4\t\t\t
"""

NEXUS = """Trajectories,,,,,,,
100,,,,,,,
,,anna:HEAD,,,anna:TOE,,
Frame,Sub Frame,X,Y,Z,X,Y,Z
,,mm,mm,mm,mm,mm,mm
5,0,1000,3,1700,10,20,30
6,0,1001,4,1701,,,

Devices
1000
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [("take.trc", TRC), ("take.csv", NEXUS), ("commas.trc", TRC.replace("\t", ","))],
)
def test_marker_tables(tmp_path: Path, name: str, text: str) -> None:
    recording = open_recording(write(tmp_path, name, text))
    track = recording.markers
    assert track is not None
    assert [label.rpartition("/")[2] for label in track.labels] == ["HEAD", "TOE"]
    assert recording.t_ns.tolist() == [0, 10_000_000]
    sign = -1.0 if name.endswith("trc") else 1.0  # y-up: forward in the file is backward in y
    assert track.p_m[:, 0] == pytest.approx(
        np.array([[1.0, sign * 0.003, 1.7], [1.001, sign * 0.004, 1.701]])
    )
    assert track.tracked.tolist() == [[True, True], [True, False]]
    assert track.p_m[1, 1].tolist() == track.p_m[0, 1].tolist(), (
        "a hidden marker stays where it was seen"
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.trc", TRC.replace("mm", "furlongs"), ":3: .*furlongs.*unit_m"),
        ("a.trc", TRC.replace("0.01\t1001", "0.00\t1001"), ":8: time"),
        ("a.trc", TRC.replace("1001", "x"), ":8: .*'x'"),
        ("a.trc", TRC.replace("PathFileType", "Path"), ":1: is not a TRC"),
        ("a.csv", NEXUS.replace("100,", "fast,", 1), ":2: expected the frame rate"),
        ("a.csv", NEXUS.replace("anna:HEAD", "").replace("anna:TOE", ""), "0 markers are named"),
        ("a.csv", NEXUS.replace("1001", "x"), ":7: .*'x'"),
    ],
)
def test_broken_marker_tables_are_told_with_their_line(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        open_recording(write(tmp_path, name, text))


def c3d_file(path: Path, units: str = "mm", y_screen: str = "+Z") -> Path:
    c3d = pytest.importorskip("c3d", reason="the package is not installed (extra c3d)")
    writer = c3d.Writer(point_rate=50.0)
    for frame in range(5):
        points = np.zeros((2, 5), dtype=np.float32)
        points[0, :3], points[1, :3] = (1000.0 + frame, 2.0, 1700.0), (10.0, 20.0, 30.0)
        points[1, 3] = -1.0 if frame == 2 else 0.0
        writer.add_frames([(points, np.zeros((0, 0)))])
    writer.set_point_labels(["anna:HEAD", "anna:TOE"])
    group = writer.get("POINT")
    group.add_str("UNITS", "", units, len(units))
    group.add_str("Y_SCREEN", "", y_screen, len(y_screen))
    buffer = io.BytesIO()
    writer.write(buffer)
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("up", ["+Z", "+Y"])
def test_c3d(tmp_path: Path, up: str) -> None:
    recording = open_recording(c3d_file(tmp_path / "take.c3d", y_screen=up))
    track = recording.markers
    assert track is not None and track.labels == ("anna/HEAD", "anna/TOE")
    assert recording.rate_hz == pytest.approx(50.0) and len(recording.t_ns) == 5
    expected = [1.0, 0.002, 1.7] if up == "+Z" else [1.0, -1.7, 0.002]
    assert track.p_m[0, 0] == pytest.approx(expected, abs=1e-6)
    assert track.tracked[:, 1].tolist() == [True, True, False, True, True]


@pytest.mark.filterwarnings("ignore")
def test_a_broken_c3d_is_refused(tmp_path: Path) -> None:
    whole = c3d_file(tmp_path / "take.c3d").read_bytes()
    for length in [0, 3, 100, 600, 1024]:
        path = tmp_path / "cut.c3d"
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"cut\.c3d"):
            open_recording(path)
    with pytest.raises(ConfigError, match="unit_m"):
        open_recording(c3d_file(tmp_path / "odd.c3d", units="ells"))
    (tmp_path / "many.c3d").write_bytes(
        (CORPORA / "c3d" / "labels_of_many_dimensions").read_bytes()
    )
    with pytest.raises(ConfigError, match="LABELS is not a list of names"):
        open_recording(tmp_path / "many.c3d")


def test_without_the_extra_c3d_the_cure_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "c3d", None)
    with pytest.raises(ConfigError, match=r"\.\[c3d\]"):
        open_recording(write(tmp_path, "take.c3d", "x"))
