"""Which renderer draws which camera, simulated with a clock of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.pipeline.assignment import Assigner, RendererPreference

MS = 1e6
PIXELS = 640 * 480


class Simulation:
    """Renderers that take their time per picture and may fail.

    An assigner that looks ten times a second.
    """

    def __init__(
        self, preferences: Mapping[str, RendererPreference], picture_ms: Mapping[str, float]
    ) -> None:
        self.assigner = Assigner(preferences)
        self.working = set(picture_ms)
        self.moves: Counter[str] = Counter()
        self._cameras = tuple(preferences)
        self._picture_ms = dict(picture_ms)
        self._measured: dict[tuple[str, str], float] = {}
        self._t_ns = 0

    def run(self, seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            self._t_ns += NS_PER_S // 10
            before = self.places
            self.assigner.update(self._t_ns, self.working, lambda *key: self._measured.get(key))
            self.moves.update(
                camera for camera, place in self.places.items() if place != before[camera]
            )
            for camera, renderer in self.places.items():
                if renderer in self.working:
                    self._measured[camera, renderer] = self._picture_ms[renderer] * MS

    def slow_down(self, renderer: str, factor: float) -> None:
        self._picture_ms[renderer] *= factor

    @property
    def places(self) -> dict[str, str]:
        return {camera: self.assigner.place_of(camera).renderer for camera in self._cameras}

    @property
    def drawn(self) -> dict[str, int]:
        return dict(Counter(self.places.values()))

    def why(self, camera: str) -> str:
        return self.assigner.place_of(camera).why


def by_load(count: int, *renderers: str, rate_hz: float = 30.0) -> dict[str, RendererPreference]:
    return {f"cam{i}": RendererPreference(renderers, True, rate_hz, PIXELS) for i in range(count)}


def preferring(*renderers: str) -> dict[str, RendererPreference]:
    return {"front": RendererPreference(renderers, False, 60.0, PIXELS)}


def test_equal_renderers_share_equal_cameras() -> None:
    world = Simulation(by_load(8, "a", "b"), {"a": 4.0, "b": 4.0})
    world.run(1.0)
    assert world.drawn == {"a": 4, "b": 4}
    assert {world.why(camera) for camera in world.places} == {"load"}


@pytest.mark.parametrize("count", [4, 8, 30])
def test_a_fast_renderer_gets_more_cameras_as_soon_as_it_is_known_to_be_fast(count: int) -> None:
    world = Simulation(by_load(count, "slow", "fast"), {"slow": 9.0, "fast": 3.0})
    world.run(30.0)
    shares = [9.0 * world.drawn["slow"], 3.0 * world.drawn["fast"]]
    assert max(shares) - min(shares) <= 12.0 + 0.1 * max(shares)  # one camera more would be as bad


def test_cameras_stay_where_they_are_once_the_load_is_balanced() -> None:
    world = Simulation(by_load(7, "a", "b", "c"), {"a": 5.0, "b": 5.0, "c": 2.0})
    world.run(30.0)
    world.moves.clear()
    world.run(600.0)
    assert not world.moves


def test_noise_of_the_measurements_moves_no_camera() -> None:
    world = Simulation(by_load(6, "a", "b"), {"a": 4.0, "b": 4.0})
    world.run(10.0)
    world.moves.clear()
    for step in range(100):
        world._picture_ms = {"a": 4.0 + 0.4 * (step % 2), "b": 4.4 - 0.4 * (step % 2)}
        world.run(0.7)
    assert not world.moves


def test_after_a_move_by_load_the_next_one_waits_for_five_seconds() -> None:
    world = Simulation(by_load(8, "a", "b"), {"a": 4.0, "b": 4.0})
    while not world.moves:
        world.run(0.1)
    world.moves.clear()
    world.slow_down("b", 10.0)
    world.run(4.8)
    assert not world.moves
    world.run(0.4)
    assert world.moves


def test_tiny_loads_are_left_alone() -> None:
    preferences = {f"cam{i}": RendererPreference(("a", "b"), True, 1.0, 100) for i in range(2)}
    world = Simulation(preferences, {"a": 1.0, "b": 1.0})
    world.run(10.0)
    assert world.drawn == {"a": 2} and not world.moves


def test_what_others_draw_counts_as_load() -> None:
    preferences = by_load(2, "a", "b") | {
        f"own{i}": RendererPreference(("a",), False, 30.0, PIXELS) for i in range(3)
    }
    world = Simulation(preferences, {"a": 4.0, "b": 4.0})
    world.run(5.0)
    assert {world.places["cam0"], world.places["cam1"]} == {"b"}
    assert world.places["own0"] == "a" and world.why("own0") == "preferred"


def test_a_dead_renderer_hands_over_at_once_and_gets_work_back_when_trusted() -> None:
    world = Simulation(by_load(4, "a", "b"), {"a": 4.0, "b": 4.0})
    world.run(60.0)
    moved = [camera for camera, renderer in world.places.items() if renderer == "a"]
    world.working.remove("a")
    world.run(0.1)
    assert world.drawn == {"b": 4}
    assert {world.why(camera) for camera in moved} == {"fail-over from a"}
    world.working.add("a")
    world.run(2.8)
    assert world.drawn == {"b": 4}
    world.run(0.4)
    assert world.drawn == {"a": 2, "b": 2}
    assert [world.why(camera) for camera, renderer in world.places.items() if renderer == "a"] == [
        "load",
        "load",
    ]


def test_cameras_of_a_dead_renderer_are_spread_over_the_others() -> None:
    world = Simulation(by_load(6, "a", "b", "c"), {"a": 4.0, "b": 4.0, "c": 4.0})
    world.run(10.0)
    world.working.remove("c")
    world.run(0.1)
    assert world.drawn == {"a": 3, "b": 3}


def test_the_preferred_renderer_draws_while_it_works() -> None:
    world = Simulation(preferring("a", "b", "c"), {"a": 9.0, "b": 1.0, "c": 1.0})
    world.run(20.0)
    assert world.places == {"front": "a"} and world.why("front") == "preferred"
    world.working.clear()
    world.working.add("c")
    world.run(0.1)
    assert world.places == {"front": "c"} and world.why("front") == "fail-over from a"
    world.working.add("b")
    world.run(3.2)
    assert world.places == {"front": "b"} and world.why("front") == "fail-over from a"
    world.working.add("a")
    world.run(3.2)
    assert world.places == {"front": "a"} and world.why("front") == "preferred"


def test_a_renderer_that_keeps_dying_is_trusted_ever_later() -> None:
    world = Simulation(preferring("a", "b"), {"a": 4.0, "b": 4.0})
    world.run(1.0)
    returns_s: list[float] = []
    for _ in range(6):
        world.working.discard("a")
        world.run(0.5)
        assert world.places == {"front": "b"}
        world.working.add("a")
        returns_s.append(0.0)
        while world.places == {"front": "b"}:
            world.run(0.1)
            returns_s[-1] += 0.1
    assert returns_s == pytest.approx([3.0, 6.0, 12.0, 24.0, 48.0, 60.0], abs=0.15)
    world.run(120.0)
    world.working.discard("a")
    world.run(0.1)
    world.working.add("a")
    world.run(3.2)
    assert world.places == {"front": "a"}, "two minutes without a failure restore the trust"


def test_at_the_start_whoever_works_draws_and_the_preferred_one_takes_over_without_a_pause() -> (
    None
):
    world = Simulation(preferring("a", "b"), {"a": 4.0, "b": 4.0})
    world.working = {"b"}
    world.run(0.1)
    assert world.places == {"front": "b"}
    world.working = {"a", "b"}
    world.run(0.1)
    assert world.places == {"front": "a"}


def test_load_is_the_reason_where_nothing_has_failed() -> None:
    world = Simulation(by_load(1, "a", "b"), {"a": 4.0, "b": 4.0})
    world.working = {"b"}
    world.run(0.1)
    assert world.places == {"cam0": "b"} and world.why("cam0") == "load"


def test_without_any_working_renderer_cameras_wait_where_they_are() -> None:
    world = Simulation(by_load(4, "a", "b") | preferring("b", "a"), {"a": 4.0, "b": 4.0})
    world.run(10.0)
    before = world.places
    world.working.clear()
    world.run(30.0)
    assert world.places == before
    world.working.add("a")
    world.run(0.1)
    assert world.drawn == {"a": 5}


def test_fail_over_takes_an_untrusted_renderer_only_where_there_is_no_other() -> None:
    world = Simulation(preferring("a", "b", "c"), {"a": 1.0, "b": 1.0, "c": 1.0})
    world.run(1.0)
    world.working = {"a", "c"}
    world.run(0.5)
    world.working = {"b", "c"}
    world.run(0.1)
    assert world.places == {"front": "c"}, "b came back this moment"
    world.working = {"b"}
    world.run(0.1)
    assert world.places == {"front": "b"}


def test_a_camera_never_goes_where_it_may_not() -> None:
    world = Simulation(by_load(5, "a") | preferring("b"), {"a": 50.0, "b": 1.0, "c": 1.0})
    world.run(20.0)
    assert world.drawn == {"a": 5, "b": 1}
    assert world.assigner.cameras_of("b") == ["front"]
