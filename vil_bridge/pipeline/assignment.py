"""Assignment of cameras to renderers: pure rules over working renderers and the cost of pictures.

A camera lists its renderers in order of preference, or leaves the choice among them to the load.

- A renderer that stops working loses its cameras at once, each to its best working candidate. A
  camera without one stays where it is, since asking is what wakes a renderer.
- A renderer that failed is trusted again after it has worked for 3 s; each further failure within
  60 s doubles that, up to 60 s. Then cameras that prefer it return, and the load is balanced again.
- The load of a renderer is the sum over its cameras of rate times measured time per picture. A
  camera moves when the other renderer, with it, would still have a tenth less to do than its own
  has now. Then nothing moves for 5 s, so that the next decision rests on measurements of the new
  order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from vil_bridge.core.clock import NS_PER_S

PictureTime = Callable[[str, str], float | None]
"""Camera and renderer to the measured time per picture, nanoseconds; None = not measured lately."""

_PREFERRED: Final = "preferred"
_BY_LOAD: Final = "load"
_FIRST_TRUST_NS: Final = 3 * NS_PER_S
_LONGEST_TRUST_NS: Final = 60 * NS_PER_S
_REST_NS: Final = 5 * NS_PER_S
_WORTHWHILE: Final = 0.9
_LEAST_GAIN: Final = 0.01
"""Share of a renderer's time below which differences are noise."""
_GUESS_NS_PER_PIXEL: Final = 20.0


