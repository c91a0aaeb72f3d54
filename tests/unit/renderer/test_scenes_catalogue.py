"""Every shipped scene keeps the rules of the data model."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.scenes import built, primitives, timed
from vil_renderer.embedded.scene import CLASSES, Scene
from vil_renderer.embedded.scenes import SCENES
from vil_renderer.embedded.scenes.surfaces import SURFACES, material

TRIANGLES = {
    "alphapilot": 50_000,
    "blocks": 10_000,
    "empty": 5_000,
    "lab": 20_000,
    "hall": 50_000,
    "course": 50_000,
    "forest": 150_000,
    "garage": 50_000,
    "street": 70_000,
    "yard": 50_000,
}
OBJECTS = {
    "alphapilot": 500,
    "blocks": 350,
    "empty": 100,
    "lab": 150,
    "hall": 250,
    "course": 350,
    "forest": 350,
    "garage": 350,
    "street": 350,
    "yard": 350,
}

everywhere = pytest.mark.parametrize("name", sorted(SCENES))


def test_these_scenes_are_shipped() -> None:
    names = {
        "alphapilot",
        "blocks",
        "course",
        "empty",
        "forest",
        "garage",
        "hall",
        "lab",
        "street",
        "yard",
    }
    assert set(SCENES) == set(TRIANGLES) == names
    assert all(built(name).name == name for name in SCENES)


@everywhere
def test_a_scene_is_built_in_less_than_three_seconds_of_cpu_time(name: str) -> None:
    assert timed(name)[1] < 3.0


def picture_of(scene: Scene) -> list[bytes]:
    """All that two builds of one scene must have in common."""
    return [
        array.tobytes()
        for _, matrix, part in primitives(scene)
        for array in (matrix, part.p_m, part.normal, part.uv, part.triangles, part.colour)
        if array is not None
    ] + [beacon.p_m.tobytes() for beacon in scene.beacons]


@everywhere
def test_two_builds_are_equal(name: str) -> None:
    first, second = built(name), SCENES[name]()
    assert [(o.name, o.semantic, o.instance) for o in first.objects] == [
        (o.name, o.semantic, o.instance) for o in second.objects
    ]
    assert picture_of(first) == picture_of(second)


def test_textures_are_painted_the_same_at_every_start() -> None:
    for name in ("wall_brick", "twigs", "numbers"):
        first = material(name).base
        material.cache_clear()
        second = material(name).base
        assert first is not None and second is not None and first.texture is not second.texture
        assert np.array_equal(first.texture.pixels, second.texture.pixels)


@pytest.mark.parametrize("name", sorted(SURFACES))
def test_a_surface_is_a_bright_enough_picture_of_at_most_1024_pixels(name: str) -> None:
    surface, made = SURFACES[name], material(name)
    assert (
        0.0 <= made.roughness <= 1.0
        and made.double_sided == (made.alpha == "mask") == surface.cut_out
    )
    if made.base is None:
        return
    pixels = made.base.texture.pixels
    assert pixels.dtype == np.uint8 and pixels.shape[0] == pixels.shape[1] <= 1024
    assert pixels.shape[2] == (4 if surface.cut_out else 3)
    assert pixels[..., :3].std() > 8.0, "nothing to see on it"
    if surface.cut_out:
        assert 0.1 < (pixels[..., 3] >= 128).mean() < 0.9


@everywhere
def test_names_are_unique_instances_without_gaps_and_classes_known(name: str) -> None:
    scene = built(name)
    assert len({o.name for o in scene.objects}) == len(scene.objects) <= OBJECTS[name]
    ids = {o.instance for o in scene.objects}
    assert ids == set(range(1, len(ids) + 1))
    assert {o.semantic for o in scene.objects} <= set(CLASSES.values())
    assert len({b.name for b in scene.beacons}) == len(scene.beacons)
    assert len({lamp.name for lamp in scene.lamps}) == len(scene.lamps) <= 8
    assert {lamp.name for lamp in scene.lamps} <= {o.name for o in scene.objects}


@everywhere
def test_triangles_are_finite_within_budget_and_wound_like_their_normals(name: str) -> None:
    parts = primitives(built(name))
    assert sum(len(part.triangles) for _, _, part in parts) <= TRIANGLES[name]
    for _, matrix, part in parts:
        assert (
            np.isfinite(part.p_m).all() and np.isfinite(part.uv).all() and np.isfinite(matrix).all()
        )
        assert part.triangles.max() < len(part.p_m) == len(part.normal) == len(part.uv)
        assert np.allclose(np.linalg.norm(part.normal, axis=1), 1.0, atol=1e-5)
        a, b, c = (part.p_m[part.triangles[:, k]].astype(np.float64) for k in range(3))
        face = np.cross(b - a, c - a)
        area = np.linalg.norm(face, axis=1)
        assert area.min() > 1e-7, part.material.name
        along = np.einsum(
            "mi,mki->mk", face / area[:, None], part.normal[part.triangles].astype(np.float64)
        )
        assert along.min() > 0.0, part.material.name


@everywhere
def test_every_object_is_placed_without_scaling(name: str) -> None:
    for thing in built(name).objects:
        rotation = thing.world_from_asset[:3, :3]
        assert np.allclose(rotation @ rotation.T, np.eye(3)) and np.linalg.det(rotation) > 0.0


@everywhere
def test_textures_are_dense_enough_for_a_camera_that_flies_by(name: str) -> None:
    """Median over the area of floors and walls: pixels of the texture per metre."""
    classes = ("terrain",) if name == "forest" else ("floor", "wall", "road")
    grounds = [CLASSES[c] for c in classes]
    densities, areas = [], []
    for index, _, part in primitives(built(name)):
        if built(name).objects[index].semantic not in grounds:
            continue
        a, b, c = (part.p_m[part.triangles[:, k]].astype(np.float64) for k in range(3))
        u, v, w = (part.uv[part.triangles[:, k]].astype(np.float64) for k in range(3))
        area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
        on_texture = 0.5 * np.abs((v - u)[:, 0] * (w - u)[:, 1] - (v - u)[:, 1] * (w - u)[:, 0])
        assert part.material.base is not None
        size = part.material.base.texture.pixels.shape[0]
        densities.append(size * np.sqrt(on_texture / area))
        areas.append(area)
    density, area = np.concatenate(densities), np.concatenate(areas)
    order = np.argsort(density)
    median = density[order][np.searchsorted(np.cumsum(area[order]), 0.5 * area.sum())]
    assert median > 180.0


@pytest.mark.parametrize(
    ("name", "kind", "surfaces"),
    [
        *(("hall", kind, n) for kind, n in (("Floor", 1), ("Ceiling", 1), ("Wall", 4))),
        *(("lab", kind, n) for kind, n in (("Floor", 1), ("Ceiling", 1), ("Wall", 4))),
        *(("course", kind, n) for kind, n in (("Floor", 1), ("Ceiling", 1), ("Wall", 4))),
        *(
            ("yard", kind, n)
            for kind, n in (("Asphalt", 1), ("Ground", 1), ("Country", 1), ("Facade", 4))
        ),
        *(("yard", kind, n) for kind, n in (("Fence", 3), ("Wall", 1))),
        *(("garage", kind, n) for kind, n in (("Floor", 1), ("Ceiling", 1), ("Wall", 4))),
        *(("street", kind, n) for kind, n in (("Road", 1), ("Pavement", 1), ("Country", 1))),
        ("forest", "Ground", 1),
        ("empty", "Floor", 1),
    ],
)
def test_one_surface_has_one_instance_id(name: str, kind: str, surfaces: int) -> None:
    """The hall's floor had 20."""
    sections = [o for o in built(name).objects if o.name.rstrip("0123456789") == kind]
    assert len({o.instance for o in sections}) == surfaces
    others = {o.instance for o in built(name).objects if o not in sections}
    assert not others & {o.instance for o in sections}
