"""Baked light against closed forms and against a path tracer that shares no code with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.geometry_scenes import (
    box,
    box_primitive,
    floor_asset,
    primitive,
    scene_of,
    sphere_primitive,
    thing,
)
from tests.support.path_tracer import Surfaces, traced
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Material, Primitive
from vil_renderer.embedded.engine.vertices import static_mesh
from vil_renderer.embedded.lighting.baked import store, transport
from vil_renderer.embedded.lighting.baked.bake import bake
from vil_renderer.embedded.lighting.baked.baked_light import BakedLight
from vil_renderer.embedded.lighting.baked.charts import lay_out, packed
from vil_renderer.embedded.lighting.baked.receivers import Receivers
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides
from vil_renderer.embedded.scene import Environment, Lamp, Scene, SceneObject, Sun

DARK = Environment(np.zeros(3), np.zeros(3))
RED, GREEN, WHITE = (0.6, 0.05, 0.05), (0.1, 0.5, 0.1), (0.7, 0.7, 0.7)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(tmp_path))
    return tmp_path / "baked_light"


def painted(part: Primitive, colour: tuple[float, float, float]) -> Primitive:
    return replace(part, material=Material(base_colour=(*colour, 1.0)))


def inside_out(
    half_m: tuple[float, float, float], colours: list[tuple[float, float, float]]
) -> Asset:
    """A room seen from within, its sides -x, x, -y, y, -z, z in their colours."""
    whole = box_primitive(half_m)
    parts = []
    for side, colour in zip((1, 0, 3, 2, 5, 4), colours, strict=True):
        rows = slice(4 * side, 4 * side + 4)
        part = primitive(whole.p_m[rows], [(0, 2, 1), (0, 3, 2)], -whole.normal[rows])
        parts.append(painted(part, colour))
    return Asset.of("room", parts)


def baked(scene: Scene, receivers: int = 6000, rays: int = 256) -> BakedLight:
    return bake(
        scene, static_mesh(scene), lambda _step, _share: None, receivers=receivers, rays=rays
    )


def near(places: Receivers, p_m: FloatArray, normal: FloatArray, radius_m: float) -> np.ndarray:
    """Return the receivers around a point of a surface."""
    close = np.linalg.norm(places.p_m - p_m, axis=1) < radius_m
    return np.flatnonzero(close & (places.normal @ normal > 0.9))


def at_point(
    places: Receivers, light: np.ndarray, p_m: FloatArray, normal: FloatArray
) -> FloatArray:
    """Return the light at a point of a surface, from the plane that fits the receivers around
    it.
    """
    around = near(places, p_m, normal, 0.08)
    terms = np.column_stack((np.ones(len(around)), places.p_m[around] - p_m))
    fitted: FloatArray = np.linalg.lstsq(terms, light[around], rcond=None)[0][0]
    return fitted


def test_rectangles_do_not_overlap_and_waste_little() -> None:
    sizes = np.random.default_rng(3).integers(2, 40, (300, 2))
    corner, (width, height) = packed(sizes)
    used = np.zeros((height, width), np.int32)
    for (x, y), (wide, high) in zip(corner.tolist(), sizes.tolist(), strict=True):
        used[y : y + high, x : x + wide] += 1
    assert used.max() == 1
    assert used.mean() > 0.75


def test_each_side_of_a_box_is_a_chart_and_small_ones_have_none() -> None:
    scene = scene_of(
        box("large", (1.0, 0.5, 0.25), (0, 0, 1)), box("small", (0.01, 0.01, 0.01), (3, 0, 1))
    )
    mesh = static_mesh(scene)
    layout = lay_out(mesh.vertices["p"].astype(float), mesh.triangles.astype(np.intp), 0.05)
    assert sorted(np.unique(layout.chart).tolist()) == [-1, 0, 1, 2, 3, 4, 5]
    for chart in range(6):
        place = layout.place[np.unique(layout.triangles[layout.chart == chart])]
        sides_m = np.sort(np.ptp(place, axis=0)) * 0.05
        assert any(np.allclose(sides_m, want) for want in ((1.0, 2.0), (0.5, 2.0), (0.5, 1.0)))


def test_strips_narrower_than_a_texel_and_ends_that_stick_in_things_have_light() -> None:
    """A bar as thin as a pipe has texels.

    The vertices of a rod are looked at outside of the blocks that hold it.
    """
    from vil_renderer.embedded.lighting.baked.receivers import receivers_of

    bar, rod = box("bar", (4.0, 0.02, 0.02), (0, 0, 1)), box("rod", (0.01, 0.01, 0.25), (0, 2, 1))
    blocks = [box(name, (0.1, 0.1, 0.1), (0, 2, z)) for name, z in (("low", 0.7), ("high", 1.3))]
    mesh = static_mesh(scene_of(bar, rod, *blocks))
    p_m = mesh.vertices["p"]
    layout = lay_out(p_m.astype(float), mesh.triangles.astype(np.intp), 0.1)
    solid = SolidSides(mesh)
    places = receivers_of(layout, p_m, mesh.vertices["normal"], solid)
    on_bar = np.flatnonzero(layout.chart >= 0)
    assert len(on_bar) == 8, "all sides but its ends"
    for u, v in ((0.3, 0.3), (0.05, 0.9), (0.9, 0.05)):
        weights = np.full(len(on_bar), u, np.float32), np.full(len(on_bar), v, np.float32)
        assert (places.at(layout, on_bar, *weights) >= 0).all()
    of_rod = np.abs(places.p_m[:, :2] - (0.0, 2.0)).max(axis=1) < 0.02
    along = of_rod & (np.abs(places.normal[:, 2]) < 0.5)
    assert along.sum() == 16
    assert not solid.is_buried(places.p_m, places.normal)[along].any()


def test_a_sphere_under_half_a_sky_gets_half_of_one_plus_the_cosine() -> None:
    scene = replace(scene_of(thing("ball", Asset.of("ball", [sphere_primitive(1.0)]))))
    made = baked(scene)
    got = made.light[:, 0].astype(float)
    want = 0.5 + 0.5 * made.receivers.normal[:, 2:]
    assert np.abs(got - want).max() < 0.02
    assert made.gain == pytest.approx(1.0, abs=0.02)


def test_a_closed_room_takes_in_all_light_of_its_lamp() -> None:
    """The room takes in A E (1 - albedo).

    As much as a lamp of 1 at 1 m gives out, 4 pi in units of pi.
    """
    grey = (0.5, 0.5, 0.5)
    room = thing("room", inside_out((2.0, 1.5, 1.0), [grey] * 6))
    lamp = Lamp("lamp", np.array((0.4, -0.2, 0.3)), np.ones(3))
    made = baked(replace(scene_of(room), environment=DARK, lamps=(lamp,)), receivers=5000, rays=128)
    light = made.mixed(DARK, (lamp,)).mean(axis=1)
    texel_m2 = 52.0 / len(made.receivers.texel)
    assert (light * texel_m2).sum() * 0.5 == pytest.approx(4.0 * np.pi, rel=0.02)


def test_a_furnace_is_as_bright_everywhere_as_its_albedo_says() -> None:
    """A closed room in a uniform light of 1 has 1 / (1 - albedo) after all bounces.

    Nothing leaks, nothing is added.
    """
    from vil_renderer.embedded.lighting.baked.receivers import receivers_of
    from vil_renderer.embedded.lighting.baked.transport import LightTransport, look_around

    crate = thing(
        "crate", Asset.of("crate", [painted(box_primitive((0.4, 0.3, 0.5)), (0.8,) * 3)]), np.eye(4)
    )
    scene = scene_of(thing("room", inside_out((2.0, 1.5, 1.0), [(0.8,) * 3] * 6)), crate)
    mesh = static_mesh(scene)
    layout = lay_out(mesh.vertices["p"].astype(float), mesh.triangles.astype(np.intp), 0.1)
    solid = SolidSides(mesh)
    places = receivers_of(layout, mesh.vertices["p"], mesh.vertices["normal"], solid)
    seen = look_around(solid, layout, places, 128, lambda _share: None)
    made = LightTransport(seen, np.full((len(places.p_m), 3), 0.8, np.float32))
    light = made.all_bounces(np.ones((len(places.p_m), 1, 3), np.float32), lambda _share: None)
    assert light.mean() == pytest.approx(5.0, rel=0.02)
    assert np.percentile(light, [1, 99]) == pytest.approx([5.0, 5.0], rel=0.02)


def test_a_cornell_box_is_lit_as_a_path_tracer_says() -> None:
    lamp = Lamp("lamp", np.array((0.1, 0.0, 0.8)), np.array((1.0, 0.9, 0.8)))
    crate = Asset.of("crate", [painted(box_primitive((0.25, 0.25, 0.4)), WHITE)])
    place = np.eye(4)
    place[:3, 3] = (-0.35, 0.3, -0.6)
    objects = (
        thing("room", inside_out((1, 1, 1), [RED, GREEN, WHITE, WHITE, WHITE, WHITE])),
        thing("b", crate, place),
    )
    scene = replace(scene_of(*objects), environment=DARK, lamps=(lamp,))
    made = baked(scene, receivers=15_000, rays=128)
    light = made.mixed(DARK, (lamp,))
    surfaces = Surfaces.of(scene)
    for p_m, normal in (
        ((0.5, -0.5, -1.0), (0.0, 0.0, 1.0)),
        ((-1.0, -0.5, 0.0), (1.0, 0.0, 0.0)),
        ((1.0, 0.5, 0.2), (-1.0, 0.0, 0.0)),
        ((0.0, 1.0, 0.5), (0.0, -1.0, 0.0)),
        ((-0.35, 0.05, -0.6), (0.0, -1.0, 0.0)),
        ((0.5, 0.5, 1.0), (0.0, 0.0, -1.0)),
    ):
        want = traced(surfaces, np.array(p_m), np.array(normal), lamp, paths=60_000)
        got = at_point(made.receivers, light, np.array(p_m), np.array(normal))
        np.testing.assert_allclose(got, want, rtol=0.02)


def test_nothing_leaks_into_a_closed_box_from_outside() -> None:
    walls = [box(f"w{i}", half, p) for i, (half, p) in enumerate((
        ((1.1, 1.1, 0.05), (0, 0, 1.05)), ((1.1, 1.1, 0.05), (0, 0, -1.05)),
        ((0.05, 1.1, 1.1), (1.05, 0, 0)),
        ((0.05, 1.1, 1.1), (-1.05, 0, 0)), ((1.1, 0.05, 1.1), (0, 1.05, 0)),
        ((1.1, 0.05, 1.1), (0, -1.05, 0)),
    ))]  # fmt: skip
    made = baked(replace(scene_of(*walls), environment=Environment(np.ones(3), np.ones(3))))
    light = made.mixed(Environment(np.ones(3), np.ones(3)), ())
    p_m = made.receivers.p_m
    within = (
        (np.abs(p_m) < 1.001).all(axis=1)
        & (np.abs(p_m).max(axis=1) > 0.99)
        & (np.abs(p_m).max(axis=1) < 1.001)
    )
    assert within.sum() > 100
    assert light[within].max() < 0.01


def test_the_light_of_now_is_mixed_of_what_was_baked() -> None:
    lamps = tuple(
        Lamp(name, np.array((x, 0.0, 0.5)), np.ones(3)) for name, x in (("a", -0.5), ("b", 0.5))
    )
    room = thing("room", inside_out((1, 1, 1), [WHITE] * 6))
    made = baked(replace(scene_of(room), environment=DARK, lamps=lamps), receivers=3000, rays=64)
    both, none = made.mixed(DARK, lamps), made.mixed(DARK, ())
    one = made.mixed(DARK, lamps[:1])
    dimmed = made.mixed(DARK, (lamps[0], replace(lamps[1], light=np.array((0.5, 0.0, 0.0)))))
    assert none.max() == 0.0
    np.testing.assert_allclose(
        dimmed[:, 0], one[:, 0] + 0.5 * (both - one)[:, 0], rtol=2e-3, atol=1e-4
    )
    np.testing.assert_allclose(dimmed[:, 1], one[:, 1], rtol=2e-3)


def test_the_sun_between_two_baked_ones_is_their_mixture() -> None:
    red = thing("wall", Asset.of("wall", [painted(box_primitive((0.1, 5, 3)), RED)]), np.eye(4))
    ground = thing("floor", floor_asset())
    scene = replace(scene_of(red, ground), environment=replace(DARK, latitude_deg=47.4))
    made = baked(scene, receivers=4000, rays=64)
    suns = [source for source in made.sources if source.to_sun is not None]
    assert [source.name for source in suns] == [
        f"sun at {hour} h" for hour in ("7", "9.5", "12", "14.5", "17")
    ]
    at = [
        made.mixed(replace(scene.environment, sun=Sun(sun.to_sun, np.ones(3))), ())  # type: ignore[arg-type]
        for sun in suns[1:3]
    ]
    middle = Sun.towards(suns[1].to_sun + suns[2].to_sun, np.ones(3))  # type: ignore[operator]
    mixed = made.mixed(replace(scene.environment, sun=middle), ())
    np.testing.assert_allclose(mixed, 0.5 * (at[0] + at[1]), atol=2e-3)
    lit = near(made.receivers, np.array((0.6, 0.0, 0.0)), np.array((0.0, 0.0, 1.0)), 0.5)
    assert (mixed[lit, 0] > 3.0 * mixed[lit, 1]).all()  # by the red wall


def test_the_exposure_is_as_if_nothing_hid_the_sun() -> None:
    """In the open it stays; a room is exposed for its lamp as the open floor is for sky and sun."""
    sky = Environment(
        np.full(3, 0.2),
        np.full(3, 0.2),
        sun=Sun.towards(np.array((0.2, 0.0, 1.0)), np.full(3, 0.8)),
    )
    open_floor = replace(scene_of(thing("floor", floor_asset(3.0))), environment=sky)
    assert baked(open_floor, receivers=2000, rays=64).gain == pytest.approx(1.0, abs=0.02)
    room = thing("room", inside_out((4, 4, 1), [WHITE] * 6))
    lamps = (Lamp("lamp", np.zeros(3), np.full(3, 0.2)),)
    gains = [
        baked(replace(scene_of(room), environment=light, lamps=lamps), receivers=2000, rays=64).gain
        for light in (replace(sky, sun=None), sky)
    ]
    assert gains[1] > 1.5 * gains[0]


def test_the_exposure_leaves_room_for_the_sky_and_sunlit_ground() -> None:
    """Below a wide roof it is dark.

    A camera that sees the sky beside it is not opened until that is burnt.
    """
    sun = Sun.towards(np.array((0.2, 0.0, 1.0)), np.full(3, 0.8))
    light = Environment(np.full(3, 0.2), np.full(3, 0.05), sun=sun)
    objects = thing("floor", floor_asset(6.0)), box("roof", (4.5, 4.5, 0.1), (0, 0, 3.0))
    made = baked(replace(scene_of(*objects), environment=light), receivers=4000, rays=64)
    assert 1.0 < made.gain < 2.6
    assert made.gain * max(light.horizon) < 1.9


def _small(half_m: float = 0.5) -> Scene:
    objects: tuple[SceneObject, ...] = (
        thing("floor", floor_asset(3.0)),
        box("b", (half_m,) * 3, (0, 0, half_m)),
    )
    return scene_of(*objects)


def test_light_is_stored_and_read_back(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RECEIVERS", 2000)
    monkeypatch.setattr(store, "RAYS", 32)
    steps: list[str] = []
    scene = _small()
    first = store.stored_light(scene, static_mesh(scene), lambda step, _share: steps.append(step))
    assert {"looking around", "bounces"} <= set(steps)
    steps.clear()
    again = store.stored_light(scene, static_mesh(scene), lambda step, _share: steps.append(step))
    assert not steps
    assert again.gain == first.gain
    for name in ("light", "straight"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    np.testing.assert_array_equal(again.layout.place, first.layout.place)
    np.testing.assert_array_equal(again.receivers.of_texel, first.receivers.of_texel)

    (file,) = cache.glob("*.npz")
    whole = file.read_bytes()
    flipped = bytearray(whole)
    name_bytes, extra_bytes = whole[26] | whole[27] << 8, whole[28] | whole[29] << 8
    flipped[30 + name_bytes + extra_bytes] = (
        0xFF  # the first packed block: of a kind that does not exist
    )
    for damaged in (whole[:1000], bytes(flipped)):
        file.write_bytes(damaged)
        steps.clear()
        store.stored_light(scene, static_mesh(scene), lambda step, _share: steps.append(step))
        assert "bounces" in steps

    other = _small(0.4)
    store.stored_light(other, static_mesh(other))
    assert len(list(cache.glob("*"))) == 2


def test_a_bake_that_was_killed_goes_on_where_it_was(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "RECEIVERS", 5000)
    monkeypatch.setattr(store, "RAYS", 8)
    monkeypatch.setattr(transport, "_CHUNK", 1000)
    scene = _small()
    shares: list[float] = []

    def killed(step: str, share: float) -> None:
        if step == "looking around":
            shares.append(share)
            if len(shares) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.stored_light(scene, static_mesh(scene), killed)
    (rows,) = cache.glob("*.rows")
    with rows.open("ab") as file:
        file.write(b"half a row")
    again: list[float] = []
    made = store.stored_light(
        scene, static_mesh(scene), lambda step, share: again.append(share) if "look" in step else 0
    )
    assert again[0] > shares[-1]
    assert [path.suffix for path in cache.glob("*")] == [".npz"]
    fresh = bake(scene, static_mesh(scene), lambda _step, _share: None, receivers=5000, rays=8)
    np.testing.assert_array_equal(made.light, fresh.light)


def test_two_processes_that_bake_one_scene_at_once_do_not_spoil_each_others_rows(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins after the first chunk of the first.

    Both are killed, and a third one goes on.
    """
    monkeypatch.setattr(store, "RECEIVERS", 5000)
    monkeypatch.setattr(store, "RAYS", 8)
    monkeypatch.setattr(transport, "_CHUNK", 1000)
    scene = _small()
    inner: list[float] = []

    def second(step: str, share: float) -> None:
        inner.append(share)
        if len(inner) == 2:
            raise KeyboardInterrupt

    def first(step: str, share: float) -> None:
        if not inner:
            with pytest.raises(KeyboardInterrupt):
                store.stored_light(scene, static_mesh(scene), second)
        elif share > inner[-1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.stored_light(scene, static_mesh(scene), first)
    again: list[float] = []
    made = store.stored_light(scene, static_mesh(scene), lambda _step, share: again.append(share))
    assert again[0] > inner[-1]
    fresh = bake(scene, static_mesh(scene), lambda _step, _share: None, receivers=5000, rays=8)
    np.testing.assert_array_equal(made.light, fresh.light)


def test_rows_that_no_bake_wrote_are_not_taken(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "RECEIVERS", 500)
    monkeypatch.setattr(store, "RAYS", 8)
    scene = _small()
    made = store.stored_light(scene, static_mesh(scene))
    (file,) = cache.glob("*.npz")
    file.rename(cache / "elsewhere")
    file.with_suffix(".rows").write_bytes(b"\x7f" * 8 * 4 * 200)
    again = store.stored_light(scene, static_mesh(scene))
    np.testing.assert_array_equal(again.light, made.light)


def test_what_has_the_name_of_a_lamp_makes_another_light(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an object does not hide the lamp; the same box with another name does."""
    monkeypatch.setattr(store, "RECEIVERS", 500)
    monkeypatch.setattr(store, "RAYS", 8)
    lamps = (Lamp("lamp", np.array((0.0, 0.0, 1.0)), np.ones(3)),)
    for name in ("lamp", "crate"):
        scene = scene_of(thing("floor", floor_asset(3.0)), box(name, (0.2, 0.2, 0.2), (0, 0, 1)))
        scene = replace(scene, environment=DARK, lamps=lamps)
        lit = store.stored_light(scene, static_mesh(scene)).mixed(DARK, lamps)
        assert (lit.max() > 0.1) == (name == "lamp")
    assert len(list(cache.glob("*.npz"))) == 2


def test_a_full_disk_costs_the_store_not_the_light(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "RECEIVERS", 500)
    monkeypatch.setattr(store, "RAYS", 8)
    cache.write_text("not a folder")
    scene = _small()
    assert len(store.stored_light(scene, static_mesh(scene)).light) > 400
    assert "is not stored, and is baked again next time" in caplog.text
