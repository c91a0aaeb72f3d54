"""Requests of old Flightmare clients other than frames.

Point clouds, collision checks, lists of objects.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.flightmare import (
    draw,
    server,
)
from tests.support.flightmare_exchange import ROOMY, exchange
from tests.support.flightmare_original import OldClient
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import FloatArray, View, WorldSnapshot
from vil_renderer.embedded.geometry.point_cloud import Cloud, write_ply
from vil_renderer.flightmare.files import PointCloudBox
from vil_renderer.flightmare.server import RenderedRequest, Senses

pytestmark = pytest.mark.wire


def ask_for_points(old: OldClient, path: str, name: str = "cloud") -> None:
    box = {"range": [2.0, 1.0, 1.0], "origin": [0.5, 0.0, 0.0], "resolution": 0.5}
    old.send("PointCloud", box | {"path": path, "file_name": name})


def corners(box: PointCloudBox, path: Path) -> None:
    """Write the eight outer cells of the box."""
    half = 0.5 * (box.range_m - box.resolution_m)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    p_m = (box.origin_m + signs * half).astype(np.float32)
    write_ply(path, Cloud(p_m, p_m, np.zeros(8, np.uint16), np.zeros(8, np.uint16)))


def test_a_point_cloud_appears_whole(tmp_path: Path) -> None:
    with (
        OldClient("master", hwm=ROOMY) as old,
        server(old.taken, senses=Senses(point_cloud=corners), folder=tmp_path),
    ):
        old.connect()
        exchange(old, range(1, 3))
        ask_for_points(old, "made/here/")
        path = tmp_path / "made" / "here" / "cloud.ply"
        wait_until(path.exists)
        data = path.read_bytes()
        exchange(old, range(3, 5))
    header = b"ply\nformat binary_little_endian 1.0\nelement vertex 8\n"
    header += b"property float x\nproperty float y\nproperty float z\nend_header\n"
    assert data.startswith(header) and len(data) == len(header) + 8 * 12
    import trimesh  # takes half a second, in each process that collects the tests

    points = np.asarray(trimesh.load(path).vertices)  # type: ignore[attr-defined]
    assert points.min(axis=0) == pytest.approx([-0.25, -0.25, -0.25])
    assert points.max(axis=0) == pytest.approx([1.25, 0.25, 0.25])
    assert sorted(p.name for p in path.parent.iterdir()) == ["cloud.ply"]


@pytest.mark.parametrize(
    ("path", "name"),
    [("../", "cloud"), ("/", "cloud"), ("a/", "../../cloud"), ("link/", "c"), ("", "nul\0")],
)
def test_no_file_is_written_outside_the_folder(tmp_path: Path, path: str, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with (
        OldClient("master", hwm=ROOMY) as old,
        server(old.taken, senses=Senses(point_cloud=corners), folder=folder) as counters,
    ):
        old.connect()
        exchange(old, range(1, 2))
        ask_for_points(old, path, name)
        wait_until(lambda: counters["malformed"] == 1)
        exchange(old, range(2, 4))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder"] and not list(
        tmp_path.rglob("*.ply")
    )


def test_any_folder_may_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    options: dict[str, Any] = {"folder": tmp_path / "folder", "any_folder": True}
    with (
        OldClient("master", hwm=ROOMY) as old,
        server(old.taken, senses=Senses(point_cloud=corners), **options),
    ):
        old.connect()
        ask_for_points(old, f"{tmp_path}/elsewhere/")
        wait_until((tmp_path / "elsewhere" / "cloud.ply").exists)


def test_point_clouds_that_cannot_be_had_are_counted(tmp_path: Path) -> None:
    def failing(_box: PointCloudBox, _path: Path) -> None:
        raise RendererError("no walls")

    with OldClient("master", hwm=ROOMY) as old, server(old.taken) as counters:
        old.connect()
        ask_for_points(old, "")
        wait_until(lambda: counters["failed"] == 1)
    with (
        OldClient("master", hwm=ROOMY) as old,
        server(old.taken, senses=Senses(point_cloud=failing), folder=tmp_path) as counters,
    ):
        old.connect()
        ask_for_points(old, "")
        wait_until(lambda: counters["point_clouds_failed"] == 1)
        old.send("PointCloud", {"range": [1e5, 1e5, 1e5], "resolution": 0.1})
        old.send("PointCloud", {"range": [0.0, 1.0, 1.0]})
        wait_until(lambda: counters["malformed"] == 2)
        exchange(old, range(1, 5))


def test_avoidbench_waits_for_its_point_cloud_as_it_does(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(box: PointCloudBox, path: Path) -> None:
        begun.set()
        go_on.wait(60.0)
        corners(box, path)

    number = itertools.count(1)

    def frame() -> dict[str, bool]:
        old.frame(next(number))
        return old.point_cloud_state

    with (
        OldClient("avoidbench", hwm=ROOMY) as old,
        server(old.taken, senses=Senses(point_cloud=slow), folder=tmp_path) as counters,
    ):
        old.connect()
        assert frame() == {"get_pc_msg": False, "save_pc_success": False}
        for _ in range(2):
            begun.clear()
            go_on.clear()
            while True:  # it repeats the request until a frame says that it came
                ask_for_points(old, "")
                if frame()["get_pc_msg"]:
                    break
            assert begun.wait(60.0) and frame() == {"get_pc_msg": True, "save_pc_success": False}
            go_on.set()
            while not frame()["save_pc_success"]:
                pass
            assert (tmp_path / "cloud.ply").exists()
            assert frame() == {"get_pc_msg": False, "save_pc_success": True}
        assert counters["malformed"] == 0


def test_avoidbench_asks_for_collisions() -> None:
    asked: list[tuple[list[float], float]] = []

    def occupied(point_m: FloatArray, radius_m: float) -> bool:
        asked.append((point_m.tolist(), radius_m))
        return bool(point_m[0] > 1.0)

    with (
        OldClient("avoidbench", hwm=ROOMY) as old,
        server(old.taken, senses=Senses(occupied=occupied)),
    ):
        old.connect()
        for x in (0.5, 2.5):
            old.send(
                "CollisionCheck",
                {"checked_point": [x, 1.0, 2.0], "drone_width": 0.8, "if_start_point": False},
            )
            wait_until(lambda x=x: bool(asked) and asked[-1][0][0] == x)  # type: ignore[misc]
            old.frame(int(10 * x))
            assert old.collision_state == {
                "get_msg": True,
                "if_collision": x > 1.0,
                "new_point": [x, 1.0, 2.0],
            }
    assert asked[-1] == ([2.5, 1.0, 2.0], 0.4)


def test_objects_of_a_list_are_drawn(tmp_path: Path) -> None:
    rows = (
        "prefab,x,y,z,qw,qx,qy,qz,sx,sy,sz\nrpg_box01,1,2,3,1,0,0,0,2,3,4\n"
        "rpg_box02,4,5,6,1,0,0,0,1,1,1\n"
    )
    (tmp_path / "static.csv").write_text(rows)
    seen: list[WorldSnapshot] = []

    def spying(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        seen.append(snapshot)
        return draw(views, snapshot)

    with OldClient("2022") as old, server(old.taken, spying, folder=tmp_path) as counters:
        make, name = old.settings, {"object_csv": "static.csv"}
        old.settings = lambda: make() | name  # type: ignore[method-assign]
        old.connect()
        exchange(old, range(1, 3))
        listed = [actor for actor in seen[-1].actors if actor.name.startswith("csv/")]
        assert [(a.prefab, a.T_world_body.p_m.tolist(), a.size_m) for a in listed] == [
            ("rpg_box01", [1.0, 2.0, 3.0], (2.0, 4.0, 3.0)),
            ("rpg_box02", [4.0, 5.0, 6.0], (1.0, 1.0, 1.0)),
        ]
        assert counters["malformed"] == 0
        for number, wrong in enumerate(("absent.csv", "../static.csv", "broken.csv"), 1):
            (tmp_path / "broken.csv").write_text("header\nrpg_box01,1,2,north,1,0,0,0,2,3,4\n")
            name["object_csv"] = wrong
            old.connect()
            assert counters["malformed"] == number, "it is said, and the rest is drawn"
            exchange(old, range(10 * number, 10 * number + 3))
