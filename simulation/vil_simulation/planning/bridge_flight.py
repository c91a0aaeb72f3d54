"""Flights for vehicles of a running bridge, planned again when the bridge's map blocks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Trajectory
from vil_bridge.monitoring.snapshot import ActorView
from vil_bridge.services.maps.view import MapView
from vil_bridge.web.client.connection import HttpConnection, path_of
from vil_bridge.web.client.errors import RequestRejected
from vil_bridge.web.client.live import MapReader
from vil_bridge.web.schemas.flights import FlightBody, FlightOut
from vil_simulation.planning.live_world import LiveWorld, blocked_s
from vil_simulation.planning.planner import FlightPlanner
from vil_simulation.planning.reference_rows import flight_body, row_times, stop_along
from vil_simulation.planning.smoothing import PlannedFlight
from vil_simulation.planning.visibility import ViewGoal, plan_with
from vil_simulation.vehicles.control.limits import Limits

_LOOK_S: Final = 0.25
_ARRIVED_M: Final = 0.5
_FIRST_S: Final = 60.0
_LEADS_S: Final = (0.25, 0.5, 1.0, 2.0)
"""From now to the begin of a stop.

The bridge has given set-points a little ahead, and is busy at times.
"""


@dataclass(frozen=True, slots=True, eq=False)
class BridgeQuery:
    """A question for a flight on a bridge's map.

    Attributes:
        actor: that is to fly. map_name: of the bridge's map. goal_m: (3,), world ENU.
        radius_m: of the vehicle. limits: of the flight. seed: of the search.
        through_unknown: fly through voxels that the map does not know. view: landmark to keep in
            view; None = none.
    """

    actor: str
    map_name: str
    goal_m: FloatArray
    radius_m: float
    limits: Limits
    seed: int
    through_unknown: bool
    view: ViewGoal | None = None


class BridgeFlight:
    """A flight that is given to an actor of a running bridge.

    A simulated vehicle flies it. A real one is not commanded: its pilot sees the flight, and
    decides.

    Attributes:
        bridge: where the actor is.
        actor: its name.
    """

    def __init__(self, bridge: HttpConnection, actor: str) -> None:
        self.bridge: Final = bridge
        self._path = path_of("flights", actor)
        self.actor: Final = actor

    def place(self) -> tuple[FloatArray, float]:
        """Return position (3,) and heading of the actor now.

        Raises:
            ConfigError: it is not tracked. RestError: there is no such actor, or no bridge.
        """
        view = self.bridge.get(ActorView, path_of("actors", self.actor))
        if view.p_world_m is None or view.q_xyzw is None:
            raise ConfigError(
                f"{self.actor} has not been tracked yet: wait until the bridge sees it"
            )
        return np.array(view.p_world_m), float(q_to_euler_zyx(np.array(view.q_xyzw))[0])

    def give(self, body: FlightBody) -> FlightOut:
        """Give it a flight. Raises RestError: it is refused."""
        return self.bridge.put(FlightOut, self._path, body)

    def now(self) -> FlightOut:
        """Return its flight now. Raises RestError: it has none."""
        return self.bridge.get(FlightOut, self._path)


def fly_on_live_map(
    bridge: HttpConnection, query: BridgeQuery, report: Callable[[str], object]
) -> FlightOut:
    """Plan on the map of a running bridge, give the flight to the actor, and plan again whenever
    the map blocks it.

    The vehicle stops on its path before a new flight begins. Returns once the flight has ended.

    Args:
        bridge: the bridge.
        query: where to.
        report: gets a line for each flight and stop.

    Raises:
        ConfigError: there is no flight, or OMPL is missing. RestError: the bridge refuses, or has
            gone.
    """
    view = bridge.get(MapView, path_of("maps", query.map_name))
    return _Pursuit(BridgeFlight(bridge, query.actor), query, view, report).run()


class _Pursuit:
    """Flights to one goal, one after the other."""

    def __init__(
        self,
        flight: BridgeFlight,
        query: BridgeQuery,
        view: MapView,
        report: Callable[[str], object],
    ) -> None:
        self._flight = flight
        self._query = query
        self._view = view
        self._world = LiveWorld(view.resolution_m)
        self._report = report
        self._curve: Trajectory
        self._planner: FlightPlanner
        self._begins_ns = 0

    def run(self) -> FlightOut:
        """Fly until the goal is reached, or the flight ends otherwise."""
        with self._reader() as reader:
            self._world.apply(reader.next(_FIRST_S))
        self._go(*self._flight.place())
        while True:
            # Again after each search, in which messages were not read.
            with self._reader() as reader:
                now, blocked = self._watch(reader)
            if not blocked:
                return now
            self._go(*self._stopped(now))

    def _reader(self) -> MapReader:
        bridge = self._flight.bridge
        url = "ws" + bridge.url.removeprefix("http") + path_of("maps", self._query.map_name, "live")
        return MapReader(url, bridge.headers, bridge.tls, bridge.timeout_s)

    def _watch(self, reader: MapReader) -> tuple[FlightOut, bool]:
        """Return the flight once it has ended, or once the map blocks it, and whether it does."""
        while True:
            try:
                occupied = self._world.apply(reader.next(_LOOK_S))
            except TimeoutError:
                occupied = np.zeros((0, 3))
            now = self._flight.now()
            if now.begins_t_ns != self._begins_ns or now.state in ("cancelled", "failed"):
                return now, False
            if now.state == "done" or (now.state == "offered" and self._is_there()):
                return now, False
            at_s = blocked_s(self._curve, now.flown_s, occupied, self._planner.space)
            if at_s is not None:
                self._report(
                    f"the map blocks the flight in {at_s - now.flown_s:.1f} s: planning again"
                )
                return now, True

    def _is_there(self) -> bool:
        return float(np.linalg.norm(self._flight.place()[0] - self._query.goal_m)) < _ARRIVED_M

    def _stopped(self, now: FlightOut) -> tuple[FloatArray, float]:
        """Return where a vehicle comes to rest, and its heading.

        A simulated one is stopped there.
        """
        if now.state == "offered":
            return self._flight.place()
        yaw_rad = float(
            np.interp(now.flown_s, [row[0] for row in now.rows], [row[-1] for row in now.rows])
        )
        refusal: RequestRejected | None = None
        for lead_s in _LEADS_S:
            t_s = min(self._flight.now().flown_s + lead_s, self._curve.duration_s - 1e-3)
            stop = stop_along(self._curve, t_s, self._query.limits.acceleration_mps2)
            begins_ns = now.begins_t_ns + round(t_s * NS_PER_S)
            try:
                given = self._flight.give(flight_body(stop, yaw_rad, begins_ns))
            except RequestRejected as exc:  # the answer took longer than the lead
                refusal = exc
                continue
            self._begins_ns = given.begins_t_ns
            return stop.at(stop.duration_s).p_world_m[0], yaw_rad
        assert refusal is not None
        raise refusal

    def _go(self, start_m: FloatArray, yaw_rad: float) -> None:
        """Plan from a place of rest, and give the flight to the actor."""
        query = self._query
        low = np.array(self._view.min_m)
        high = np.array(self._view.max_m)
        self._planner = FlightPlanner(
            self._world.found,
            query.radius_m,
            low,
            high,
            query.limits,
            through_unknown=query.through_unknown,
        )
        ends = start_m, query.goal_m
        planned = plan_with(
            self._planner, self._world.found, *ends, query.view, seed=query.seed, yaw_rad=yaw_rad
        )
        if planned is None:
            raise ConfigError(
                "no free flight was found on the map: try another seed, or wait until it knows more"
            )
        curve = planned.trajectory
        yaw = yaw_rad if query.view is None else curve.at(row_times(curve)).yaw_rad
        given = self._flight.give(flight_body(curve, yaw, self._after_stop()))
        self._curve = curve
        self._begins_ns = given.begins_t_ns
        self._report(f"{given.state}: {_line(planned)}")

    def _after_stop(self) -> int | None:
        """Return when a flight may begin: at the end of a stop that is being flown; None = soon."""
        if not self._begins_ns:
            return None
        now = self._flight.now()
        left_s = now.duration_s - now.flown_s
        ends_ns = now.begins_t_ns + round(now.duration_s * NS_PER_S)
        return ends_ns if now.state == "flying" and left_s > _LEADS_S[0] else None


def _line(planned: PlannedFlight) -> str:
    length_m = float(np.linalg.norm(np.diff(planned.path_m, axis=0), axis=1).sum())
    return f"{planned.trajectory.duration_s:.2f} s, path {length_m:.2f} m"
