"""Where one can fly in the shipped scenes, what stops one, and the gates on the way."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from tests.support.scenes import (
    FREE,
    INDOORS,
    built,
    directions,
    first_hits,
    of_faces,
    owners,
    solid,
)
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scene import CLASSES, Gate


@pytest.mark.parametrize("name", sorted(FREE))
def test_flight_volumes_are_free(name: str) -> None:
    low, high = (np.array(v) for v in FREE[name])
    rng = np.random.default_rng(5)
    for axis in range(3):  # lines through the whole volume
        origin = rng.uniform(low, high, (4000, 3))
        origin[:, axis] = low[axis]
        along = np.tile(np.eye(3)[axis], (len(origin), 1))
        triangle, distance = first_hits(name, origin, along)
        assert owners(name, triangle[distance < high[axis] - low[axis]]) == set()


def test_nothing_stands_where_the_human_walks() -> None:
    angle = np.linspace(0.0, 2 * np.pi, 60, endpoint=False)
    for radius in (0.0, 0.6, 1.2):
        origin = np.stack(
            (4.0 + radius * np.cos(angle), radius * np.sin(angle), np.full(60, 0.05)), axis=-1
        )
        _, distance = first_hits("hall", origin, np.tile((0.0, 0.0, 1.0), (60, 1)))
        assert distance.min() > 2.2


@pytest.mark.parametrize("name", INDOORS)
def test_a_room_has_no_crack(name: str) -> None:
    """Rays to everywhere, and along all the edges where sections meet, hit something that faces
    them.
    """
    mesh = solid(name)
    to_all = directions(60_000)
    rng = np.random.default_rng(1)
    # A millimetre beside them: through a very corner, even rays at one flat grid slip now and then.
    seams = mesh.vertices[rng.integers(0, len(mesh.vertices), 60_000)] + rng.normal(
        0.0, 1e-3, (60_000, 3)
    )
    for eye in ((0.0, 0.0, 1.3), (-1.0, 1.0, 2.0)):
        to_seams = seams - eye
        to_seams /= np.linalg.norm(to_seams, axis=1, keepdims=True)
        for direction in (to_all, to_seams):
            triangle, _ = first_hits(name, np.tile(eye, (len(direction), 1)), direction)
            assert (triangle >= 0).all()


@pytest.mark.parametrize("name", sorted(FREE))
def test_what_one_sees_from_the_flight_volume_faces_one(name: str) -> None:
    low, high = (np.array(v) for v in FREE[name])
    eyes = np.random.default_rng(2).uniform(low, np.minimum(high, 20.0), (40_000, 3))
    direction = directions(len(eyes), 3)
    triangle, _ = first_hits(name, eyes, direction)
    mesh = solid(name)
    solid_side = (triangle >= 0) & ~of_faces(name, "two_sided")[triangle]
    one_sided, way = triangle[solid_side], direction[solid_side]
    facing = np.einsum("ni,ni->n", mesh.face_normals[one_sided], way)
    assert (facing > 1e-6).mean() < 0.0005, owners(name, one_sided[facing > 1e-6])


@pytest.mark.parametrize(
    ("name", "reach"),
    [
        ("hall", (9.9, 6.9)),
        ("lab", (3.9, 2.9)),
        ("yard", (150.0, 150.0)),
        ("course", (29.9, 17.9)),
        ("alphapilot", (47.9, 27.9)),
        ("empty", (99, 99)),
        ("forest", (49.9, 49.9)),
        ("garage", (17.4, 12.9)),
        ("street", (140.0, 140.0)),
    ],
)
def test_there_is_ground_everywhere(name: str, reach: tuple[float, float]) -> None:
    xy = np.random.default_rng(4).uniform(-1.0, 1.0, (30_000, 2)) * reach
    origin = np.column_stack(
        (xy, np.full(len(xy), 40.0 if name in ("yard", "forest", "street") else 1e-3))
    )
    below, _ = first_hits(name, origin, np.tile((0.0, 0.0, -1.0), (len(xy), 1)))
    assert (below >= 0).all()


@pytest.mark.parametrize(
    "name", ["hall", "lab", "course", "yard", "alphapilot", "garage", "street"]
)
def test_what_stands_stands_on_something(name: str) -> None:
    """Crates, furniture, machines and props.

    Below the middle of each is a surface that they touch.
    """
    standing = [CLASSES[c] for c in ("box", "furniture", "prop", "container")]
    mesh = solid(name)
    owner = of_faces(name, "owner")
    for index, thing in enumerate(built(name).objects):
        if thing.semantic in standing:
            lowest = float(mesh.triangles[owner == index][..., 2].min())
            foot = np.array([[*thing.world_from_asset[:2, 3], lowest + 0.01]])
            _, drop = first_hits(name, foot, np.array([[0.0, 0.0, -1.0]]))
            assert drop[0] == pytest.approx(0.01, abs=4e-3) or lowest < 0.0, thing.name


def standing_room(gate: Gate) -> FloatArray:
    """Points all over an opening, 2 cm from its frame, in the world; shape (n, 3)."""
    y, z = (np.linspace(-0.5, 0.5, 21) * (size - 0.04) for size in (gate.width_m, gate.height_m))
    opening = np.stack(np.meshgrid([0.0], y, z), axis=-1).reshape(-1, 3)
    return gate.T_world_gate.apply(opening)


@pytest.mark.parametrize(("name", "count"), [("hall", 6), ("course", 11), ("lab", 2)])
def test_gates_are_open_and_as_wide_as_they_say(name: str, count: int) -> None:
    scene = built(name)
    assert [gate.name for gate in scene.gates] == [f"Gate{k}" for k in range(1, count + 1)]
    things = {o.name: o for o in scene.objects}
    for gate in scene.gates:
        forward = gate.T_world_gate.rotation()[:, 0]
        room = standing_room(gate)
        for sign in (1.0, -1.0):
            _, distance = first_hits(name, room, np.tile(sign * forward, (len(room), 1)))
            assert distance.min() > 0.3, gate.name
        for axis, size in ((1, gate.width_m), (2, gate.height_m)):
            across = gate.T_world_gate.rotation()[:, axis]
            for sign in (1.0, -1.0):
                _, distance = first_hits(name, gate.T_world_gate.p_m[None], sign * across[None])
                assert distance[0] == pytest.approx(0.5 * size, abs=1e-3), gate.name
        assert things[gate.name].semantic == CLASSES["gate"]
        assert np.allclose(things[gate.name].world_from_asset[:3, 3], gate.T_world_gate.p_m)
        assert np.allclose(things[gate.name].world_from_asset[:3, :3], gate.T_world_gate.rotation())


@pytest.mark.parametrize("name", ["hall", "course", "lab"])
def test_beacons_sit_on_the_corners_of_their_gates(name: str) -> None:
    scene = built(name)
    beacons = {b.name: b for b in scene.beacons}
    assert set(beacons) == {f"{gate.name}_{k}" for gate in scene.gates for k in (1, 2, 3, 4)}
    for gate in scene.gates:
        corners = [
            gate.T_world_gate.inverse().apply(beacons[f"{gate.name}_{k}"].p_m) for k in (1, 2, 3, 4)
        ]
        signs = [(math.copysign(1, y), math.copysign(1, z)) for _, y, z in corners]
        assert signs == [(1, 1), (-1, 1), (-1, -1), (1, -1)]
        for x, y, z in corners:
            assert x < 0.0, "seen on the way to the gate"
            assert (
                0.0 < abs(y) - 0.5 * gate.width_m < 0.15
                and 0.0 < abs(z) - 0.5 * gate.height_m < 0.15
            )
        forward = gate.T_world_gate.rotation()[:, 0]
        p_m = np.array([beacons[f"{gate.name}_{k}"].p_m for k in (1, 2, 3, 4)])
        _, ahead = first_hits(name, p_m, np.tile(forward, (4, 1)))
        assert ahead == pytest.approx(0.005, abs=2e-3), "just in front of the light"
        pilot = gate.T_world_gate.apply(np.array([-1.2, 0.0, 0.0]))
        way = pilot - p_m
        length = np.linalg.norm(way, axis=1)
        _, distance = first_hits(name, p_m, way / length[:, None])
        assert (distance > length).all(), gate.name


def test_the_course_can_be_flown_in_its_order() -> None:
    gates = built("course").gates
    for gate, following in pairwise((*gates, gates[0])):
        way = following.T_world_gate.p_m - gate.T_world_gate.p_m
        length = float(np.linalg.norm(way))
        assert 6.0 < length < 16.0
        for one in (gate, following):
            turn = math.degrees(math.acos(float(one.T_world_gate.rotation()[:, 0] @ way) / length))
            assert turn < 60.0, (gate.name, following.name)


def test_the_way_between_gates_of_the_course_is_free() -> None:
    """A smooth path that passes the gates along their axes, with 0.4 m of room around it."""
    gates = built("course").gates
    for gate, following in pairwise((*gates, gates[0])):
        a, b = gate.T_world_gate, following.T_world_gate
        pull = np.linalg.norm(b.p_m - a.p_m)
        t = np.linspace(0.0, 1.0, 60)[:, None]
        path = (
            (2 * t**3 - 3 * t**2 + 1) * a.p_m + (t**3 - 2 * t**2 + t) * pull * a.rotation()[:, 0]
            + (3 * t**2 - 2 * t**3) * b.p_m + (t**3 - t**2) * pull * b.rotation()[:, 0]
        )  # fmt: skip
        for offset in (
            (0, 0, 0),
            (0, 0, 0.4),
            (0, 0, -0.4),
            (0, 0.4, 0),
            (0, -0.4, 0),
            (0.4, 0, 0),
            (-0.4, 0, 0),
        ):
            line = path + np.array(offset)
            step = np.diff(line, axis=0)
            length = np.linalg.norm(step, axis=1)
            _, distance = first_hits("course", line[:-1], step / length[:, None])
            assert (distance > length).all(), (gate.name, following.name, offset)
