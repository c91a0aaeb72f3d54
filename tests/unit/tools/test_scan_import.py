"""Scans of COLMAP and nerfstudio, aligned with the room by points that were measured there."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from tests.support.embedded import rotation
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_from_matrix, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.scan.film import poses_of_film, sharpest
from vil_renderer.scan.marks import find_tags, read_measured, read_picks
from vil_renderer.scan.scan_import import ImportedScan, import_scan, report, write_scene
from vil_renderer.scan.views import ScanCamera, ScanView, read_views

pytestmark = pytest.mark.pure

SCALE = 0.37
"""Metres in one unit of the scan."""
T_WORLD_SCAN = Transform.of((1.5, -0.7, 0.4), tuple(q_from_matrix(rotation(40.0, -65.0)).tolist()))
FOCAL, WIDTH, HEIGHT = 800.0, 1280, 720
POINTS = {
    f"mark{i}": np.array(p)
    for i, p in enumerate(
        [
            (2, 1, 0.2),
            (2.4, -1.2, 1.1),
            (1.2, 0.3, 0),
            (3, 0.4, 1.8),
            (2.2, 2, 1.4),
            (1.8, -0.5, 0.6),
            (2.9, 1.5, 0.1),
        ]
    )
}
NOISE_PX = 0.3
TURN, SHIFT, TRAINED_SCALE = rotation(20.0, 10.0), np.array([0.3, -0.2, 0.1]), 0.25
"""From stored poses to the axes in which nerfstudio trained."""


def cameras() -> list[tuple[FloatArray, FloatArray]]:
    """Rotation and place of cameras in the world that look at the points; optical axes."""
    made = []
    for i in range(12):
        p_m = np.array([-2.0 + 0.2 * i, -2.5 + 0.5 * i, 1.0 + 0.15 * (i % 4)])
        z = np.array([2.2, 0.4, 0.8]) - p_m
        z /= np.linalg.norm(z)
        x = np.cross(z, [0.0, 0.0, 1.0])
        x /= np.linalg.norm(x)
        made.append((np.stack((x, np.cross(z, x), z), axis=1), p_m))
    return made


def to_scan(R: FloatArray, p_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pose of a camera in the axes and the unit of the scan."""
    turn = q_to_matrix(T_WORLD_SCAN.q_xyzw).T
    return turn @ R, turn @ (p_m - T_WORLD_SCAN.p_m) / SCALE


def pixels(R: FloatArray, p_m: FloatArray, point: FloatArray) -> FloatArray:
    """Pixel of a point, the middle of the first pixel is (0, 0).

    The lens has k1 = 0.05 of COLMAP's RADIAL.
    """
    x = R.T @ (point - p_m)
    u = x[:2] / x[2]
    made: FloatArray = FOCAL * (1.0 + 0.05 * float(u @ u)) * u + (WIDTH / 2 - 0.5, HEIGHT / 2 - 0.5)
    return made


def write_picks(folder: Path, wrong: str = "") -> Path:
    rng = np.random.default_rng(5)
    rows = ["name,picture,u_px,v_px"]
    for name, point in POINTS.items():
        for i, (R, p_m) in enumerate(cameras()):
            at = (
                pixels(R, p_m, point)
                + rng.normal(0.0, NOISE_PX, 2)
                + (60.0 if name == wrong and i % 3 == 0 else 0.0)
            )
            rows.append(f"{name},{i:03d}.jpg,{at[0]:.3f},{at[1]:.3f}")
    path = folder / "picks.csv"
    path.write_text("\n".join(rows))
    return path


def write_measured(
    folder: Path, moved: str = "", check: tuple[str, ...] = ("mark5", "mark6")
) -> Path:
    rows = ["# by a wand", "name,x_m,y_m,z_m,check"]
    for name, p in POINTS.items():
        x, y, z = p + (0.4 if name == moved else 0.0)
        rows.append(f"{name},{x},{y},{z},{int(name in check)}")
    path = folder / "measured.csv"
    path.write_text("\n".join(rows))
    return path


