"""Small files of each format, their corner cases, and what is said of broken ones."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.motions import Dance
from tests.support.recording import write
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import MotionFile
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_rotate, yup_to_zup, zup_to_yup
from vil_bridge.core.types import FloatArray

S = 1_000_000_000


# --- BVH ------------------------------------------------------------------------------------------

ROTATION_FIRST = """HIERARCHY
ROOT Hips
{
  OFFSET 1.0 0.0 0.0
  CHANNELS 6 Zrotation Xrotation Yrotation Xposition Yposition Zposition
  JOINT Spine
  {
    OFFSET 0.0 10.0 0.0
    CHANNELS 3 Yrotation Xrotation Zrotation
    End Site
    {
      OFFSET 0.0 4.0 0.0
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.0417083750417
90.0 0.0 0.0 5.0 20.0 -3.0 0.0 0.0 0.0
0.0 0.0 0.0 5.0 20.0 -3.0 90.0 90.0 0.0
"""


def axis_turn(axis: str, degrees: float) -> FloatArray:
    """Rotation matrix about one axis, written out."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    i, j = {"X": (1, 2), "Y": (2, 0), "Z": (0, 1)}[axis]
    R = np.eye(3)
    R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
    return R


def test_bvh_channels_in_any_order(tmp_path: Path) -> None:
    recording = open_recording(
        write(tmp_path, "take.bvh", ROTATION_FIRST), unit_m=0.01, up_axis="z"
    )
    (track,) = recording.skeletons
    assert (track.model.name, track.model.bones, track.model.parents) == (
        "take",
        ("Hips", "Spine"),
        (-1, 0),
    )
    assert recording.t_ns.tolist() == [0, 41_708_375], "the frame time at full precision"
    assert track.bones.p_m[0, 0] == pytest.approx([0.05, 0.2, -0.03]), (
        "the root's channels replace its offset"
    )
    assert track.bones.p_m[0, 1] == pytest.approx([0.05 - 0.1, 0.2, -0.03]), (
        "turned by 90 degrees about z"
    )
    x, y, z = (q_rotate(track.bones.q_xyzw[1, 1], axis) for axis in np.eye(3))
    R = axis_turn("Y", 90) @ axis_turn("X", 90) @ axis_turn("Z", 0)
    assert np.column_stack((x, y, z)) == pytest.approx(R, abs=1e-12), (
        "the first channel is the outermost"
    )


def test_a_bvh_root_with_its_height_in_offset_and_channels_walks_on_the_floor(
    tmp_path: Path,
) -> None:
    """MotionBuilder, Blender and Mixamo write the hips' height into both."""
    text = ROTATION_FIRST.replace("OFFSET 1.0 0.0 0.0", "OFFSET 0.0 92.0 0.0").replace(
        " 5.0 20.0 -3.0", " 5.0 92.0 -3.0"
    )
    (track,) = open_recording(write(tmp_path, "a.bvh", text), unit_m=0.01).skeletons
    assert track.bones.p_m[:, 0, 2] == pytest.approx([0.92, 0.92])
    without = text.replace("CHANNELS 6", "CHANNELS 3").replace(" Xposition Yposition Zposition", "")
    (track,) = open_recording(
        write(tmp_path, "b.bvh", without.replace(" 5.0 92.0 -3.0", "")), unit_m=0.01
    ).skeletons
    assert track.bones.p_m[:, 0, 2] == pytest.approx([0.92, 0.92]), (
        "without channels the offset holds"
    )


def test_bvh_y_up_becomes_z_up(tmp_path: Path) -> None:
    path = write(tmp_path, "take.bvh", ROTATION_FIRST)
    (turned,) = open_recording(path, unit_m=0.01).skeletons
    (plain,) = open_recording(path, unit_m=0.01, up_axis="z").skeletons
    p_m, q_xyzw = yup_to_zup(plain.bones.p_m, plain.bones.q_xyzw)
    assert turned.bones.p_m == pytest.approx(p_m) and turned.bones.q_xyzw == pytest.approx(q_xyzw)
    assert turned.model.offsets_m[1] == pytest.approx([0.0, 0.0, 0.1]), "the spine points up"


def test_bvh_positions_of_other_joints_replace_their_offset(tmp_path: Path) -> None:
    text = ROTATION_FIRST.replace("CHANNELS 3 Yr", "CHANNELS 4 Yposition Yr").replace(
        " 0.0 0.0 0.0\n", " 12.0 0 0 0\n"
    )
    text = text.replace(" 90.0 90.0 0.0\n", " 12.0 90.0 90.0 0.0\n")
    (track,) = open_recording(write(tmp_path, "a.bvh", text), unit_m=1.0, up_axis="z").skeletons
    assert track.bones.p_m[1, 1] - track.bones.p_m[1, 0] == pytest.approx([0.0, 12.0, 0.0])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("HIERARCHY", "HIER", ":1: is not a BVH"),
        ("CHANNELS 6", "CHANNELS 5", ":5: CHANNELS wants"),
        ("Xposition", "Wposition", ":5: CHANNELS wants"),
        ("OFFSET 0.0 10.0 0.0", "OFFSET 0.0 ten 0.0", ":8: OFFSET wants"),
        ("Frames: 2", "Frames: 3", ":17: 3 frames are announced, 2 follow"),
        ("Frames: 2", "Frames: -2", ":17: expected"),
        ("Frame Time: 0.0417083750417", "Frame Time: nan", ":18: expected"),
        ("90.0 0.0 0.0 5.0", "90.0 0.0 zero 5.0", ":19: .*zero"),
        (" 90.0 90.0 0.0\n", " 90.0 90.0\n", ":20: fewer columns"),
        (" 90.0 90.0 0.0\n", " 90.0 90.0 0.0 7\n", ":20: .*another number than above"),
        (" 90.0 90.0 0.0\n", " 90.0 nan 0.0\n", ":20: a value is not finite"),
        ("  JOINT Spine", "  ROOT Spine", ":6: ROOT does not belong here"),
        ("MOTION", "MOTION?", ":16: 'MOTION\\?' is not expected"),
        ("  }\n}\n", "  }\n", "braces of the hierarchy are not closed"),
    ],
)
def test_a_broken_bvh_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = write(tmp_path, "take.bvh", ROTATION_FIRST.replace(old, new, 1))
    with pytest.raises(ConfigError, match=told):
        open_recording(path, unit_m=0.01)


def test_the_unit_of_bvh_must_be_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unit_m.*0\.056444 for the CMU library"):
        open_recording(write(tmp_path, "take.bvh", ROTATION_FIRST))


def test_every_truncation_of_a_bvh_is_refused_or_shorter(tmp_path: Path) -> None:
    for length in range(0, len(ROTATION_FIRST) - 5, 3):
        with pytest.raises(ConfigError):
            open_recording(write(tmp_path, "cut.bvh", ROTATION_FIRST[:length]), unit_m=0.01)


# --- trajectories ---------------------------------------------------------------------------------

TUM = """# timestamp tx ty tz qx qy qz qw
10.0 1.0 2.0 3.0 0.0 0.0 0.6 0.8

10.01 1.1 2.0 3.0 0.0 0.0 0.6 0.8
10.02 1.2 2.0 3.0 0.0 0.0 0.6 0.8 99.0
"""


def test_tum(tmp_path: Path) -> None:
    recording = open_recording(write(tmp_path, "flight.txt", TUM), subject="cf7")
    assert recording.format == "tum" and recording.subjects == ("cf7",)
    assert recording.t_ns.tolist() == [10 * S, 10_010_000_000, 10_020_000_000]
    assert recording.bodies.p_m[:, 0, 0].tolist() == [1.0, 1.1, 1.2]
    assert recording.bodies.q_xyzw[0, 0].tolist() == [0.0, 0.0, 0.6, 0.8]


def test_tum_rows_that_repeat_a_time_are_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    once = open_recording(write(tmp_path, "once.txt", TUM))
    line = next(row for row in TUM.splitlines(keepends=True) if row.startswith("10.01 "))
    twice = open_recording(write(tmp_path, "twice.txt", TUM.replace(line, line * 3)))
    assert twice.t_ns.tolist() == once.t_ns.tolist()
    assert twice.bodies.p_m.tolist() == once.bodies.p_m.tolist()
    assert "left out 2 rows that repeat a time" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("10.01 ", "9.99 ", ":4: time 9.990000 does not follow"),
        ("0.6 0.8\n\n", "0.6 0.9\n\n", ":2: the quaternion"),
        ("1.2 2.0", "nan 2.0", ":5: .*not finite"),
        ("1.2 2.0", "one 2.0", ":5: .*'one'"),
        ("1.1 2.0 3.0", "3.0", ":4: fewer columns"),
    ],
)
def test_a_broken_tum_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_recording(write(tmp_path, "flight.txt", TUM.replace(old, new, 1)))


