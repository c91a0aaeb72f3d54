"""Scene files and light: the hour, the sun, lamps, and lights inside of models."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.scenefile import bare, read, write_glb
from vil_bridge.core.errors import RendererError
from vil_bridge.core.weather import FINE, Weather
from vil_renderer.embedded.lighting.daylight import daylight
from vil_renderer.embedded.scene import Scene


def environment(folder: Path, keys: str, base: str = "") -> Scene:
    return read(folder, f"scene: s\n{base}\nenvironment: {{{keys}}}\n")


def test_without_a_word_it_is_morning(tmp_path: Path) -> None:
    made, morning = read(tmp_path, "scene: s\n").environment, daylight(10.0, 47.4)
    np.testing.assert_array_equal(made.sky, morning.sky)
    assert made.sun is not None


def test_the_base_gives_what_is_not_written(tmp_path: Path) -> None:
    made = environment(
        tmp_path, "sky: [1, 2, 3], zenith: [0.1, 0.2, 0.3]", "base: bare"
    ).environment
    np.testing.assert_array_equal(made.sky, [1, 2, 3])
    np.testing.assert_array_equal(made.ground, bare().environment.ground)
    assert (made.zenith, made.exposure, made.latitude_deg, made.sun) == (
        (0.1, 0.2, 0.3),
        2.0,
        10.0,
        None,
    )


def test_an_hour_gives_sun_and_sky_and_keeps_what_is_written(tmp_path: Path) -> None:
    made = environment(tmp_path, "time_of_day_h: 15, ground: [0, 0, 0]", "base: bare").environment
    hour = daylight(15.0, 10.0)
    assert made.sun is not None
    assert hour.sun is not None
    np.testing.assert_array_equal(made.sun.to_sun, hour.sun.to_sun)
    np.testing.assert_array_equal(made.sky, hour.sky)
    np.testing.assert_array_equal(made.ground, np.zeros(3))
    assert made.exposure == 2.0
    assert environment(tmp_path, "time_of_day_h: 15, sun: null").environment.sun is None


def test_a_sun_stands_at_its_bearing(tmp_path: Path) -> None:
    sun = environment(
        tmp_path, "sun: {azimuth_deg: 180, elevation_deg: 30, light: [1, 2, 3]}"
    ).environment.sun
    assert sun is not None
    np.testing.assert_allclose(sun.to_sun, [0.0, -math.cos(math.pi / 6), 0.5], atol=1e-12)
    np.testing.assert_array_equal(sun.light, [1, 2, 3])


def test_lamps_and_a_directional_light(tmp_path: Path) -> None:
    text = """\
scene: s
lights:
  - {name: point, p_m: [1, 2, 3], power: 4, colour: [1, 0.5, 0], range_m: 7}
  - {name: spot, kind: spot, p_m: [0, 0, 3], direction: [0, 3, -4], cone_deg: [10, 20]}
  - {name: far, kind: directional, direction: [0, 0, -5], power: 0.5}
"""
    scene = read(tmp_path, text)
    point, spot = scene.lamps
    np.testing.assert_allclose(point.light, [4, 2, 0])
    assert (point.direction, point.range_m) == (None, 7.0)
    assert spot.direction is not None
    np.testing.assert_allclose(spot.direction, [0, 0.6, -0.8])
    assert spot.cone_rad == pytest.approx((math.radians(10), math.radians(20)))
    assert scene.environment.sun is not None
    np.testing.assert_allclose(scene.environment.sun.to_sun, [0, 0, 1])
    np.testing.assert_allclose(scene.environment.sun.light, [0.5, 0.5, 0.5])


def test_lights_in_a_file_become_lamps_in_their_place(tmp_path: Path) -> None:
    half = math.sqrt(0.5)
    write_glb(
        tmp_path / "lit.glb",
        [
            {"name": "mesh", "mesh": 0},
            {
                "name": "n1",
                "translation": [0, 2, 0],
                "extensions": {"KHR_lights_punctual": {"light": 0}},
            },
            # glTF looks along -z; turned about x by -90 degrees that is down.
            {
                "name": "n2",
                "rotation": [-half, 0, 0, half],
                "extensions": {"KHR_lights_punctual": {"light": 1}},
            },
            {
                "name": "n3",
                "rotation": [-half, 0, 0, half],
                "extensions": {"KHR_lights_punctual": {"light": 2}},
            },
        ],
        [
            {"type": "point", "name": "bulb", "intensity": 10, "color": [1, 0.5, 0]},
            {
                "type": "spot",
                "intensity": 1,
                "spot": {"innerConeAngle": 0.1, "outerConeAngle": 0.2},
            },
            {"type": "directional", "intensity": 2},
        ],
    )
    text = "scene: s\nobjects:\n  - {name: room, file: lit.glb, p_m: [5, 0, 0], scale: 2}\n"
    scene = read(tmp_path, text)
    bulb, spot = scene.lamps
    assert bulb.name == "room/bulb"
    np.testing.assert_allclose(bulb.p_m, [5, 0, 4], atol=1e-9)
    np.testing.assert_allclose(bulb.light, np.array([10, 5, 0]) / math.pi, rtol=1e-6)
    assert spot.direction is not None
    assert spot.direction is not None
    np.testing.assert_allclose(spot.direction, [0, 0, -1], atol=1e-6)
    assert spot.cone_rad == pytest.approx((0.1, 0.2))
    assert scene.environment.sun is not None
    np.testing.assert_allclose(scene.environment.sun.to_sun, [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(scene.environment.sun.light, 2 / math.pi, rtol=1e-6)
    dimmed = read(tmp_path, text.replace("scale: 2", "light_per_candela: 0.1"))
    np.testing.assert_allclose(dimmed.lamps[0].light, [1.0, 0.5, 0.0], rtol=1e-6)
    assert read(tmp_path, text.replace("scale: 2", "light_per_candela: 0")).lamps == ()
    given = read(tmp_path, text + "environment: {time_of_day_h: 0}\n")
    assert given.environment.sun is None


def test_weather_is_that_of_the_file_else_that_of_the_base(tmp_path: Path) -> None:
    assert read(tmp_path, "scene: s\n").weather == FINE
    made = read(tmp_path, "scene: s\nweather: {fog: 0.3, ground_wetness: 1, wind_mps: [2, 0, 0]}\n")
    assert made.weather == Weather(fog=0.3, ground_wetness=1.0, wind_mps=(2.0, 0.0, 0.0))
    with pytest.raises(RendererError, match=r"weather\.fog: should be 1 or less|weather\.fog"):
        read(tmp_path, "scene: s\nweather: {fog: 2}\n")