Stored = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def write_colmap_text(folder: Path, stored: Stored = lambda R, p: (R, p)) -> None:
    model = folder / "sparse" / "0"
    model.mkdir(parents=True)
    params = f"{FOCAL} {WIDTH / 2} {HEIGHT / 2} 0.05 0"
    (model / "cameras.txt").write_text(f"# cameras\n1 RADIAL {WIDTH} {HEIGHT} {params}\n")
    lines = ["# images"]
    for i, (R, p_m) in enumerate(cameras()):
        R_scan, p_scan = stored(*to_scan(R, p_m))
        x, y, z, w = q_from_matrix(R_scan.T)
        t = " ".join(str(v) for v in -R_scan.T @ p_scan)
        lines += [f"{i + 1} {w} {x} {y} {z} {t} 1 {i:03d}.jpg", "" if i % 2 else "1.0 2.0 -1"]
    (model / "images.txt").write_text("\n".join(lines) + "\n")


def write_colmap_binary(folder: Path) -> None:
    model = folder / "sparse"
    model.mkdir(parents=True)
    params = (FOCAL, WIDTH / 2, HEIGHT / 2, 0.05, 0.0)
    (model / "cameras.bin").write_bytes(struct.pack("<QiiQQ5d", 1, 7, 3, WIDTH, HEIGHT, *params))
    data = struct.pack("<Q", len(cameras()))
    for i, (R, p_m) in enumerate(cameras()):
        R_scan, p_scan = to_scan(R, p_m)
        x, y, z, w = q_from_matrix(R_scan.T)
        data += (
            struct.pack("<I7dI", i + 1, w, x, y, z, *(-R_scan.T @ p_scan), 7)
            + f"{i:03d}.jpg".encode()
            + b"\0"
        )
        data += struct.pack("<Q", 2) + struct.pack("<ddq", 3.0, 4.0, -1) * 2
    (model / "images.bin").write_bytes(data)


def write_nerfstudio(folder: Path) -> None:
    """Its splats are trained in turned, shifted and scaled axes.

    Poses are stored in those of before.
    """
    frames = []
    for i, (R, p_m) in enumerate(cameras()):
        R_stored, p_stored = before_training(*to_scan(R, p_m))
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = R_stored @ np.diag([1.0, -1.0, -1.0]), p_stored
        frames.append({"file_path": f"{i:03d}.jpg", "transform_matrix": pose.tolist()})
    intrinsics = {"fl_x": FOCAL, "fl_y": FOCAL, "cx": WIDTH / 2, "cy": HEIGHT / 2, "k1": 0.05}
    folder.mkdir(exist_ok=True)
    (folder / "transforms.json").write_text(json.dumps(intrinsics | {"frames": frames}))
    write_dataparser(folder)


def write_dataparser(folder: Path) -> None:
    transform = np.column_stack((TURN, SHIFT)).tolist()
    (folder / "dataparser_transforms.json").write_text(
        json.dumps({"transform": transform, "scale": TRAINED_SCALE})
    )