def test_euroc_as_folder_and_as_packed_file(tmp_path: Path) -> None:
    rows = "#t,p\n1000000000,1,2,3,0.8,0,0,0.6\r\n1010000000,1,2,4,0.8,0,0,0.6\r\n"
    folder = tmp_path / "seq" / "mav0" / "mocap0"
    folder.mkdir(parents=True)
    (folder / "data.csv").write_text(rows)
    packed = tmp_path / "room1.csv.gz"
    packed.write_bytes(gzip.compress(rows.encode()))
    for path, name in ((tmp_path / "seq", "seq"), (packed, "room1")):
        recording = open_recording(path)
        assert (recording.format, recording.subjects) == ("euroc", (name,))
        assert recording.t_ns.tolist() == [S, S + 10_000_000]
        assert recording.bodies.q_xyzw[0, 0].tolist() == [0.0, 0.0, 0.6, 0.8]
    with pytest.raises(ConfigError, match="in metres"):
        open_recording(packed, unit_m=0.001)


# --- Motive ---------------------------------------------------------------------------------------


def motive_csv(
    motion: Dance,
    *,
    rows: int = 20,
    hide: tuple[int, ...] = (),
    parents: bool = True,
    units: str = "Meters",
) -> str:
    """Motive's export of a motion, y up, 100 Hz, with one measured and one unlabeled
    marker.
    """
    model = motion.skeleton_models[0]
    bones = [f"Actor:{bone}" for bone in model.bones]
    names = [*motion.subjects, *bones]
    kinds = ["Rigid Body"] * len(motion.subjects) + ["Bone"] * len(bones)
    above = ["" for _ in motion.subjects] + [bones[p] if p >= 0 else "" for p in model.parents]
    head = [[""], [""], [""], [""], [""], ["Frame"]]
    for row, label in zip(
        head, ["Type", "Name", "ID", "Parent", "", "Time (Seconds)"], strict=True
    ):
        row.append(label)
    for kind, name, parent in zip(kinds, names, above, strict=True):
        for quantity, axes in (("Rotation", "XYZW"), ("Position", "XYZ")):
            for axis in axes:
                cells = (kind, f'"{name}"', f"id-{name}", f'"{parent}"', quantity, axis)
                for row, cell in zip(head, cells, strict=True):
                    row.append(cell)
        for row, cell in zip(
            head, (kind, name, f"id-{name}", parent, "Mean Marker Error", ""), strict=True
        ):
            row.append(cell)
    for name in ("Actor:HEAD", "Unlabeled 7"):
        for axis in "XYZ":
            for row, cell in zip(
                head, ("Marker", name, f"id-{name}", "", "Position", axis), strict=True
            ):
                row.append(cell)
    if not parents:
        del head[3]
    first = "Format Version,1.25,Take Name,t,Export Frame Rate,100,Rotation Type,Quaternion,"
    first += f"Length Units,{units},Coordinate Space,Global"
    lines = [first, "", *(",".join(row) for row in head)]
    scale = 1000.0 if units == "Millimeters" else 1.0
    for number in range(rows):
        seen = motion.at(number * 10_000_000)
        p = np.vstack((seen.p_m, seen.skeletons[0].p_m))
        q = np.vstack((seen.q_xyzw, seen.skeletons[0].q_xyzw))
        values = [str(number), f"{number / 100:.6f}"]
        for p_y, q_y in zip(*zup_to_yup(p, q), strict=True):
            values += (
                [""] * 8
                if number in hide
                else [f"{v:.9f}" for v in (*q_y, *(p_y * scale))] + ["0.0001"]
            )
        values += [f"{v:.6f}" for v in np.array([0.1, 1.7, -0.2]) * scale] + [""] * 3
        lines.append(",".join(values))
    return "\n".join(lines) + "\n"