@dataclass(frozen=True, slots=True)
class RendererPreference:
    """Renderers that may draw a camera, and the work that it is.

    Attributes:
        renderers: at least one name, in order of preference unless ``by_load``.
        pixels: of one picture, all modalities together: its cost as long as none was measured.
        stereo_left: a camera that this one goes with, wherever that is; empty = it goes alone.
    """

    renderers: tuple[str, ...]
    by_load: bool
    rate_hz: float
    pixels: int
    stereo_left: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Renderer that draws a camera, and why: ``preferred``, ``load`` or ``fail-over from NAME``."""

    renderer: str
    why: str


class _Health:
    """State of a renderer: working or not, and since when without interruption."""

    def __init__(self) -> None:
        self.working = False
        self.ever_worked = False
        self._since_ns = 0
        self._failed_ns: int | None = None
        self._trust_ns = 0

    def update(self, t_ns: int, working: bool) -> None:
        if working and not self.working:
            self._since_ns = t_ns
            self.ever_worked = True
        elif self.working and not working:
            lately = self._failed_ns is not None and t_ns - self._failed_ns < _LONGEST_TRUST_NS
            if lately:
                self._trust_ns = min(2 * self._trust_ns, _LONGEST_TRUST_NS)
            else:
                self._trust_ns = _FIRST_TRUST_NS
            self._failed_ns = t_ns
        self.working = working

    def trusted(self, t_ns: int) -> bool:
        return self.working and t_ns - self._since_ns >= self._trust_ns


class Assigner:
    """Keeps every camera with one renderer.

    Belongs to one thread, which calls :meth:`update` ten times a second.
    """

    def __init__(self, preferences: Mapping[str, RendererPreference]) -> None:
        self._all = dict(preferences)
        self._preferences = {
            camera: preference
            for camera, preference in preferences.items()
            if not preference.stereo_left
        }
        self._places = {
            camera: Assignment(
                preference.renderers[0], _BY_LOAD if preference.by_load else _PREFERRED
            )
            for camera, preference in self._preferences.items()
        }
        self._health = {
            renderer: _Health()
            for preference in preferences.values()
            for renderer in preference.renderers
        }
        self._rest_until_ns = 0

    def place_of(self, camera: str) -> Assignment:
        """Return the renderer of a camera and why; any thread."""
        return self._places[self._all[camera].stereo_left or camera]

    def cameras_of(self, renderer: str) -> list[str]:
        """Return the cameras that a renderer draws now; any thread."""
        return [camera for camera in self._all if self.place_of(camera).renderer == renderer]

    def update(self, t_ns: int, working: Collection[str], picture_ns: PictureTime) -> None:
        """Look at the renderers and move cameras.

        Args:
            t_ns: now, any monotonic clock.
            working: renderers that answer.
            picture_ns: what pictures cost.
        """
        for renderer, health in self._health.items():
            health.update(t_ns, renderer in working)
        costs = _Costs(self._all, picture_ns)
        for camera, preference in self._preferences.items():
            here = self._places[camera].renderer
            if not self._health[here].working:
                self._fail_over(camera, t_ns, costs)
            elif not preference.by_load:
                self._prefer(camera, t_ns)
        if t_ns >= self._rest_until_ns and self._balance(t_ns, costs):
            self._rest_until_ns = t_ns + _REST_NS

    def _fail_over(self, camera: str, t_ns: int, costs: _Costs) -> None:
        preference = self._preferences[camera]
        here = self._places[camera].renderer
        candidates = [r for r in preference.renderers if self._health[r].working]
        if not candidates:
            return
        loads = self._loads(costs)

        def rank(renderer: str) -> tuple[bool, float]:
            order: float
            if preference.by_load:
                order = loads[renderer] + costs.load(camera, renderer)
            else:
                order = preference.renderers.index(renderer)
            return not self._health[renderer].trusted(t_ns), order

        why = f"fail-over from {here}" if self._health[here].ever_worked else _BY_LOAD
        self._move(camera, min(candidates, key=rank), why)

    def _prefer(self, camera: str, t_ns: int) -> None:
        renderers = self._preferences[camera].renderers
        better = renderers[: renderers.index(self._places[camera].renderer)]
        for renderer in better:
            if self._health[renderer].trusted(t_ns):
                self._move(camera, renderer)
                return

    def _move(self, camera: str, renderer: str, why: str = "") -> None:
        """Place a camera; for one with an order of preference the place itself says why."""
        preference = self._preferences[camera]
        if not preference.by_load:
            why = _PREFERRED
            if renderer != preference.renderers[0]:
                why = f"fail-over from {preference.renderers[0]}"
        self._places[camera] = Assignment(renderer, why)

    def _balance(self, t_ns: int, costs: _Costs) -> bool:
        """Move cameras from loaded to less loaded renderers as long as it pays.

        True when one moved.
        """
        trusted = {renderer for renderer, health in self._health.items() if health.trusted(t_ns)}
        moved = False
        for _ in self._preferences:
            best = max(self._gains(trusted, costs), default=None)
            if best is None:
                break
            _, camera, renderer = best
            self._move(camera, renderer, _BY_LOAD)
            moved = True
        return moved

    def _gains(self, trusted: Collection[str], costs: _Costs) -> Iterator[tuple[float, str, str]]:
        """Worthwhile moves: by how much less the other renderer would then have to do, camera,
        that renderer.
        """
        loads = self._loads(costs)
        for camera, preference in self._preferences.items():
            here = self._places[camera].renderer
            if not preference.by_load or not self._health[here].working:
                continue
            for there in preference.renderers:
                if there == here or there not in trusted:
                    continue
                then = loads[there] + costs.load(camera, there)
                if then < min(_WORTHWHILE * loads[here], loads[here] - _LEAST_GAIN):
                    yield loads[here] - then, camera, there

    def _loads(self, costs: _Costs) -> dict[str, float]:
        loads = dict.fromkeys(self._health, 0.0)
        for camera, place in self._places.items():
            loads[place.renderer] += costs.load(camera, place.renderer)
        return loads


class _Costs:
    """Cost of each camera on each renderer at one instant: measured there, else on others."""

    def __init__(
        self, preferences: Mapping[str, RendererPreference], picture_ns: PictureTime
    ) -> None:
        self._preferences = preferences
        self._picture_ns = picture_ns
        self._together: dict[str, list[str]] = {}
        for name, preference in preferences.items():
            self._together.setdefault(preference.stereo_left or name, []).append(name)
        self._loads: dict[tuple[str, str], float] = {}

    def load(self, camera: str, renderer: str) -> float:
        """Share of a renderer's time that a camera takes, with those that go with it."""
        key = camera, renderer
        if key not in self._loads:
            self._loads[key] = sum(self._alone(name, renderer) for name in self._together[camera])
        return self._loads[key]

    def _alone(self, camera: str, renderer: str) -> float:
        preference = self._preferences[camera]
        cost_ns = self._picture_ns(camera, renderer)
        if cost_ns is None:
            known = [
                ns
                for other in preference.renderers
                if (ns := self._picture_ns(camera, other)) is not None
            ]
            cost_ns = fmean(known) if known else _GUESS_NS_PER_PIXEL * preference.pixels
        return preference.rate_hz * cost_ns / NS_PER_S