def before_training(R_scan: FloatArray, p_scan: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pose as it is stored, where nerfstudio trained in axes of its own."""
    return TURN.T @ R_scan, TURN.T @ (p_scan / TRAINED_SCALE - SHIFT)


def write_trained_on_colmap(folder: Path) -> None:
    write_colmap_text(folder, before_training)
    write_dataparser(folder)


def write_processed(folder: Path, *, stated: bool = True) -> None:
    """As ns-process-data: it turned COLMAP's poses, and the file of the training begins before
    that.
    """
    write_nerfstudio(folder)
    stored = json.loads((folder / "transforms.json").read_text())
    trained = json.loads((folder / "dataparser_transforms.json").read_text())
    if stated:
        applied = np.array([[1.0, 0.0, 0.0, 0.2], [0.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, -0.4]])
        stored |= {"applied_transform": applied.tolist(), "applied_scale": 2.0}
        trained["scale"] *= 2.0
    else:
        applied = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.0]])
        (folder / "colmap" / "sparse" / "0").mkdir(parents=True)
    trained["transform"] = (
        np.array(trained["transform"]) @ np.vstack((applied, [0.0, 0.0, 0.0, 1.0]))
    ).tolist()
    (folder / "transforms.json").write_text(json.dumps(stored))
    (folder / "dataparser_transforms.json").write_text(json.dumps(trained))


WRITERS: dict[str, Callable[[Path], None]] = {
    "text": write_colmap_text,
    "binary": write_colmap_binary,
    "nerfstudio": write_nerfstudio,
    "trained on colmap": write_trained_on_colmap,
    "processed": write_processed,
    "processed long ago": partial(write_processed, stated=False),
}


def imported(folder: Path, measured: Path, picks: Path) -> ImportedScan:
    return import_scan(folder, measured, picks=picks, progress=lambda _share: None)


@pytest.mark.parametrize("form", WRITERS)
def test_a_scan_is_put_into_the_room(tmp_path: Path, form: str) -> None:
    WRITERS[form](tmp_path / "scan")
    scan = imported(tmp_path / "scan", write_measured(tmp_path), write_picks(tmp_path))
    turn = scan.placement.T_world_scan.inverse() @ T_WORLD_SCAN
    assert 2.0 * math.degrees(np.linalg.norm(turn.q_xyzw[:3])) < 0.1
    assert scan.placement.scale == pytest.approx(SCALE, rel=2e-3)
    assert scan.check_m.keys() == {"mark5", "mark6"}
    assert max(scan.check_m.values()) < 0.005
    figures = scan.figures()
    assert figures["reprojection_px_rms"] == pytest.approx(NOISE_PX * math.sqrt(2.0), rel=0.2)
    assert figures["used"] == ["mark0", "mark1", "mark2", "mark3", "mark4"]
    # The stated deviation is that of the truth, within the few points that there are.
    assert abs(scan.placement.scale / SCALE - 1.0) < 4.0 * scan.placement.scale_share


def test_a_wrong_measurement_and_wrong_pixels_are_left_out_and_named(tmp_path: Path) -> None:
    write_colmap_text(tmp_path)
    measured, picks = (
        write_measured(tmp_path, moved="mark2", check=("mark6",)),
        write_picks(tmp_path, wrong="mark3"),
    )
    scan = imported(tmp_path, measured, picks)
    assert "mark2" not in scan.figures()["used"] and scan.check_m["mark6"] < 0.01
    assert scan.figures()["contradict_m"]["mark2"] == pytest.approx(0.4 * math.sqrt(3.0), rel=0.1)
    point = dict(zip([one.name for one in scan.points], scan.found, strict=True))["mark3"]
    assert (point.views, point.seen) == (8, 12)
    assert any("mark2 contradicts the others" in line for line in report(scan))


def test_the_scene_has_the_pose_and_says_its_error(tmp_path: Path) -> None:
    write_colmap_text(tmp_path)
    for number in (7000, 30000):
        (tmp_path / "point_cloud" / f"iteration_{number}").mkdir(parents=True)
        (tmp_path / "point_cloud" / f"iteration_{number}" / "point_cloud.ply").touch()
    scan = imported(tmp_path, write_measured(tmp_path), write_picks(tmp_path))
    write_scene(scan, tmp_path / "hall.yaml")
    text = (tmp_path / "hall.yaml").read_text()
    splats = yaml.safe_load(text)["splats"]
    assert splats["file"] == "point_cloud/iteration_30000/point_cloud.ply" and splats["up"] == "z"
    placed = Transform.of(tuple(splats["p_m"]), tuple(splats["q_xyzw"]))
    R, p_m = cameras()[0]
    assert placed.apply(splats["scale"] * to_scan(R, p_m)[1][None])[0] == pytest.approx(
        p_m, abs=0.02
    )
    assert text.startswith("# aligned by 5 points: rms ")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            "name,x_m,y_m,z_m\nmark0,2,1,0.2\nmark1,2.4,-1.2,1.1\n",
            "needs 3 points .* there are 2: mark0, mark1",
        ),
        (
            "# by a wand\n\nname,x_m,y_m,z_m\n\nmark0,2,1\n",
            "measured.csv:5: write a name and three numbers",
        ),
        ("name,x_m,y_m,z_m\nmark0,2,1\n", "measured.csv:2: write a name and three numbers"),
        (
            'name,x_m,y_m,z_m\n"mark0\nscene: [",2,1,0\n',
            "measured.csv:2: write a name and three numbers",
        ),
        ("name,x_m,y_m,z_m\nmark0,2,1,0\nmark0,2,1,0\n", "measured.csv:3: mark0 is measured twice"),
        ("point,x,y,z\n", "the first line must name the columns name,x_m,y_m,z_m"),
        ("name,x_m,y_m,z_m\nmark0,1,0,0\nmark1,2,0,0\nmark3,3,0,0\n", "not in one line"),
    ],
)
def test_what_cannot_be_aligned_is_refused_in_words(tmp_path: Path, rows: str, words: str) -> None:
    write_colmap_text(tmp_path)
    (tmp_path / "measured.csv").write_text(rows)
    with pytest.raises(ConfigError, match=words):
        imported(tmp_path, tmp_path / "measured.csv", write_picks(tmp_path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "malformed"),
        (struct.pack("<Q", 1 << 40), "entries, at most"),
        (
            struct.pack("<Q", 1)
            + struct.pack("<I7dI", 1, *[0.0] * 7, 7)
            + b"a\0"
            + struct.pack("<Q", 0),
            "not finite",
        ),
        (
            struct.pack("<Q", 1)
            + struct.pack("<I7dI", 1, 1.0, *[0.0] * 6, 7)
            + b"a\0"
            + struct.pack("<Q", 99),
            "cut off",
        ),
    ],
)
def test_malformed_models_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    write_colmap_binary(tmp_path)
    (tmp_path / "sparse" / "images.bin").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        imported(tmp_path, write_measured(tmp_path), write_picks(tmp_path))


def test_a_folder_without_a_scan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither transforms"):
        imported(tmp_path, write_measured(tmp_path), write_picks(tmp_path))


@pytest.mark.parametrize(
    ("matrix", "words"),
    [(np.diag([2.0, 2.0, 2.0, 1.0]), "scaled"), (np.diag([1.0, 1.0, -1.0, 1.0]), "mirrored")],
)
def test_poses_with_a_scale_or_a_mirror_are_refused(
    tmp_path: Path, matrix: FloatArray, words: str
) -> None:
    frame = {"file_path": "a.png", "transform_matrix": matrix.tolist()}
    numbers = dict.fromkeys(("fl_x", "fl_y", "cx", "cy"), 500.0)
    (tmp_path / "transforms.json").write_text(json.dumps({**numbers, "frames": [frame, frame]}))
    with pytest.raises(ConfigError, match=words):
        read_views(tmp_path)


@pytest.mark.parametrize(
    "transform",
    [3, [1, 2, 3, 4], [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0]], [[1, 0, 0, math.nan]] * 3],
)
def test_a_broken_frame_of_the_training_is_refused(tmp_path: Path, transform: object) -> None:
    (tmp_path / "transforms.json").write_text('{"frames": []}')
    (tmp_path / "dataparser_transforms.json").write_text(
        json.dumps({"transform": transform, "scale": 1.0})
    )
    with pytest.raises(
        ConfigError, match=r"dataparser_transforms.json.* Copy the file of the training again"
    ):
        read_views(tmp_path)


@pytest.mark.parametrize(
    "applied",
    [
        {"applied_transform": np.zeros((3, 4)).tolist()},
        {"applied_transform": [1.0]},
        {"applied_scale": 0},
    ],
)
def test_a_broken_turn_of_the_poses_is_refused(tmp_path: Path, applied: dict[str, object]) -> None:
    (tmp_path / "transforms.json").write_text(json.dumps({"frames": [], **applied}))
    transform = np.eye(3, 4).tolist()
    (tmp_path / "dataparser_transforms.json").write_text(
        json.dumps({"transform": transform, "scale": 1.0})
    )
    with pytest.raises(ConfigError, match=r"applied_transform|must be numbers"):
        read_views(tmp_path)


def test_tags_are_where_the_stored_pixels_have_them(tmp_path: Path) -> None:
    """A phone that is held upright stores its pictures lying, with a turn in the EXIF data that
    COLMAP ignores.
    """
    picture = np.full((300, 500), 255, np.uint8)
    tags = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_36H11)
    picture[40:120, 60:140] = cv2.aruco.generateImageMarker(tags, 7, 80)
    jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
    turned = b"Exif\0\0" + struct.pack("<2sHIHHHIII", b"II", 42, 8, 1, 0x0112, 3, 1, 6, 0)
    path = tmp_path / "upright.jpg"
    path.write_bytes(jpeg[:2] + struct.pack(">HH", 0xFFE1, len(turned) + 2) + turned + jpeg[2:])
    turned_upright = cv2.imread(str(path))
    assert turned_upright is not None and turned_upright.shape[:2] == (500, 300)
    camera = ScanCamera(np.eye(3), np.zeros(5))
    found = find_tags(
        [ScanView("upright.jpg", path, camera, np.eye(3), np.zeros(3))],
        ["tag7"],
        lambda _share: None,
    )
    assert found["tag7"][0].pixel == pytest.approx([99.5, 79.5], abs=0.7)


def test_picks_name_one_picture(tmp_path: Path) -> None:
    """Cameras of a rig write files of the same names into folders of their own."""
    camera = ScanCamera(np.eye(3), np.zeros(5))
    names = ("0.jpg", "left/0.jpg", "left/1.jpg", "right/2.jpg", "left/2.jpg")
    views = [ScanView(name, tmp_path / name, camera, np.eye(3), np.zeros(3)) for name in names]
    path = tmp_path / "picks.csv"
    rows = [
        "name,picture,u_px,v_px",
        *(f"mark,{picture},1,2" for picture in ("0.jpg", "left/0.jpg", "1.jpg")),
    ]
    path.write_text("\n".join(rows), encoding="utf-8-sig")
    assert [one.view for one in read_picks(path, views)["mark"]] == [0, 1, 2]
    path.write_text("\n".join([rows[0], "mark,2.jpg,1,2"]))
    with pytest.raises(ConfigError, match=r"picks.csv:2: the scan has several pictures '2.jpg'"):
        read_picks(path, views)


def test_a_film_replaces_nothing_that_it_cannot_replace(tmp_path: Path) -> None:
    """Splats belong to the poses they were trained with; a wrong name of a film costs no poses."""
    (tmp_path / "images").mkdir()
    picture = tmp_path / "images" / "00000.jpg"
    picture.touch()
    with pytest.raises(ConfigError, match="cannot be read as a film"):
        poses_of_film(tmp_path / "none.mp4", tmp_path, lambda _step, _share: None)
    (tmp_path / "splat.ply").touch()
    with pytest.raises(
        ConfigError,
        match=r"splat.ply was made with the poses of an earlier run.* in place of the film",
    ):
        poses_of_film(tmp_path / "none.mp4", tmp_path, lambda _step, _share: None)
    assert picture.is_file()


def test_the_pictures_of_a_film_reach_its_end(tmp_path: Path) -> None:
    path = tmp_path / "walk.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 1.0, (32, 32))
    for n in range(420):
        writer.write(np.full((32, 32, 3), n % 250, np.uint8))
    writer.release()
    shares = [share for _, share in sharpest(path)]
    assert len(shares) == 210 and shares[-1] == 1.0


@pytest.mark.parametrize(
    ("word", "judges"), [("1", True), ("TRUE", True), ("Yes", True), ("0", False), ("", False)]
)
def test_points_that_judge_are_marked_as_spreadsheets_write_it(
    tmp_path: Path, word: str, judges: bool
) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(f"name,x_m,y_m,z_m,check\ntag1,1,2,3,{word}\n")
    assert [point.check for point in read_measured(path)] == [judges]