def assert_same(recording: MotionFile, motion: Dance, rows: range, atol: float = 1e-7) -> None:
    for row in rows:
        truth, shown = motion.at(row * 10_000_000), recording.at(row * 10_000_000)
        assert shown.p_m == pytest.approx(truth.p_m, abs=atol)
        assert np.abs((shown.q_xyzw * truth.q_xyzw).sum(axis=1)) == pytest.approx(
            np.ones(len(truth.p_m)), abs=1e-7
        )
        assert shown.skeletons[0].p_m == pytest.approx(truth.skeletons[0].p_m, abs=atol)
        assert shown.tracked.all() and shown.skeletons[0].tracked.all()


@pytest.mark.parametrize("units", ["Meters", "Millimeters"])
def test_motive_csv(tmp_path: Path, units: str) -> None:
    motion = Dance()
    recording = open_recording(write(tmp_path, "take.csv", motive_csv(motion, units=units)))
    assert (recording.format, recording.subjects) == ("motive-csv", ("drone", "gate"))
    assert_same(recording, motion, range(20))
    (model,) = recording.skeleton_models
    assert (model.name, model.bones, model.parents) == (
        "Actor",
        motion.skeleton_models[0].bones,
        (-1, 0, 1, 0, 3),
    )
    assert model.offsets_m[1:] == pytest.approx(motion.skeleton_models[0].offsets_m[1:], abs=1e-7)
    assert recording.markers is not None
    assert recording.markers.labels == ("Actor/HEAD", "")
    assert recording.markers.p_m[0, 0] == pytest.approx([0.1, 0.2, 1.7]), "y up becomes z up"
    assert recording.markers.tracked[0].tolist() == [True, False]


