"""Lidars and range finders of the renderer in weather."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.embedded import looking
from tests.support.geometry_scenes import box, floor, scene_of
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.weather import Weather
from vil_bridge.interfaces.weather_returns import LaserAir
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.sensors import RangeFinder, SpinningLidar, range_below_m

DOWN = Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(0.0, 0.5 * math.pi, 0.0))
FOG = Weather(fog=0.6)
REACH_M = 60.0


def lidar(seed: int = 0) -> SpinningLidar:
    return SpinningLidar(np.radians(np.linspace(-15.0, 15.0, 16)), 900, max_m=REACH_M, seed=seed)


def ring() -> RayWorld:
    """Return walls on four sides, their middles 9 m away."""
    sides = [((9.5, 0.0, 0.0), (0.5, 30.0, 30.0)), ((-9.5, 0.0, 0.0), (0.5, 30.0, 30.0)),
             ((0.0, 9.5, 0.0), (30.0, 0.5, 30.0)),
             ((0.0, -9.5, 0.0), (30.0, 0.5, 30.0))]  # fmt: skip
    return RayWorld(
        scene_of(*(box(f"w{i}", half, p, instance=i + 1) for i, (p, half) in enumerate(sides)))
    )


def test_a_lidar_loses_returns_and_finds_particles() -> None:
    world, still = ring(), [Transform.identity()]
    clear = lidar().sweep(world, still)
    foggy = lidar().sweep(world, still, weather=FOG)
    air = LaserAir.of(FOG, REACH_M)
    assert len(clear) == 16 * 900 and air.surface_m > 14.0
    particle = foggy["instance"] == 0
    expected = np.mean([air.early_share(float(r)) for r in clear["range_m"]])
    near = 1.0 - math.exp(-air.extinction * 0.3)  # nearer than the lidar measures
    assert particle.mean() == pytest.approx((expected - near) / (1.0 - near), abs=0.015)
    assert (
        np.all(foggy["semantic"][particle] == 0)
        and foggy["range_m"][particle].max() < air.particle_m
    )
    assert np.linalg.norm(foggy["p_m"], axis=1) == pytest.approx(foggy["range_m"], rel=1e-5)
    surface = foggy[~particle]
    facing = np.abs(surface["p_m"][:, :2]).max(axis=1) / surface["range_m"]
    assert surface["intensity"] == pytest.approx(
        facing * np.exp(-2.0 * air.extinction * surface["range_m"]), rel=0.02
    )
    assert foggy["intensity"][particle].max() <= air.soft_reflectance
    dense = lidar().sweep(world, still, weather=Weather(fog=1.0))
    assert LaserAir.of(Weather(fog=1.0), REACH_M).surface_m < 13.0
    assert len(dense) < len(foggy)


def test_the_same_seed_finds_the_same_particles() -> None:
    world, still = ring(), [Transform.identity()]
    one, same, other = (lidar(seed).sweep(world, still, weather=FOG) for seed in (4, 4, 5))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_a_range_finder_sees_less_far_in_snow() -> None:
    world = RayWorld(scene_of(floor()))
    beams = np.tile((1.0, 0.0, 0.0), (2000, 1))
    snow = Weather(snow=1.0)
    air = LaserAir.of(snow, 20.0)
    for height_m in (air.surface_m - 0.2, air.surface_m + 0.2):
        sensor = RangeFinder(DOWN, beams, max_m=20.0)
        got = sensor.measure(world, Transform.of((0.0, 0.0, height_m)), weather=snow)
        early = got < height_m - 1.0
        assert early.mean() == pytest.approx(air.early_share(height_m), abs=0.02)
        assert np.isfinite(got[~early]).all() == (height_m < air.surface_m)


def test_the_range_below_is_that_of_its_time() -> None:
    world, camera = RayWorld(scene_of(floor())), looking((0.0, 0.0, 6.0))
    fog = Weather(fog=1.0)
    seen = [range_below_m(world, camera, weather=fog, t_ns=t) for t in range(200)]
    assert seen == [range_below_m(world, camera, weather=fog, t_ns=t) for t in range(200)]
    early = np.array([m is not None and m < 5.5 for m in seen])
    assert early.mean() == pytest.approx(LaserAir.of(fog, 20.0).early_share(6.0), abs=0.15)
    assert range_below_m(world, camera) == pytest.approx(6.0)


def test_below_a_roof_a_lidar_meets_no_rain_and_snow() -> None:
    walls = [
        box(f"w{i}", (0.5, 30.0, 30.0), (x, 0.0, 0.0), instance=i) for i, x in ((1, 9.5), (2, -9.5))
    ]
    still, storm = [Transform.identity()], Weather(rain=1.0, snow=1.0)
    roof = box("roof", (30.0, 30.0, 0.1), (0.0, 0.0, 4.0), instance=3)
    outside = lidar().sweep(RayWorld(scene_of(*walls)), still, weather=storm)
    inside, clear = (
        lidar().sweep(RayWorld(scene_of(*walls, roof)), still, weather=w)
        for w in (storm, Weather())
    )
    assert (outside["instance"] == 0).any()
    assert np.array_equal(inside, clear)