def test_motive_csv_without_parents_knows_motives_own(tmp_path: Path) -> None:
    recording = open_recording(write(tmp_path, "take.csv", motive_csv(Dance(), parents=False)))
    (model,) = recording.skeleton_models
    above = {
        bone: model.bones[p] if p >= 0 else ""
        for bone, p in zip(model.bones, model.parents, strict=True)
    }
    assert above["Ab"] == "Hip" and above["LThigh"] == "Hip" and above["LShin"] == "LThigh"


def test_empty_cells_are_lost_tracking(tmp_path: Path) -> None:
    motion = Dance()
    recording = open_recording(write(tmp_path, "take.csv", motive_csv(motion, hide=(7, 8))))
    assert_same(recording, motion, range(7))
    lost, before = recording.at(70_000_000), recording.at(60_000_000)
    assert not lost.tracked.any() and not lost.skeletons[0].tracked.any()
    assert lost.p_m.tolist() == before.p_m.tolist(), "the last pose, not the origin"
    assert_same(recording, motion, range(9, 20))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Format Version", "Version", "data.csv|:1"),
        ("Quaternion", "XYZ", ":1: rotations are XYZ. Export them as Quaternion"),
        ("Length Units,Meters", "Length Units,Ells", ":1: Length Units 'Ells'"),
        ("Time (Seconds)", "Time", "no column 'Time"),
        ("\nFrame,", "\nFrames,", "no row begins with Frame"),
        ("0.050000,", "zero,", ":14: .*'zero'"),
        ("0.050000,", "0.010000,", ":14: time 0.010000 does not follow"),
    ],
)
def test_a_broken_motive_csv_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = write(tmp_path, "take.csv", motive_csv(Dance()).replace(old, new, 1))
    with pytest.raises(ConfigError, match=told):
        open_recording(path, "motive-csv")


def test_what_is_no_recording_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such recording"):
        open_recording(tmp_path / "absent.bvh")
    with pytest.raises(ConfigError, match="Set format to one of euroc, tum, bvh"):
        open_recording(write(tmp_path, "take.xyz", ""))
    (tmp_path / "bad.bvh").write_bytes(b"HIERARCHY\xff\xfe")
    with pytest.raises(ConfigError, match="not a text file"):
        open_recording(tmp_path / "bad.bvh")
    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(b"1,2,3" * 1000)[:40])
    with pytest.raises(ConfigError, match="cannot be read"):
        open_recording(tmp_path / "bad.csv.gz")
