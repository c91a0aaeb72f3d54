"""Planned flights as a service of a running bridge."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.planned_path import PlannedPath
from vil_bridge.interfaces.setpoints import PositionSetpoint, ReferenceSetpoint, Vector
from vil_bridge.interfaces.trajectory import Polynomials, Reference, hermite, padded
from vil_bridge.runtime.supervisor import Status
from vil_bridge.services.service import Service, ServiceHost
from vil_bridge.web.schemas.flights import FlightOut

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["FlightService"]

_PERIOD_NS: Final = 20_000_000
_AHEAD_NS: Final = 100_000_000
"""Set-points are given so early, each with the instant at which it holds.

Their way to the vehicle costs nothing.
"""
_NEAR_M: Final = 0.5
"""A vehicle is this near to the point at which its flight begins."""
_MOST_WAITING: Final = 8
_LATEST_NS: Final = 60 * NS_PER_S
_LARGEST: Final = 1e5


@dataclass(frozen=True, slots=True)
class _Given:
    """A flight of an actor.

    Attributes:
        before: the one that it flies until this one begins. holds_ns: when a cancelled one's
            vehicle is to stay.
        sent_ns: instant of the newest set-point.
    """

    rows: Sequence[Sequence[float]]
    curve: Polynomials
    begins_ns: int
    state: Literal["flying", "done", "cancelled", "failed", "offered"]
    reason: str = ""
    before: _Given | None = None
    holds_ns: int | None = None
    sent_ns: int = 0

    def at(self, t_ns: int) -> _Given:
        """Return the flight that is flown at an instant: this one, or one before."""
        if t_ns >= self.begins_ns or self.before is None:
            return self
        return self.before.at(t_ns)

    def without_past(self, t_ns: int) -> _Given:
        """Return this flight without those that end before an instant."""
        if self.before is None or t_ns >= self.begins_ns:
            return replace(self, before=None)
        return replace(self, before=self.before.without_past(t_ns))

    @property
    def waiting(self) -> int:
        """Return how many flights come before this one."""
        if self.before is None:
            return 0
        return 1 + self.before.waiting

    def reference(self, t_ns: int) -> Reference:
        """Return where this flight is at an instant: at rest in its end after that."""
        return self.curve.at((t_ns - self.begins_ns) / NS_PER_S)


class FlightService(Service):
    """Flights by actor, in the world's frame; the newest takes the place of the one before.

    Any thread.

    A simulated vehicle follows its flight in bridge time. A real one is never commanded: its flight
    stays ``offered``.
    """

    def __init__(self, _section: None, host: ServiceHost) -> None:
        self._world = host.world
        self._setpoints = host.setpoints
        self._given: dict[str, _Given] = {}
        self._lock = threading.Lock()
        host.outputs.offer_paths(self.paths)

    def give(self, actor: str, rows: Sequence[Sequence[float]], begins_ns: int | None) -> None:
        """Let an actor's simulated vehicle fly, or offer the flight to the pilot of a real one.

        Raises:
            KeyError: there is no such actor.
            ValueRefused: the rows are no trajectory.
            ValueError: the vehicle is not where the flight begins, or it begins too late, or too
                early for one that is flying.
        """
        if actor not in {one.name for one in self._world.actors}:
            raise KeyError(actor)
        curve = curve_of(rows)
        t_ns = now_ns()
        if begins_ns is None:
            begins_ns = t_ns + 2 * _AHEAD_NS
        if not t_ns - _LATEST_NS <= begins_ns <= t_ns + _LATEST_NS:
            raise ValueError("a flight begins within a minute from now: give another t_ns")
        simulated = self._setpoints.is_simulated(actor)
        with self._lock:
            before = self._given.get(actor)
            flying: _Given | None = None
            sent_ns = 0
            if before is not None and before.state == "flying":
                flying = before
                sent_ns = before.sent_ns
            if begins_ns < sent_ns:
                raise ValueError(
                    f"{actor} is flying: let the next flight begin "
                    f"{_AHEAD_NS / NS_PER_S:g} s from now"
                )
            if flying is not None:
                flying = flying.at(begins_ns).without_past(sent_ns)
                if flying.waiting >= _MOST_WAITING:
                    raise ValueError(
                        f"{actor} has {_MOST_WAITING} flights to come: wait for one, or cancel them"
                    )
                _check_near(
                    actor, flying.reference(begins_ns).p_world_m[0], curve.at(0.0).p_world_m[0]
                )
            elif simulated:
                _check_near(
                    actor, self._place(actor), curve.at((t_ns - begins_ns) / NS_PER_S).p_world_m[0]
                )
            holds_ns: int | None = None
            if before is not None and (before.holds_ns or 0) <= begins_ns:
                holds_ns = before.holds_ns
            state: Literal["flying", "offered"] = "flying" if simulated else "offered"
            self._given[actor] = _Given(
                rows, curve, begins_ns, state, "", flying, holds_ns, sent_ns
            )

    def cancel(self, actor: str) -> None:
        """End an actor's flight: its simulated vehicle holds its position.

        Raises KeyError: it has none.
        """
        with self._lock:
            given = self._given[actor]
            if given.state not in ("flying", "offered"):
                return
            holds_ns: int | None = None
            if given.state == "flying":
                holds_ns = now_ns() + _AHEAD_NS
            self._given[actor] = replace(given, state="cancelled", before=None, holds_ns=holds_ns)

    def flights(self) -> Mapping[str, FlightOut]:
        """Return the newest flight of each actor that has one."""
        t_ns = now_ns()
        return {actor: _shown(given, t_ns) for actor, given in tuple(self._given.items())}

    def paths(self) -> Mapping[str, PlannedPath]:
        """Return the flights that are flown or offered now, by actor."""
        found = {}
        for actor, given in tuple(self._given.items()):
            if given.state in ("flying", "offered"):
                rows = np.array(given.rows)
                found[actor] = PlannedPath(given.begins_ns, rows[:, 0], rows[:, 1:4], rows[:, -1])
        return found

    def routes(self) -> Sequence[APIRouter]:
        """Return the routes that read, give and end flights."""
        from vil_bridge.services.flights.routes import flight_router

        return (flight_router(self),)

    async def run(self, status: Status) -> None:
        """Give set-points until cancelled."""
        status.running()
        while True:
            self.step(now_ns())
            await asyncio.sleep(_PERIOD_NS / NS_PER_S)

    def step(self, t_ns: int) -> None:
        """Give the set-points that are due at an instant."""
        with self._lock:
            for actor, given in self._given.items():
                try:
                    if given.holds_ns is not None and t_ns >= given.holds_ns:
                        self._given[actor] = replace(given, holds_ns=None)
                        self._hold(actor)
                    elif given.state == "flying":
                        self._given[actor] = self._flown(actor, given, t_ns)
                except ValueError as exc:
                    self._given[actor] = replace(
                        given, state="failed", reason=str(exc), holds_ns=None
                    )

    def _flown(self, actor: str, given: _Given, t_ns: int) -> _Given:
        """Return a flight after its set-points up to a little ahead were given.

        Raises:
            ValueError: one was refused.
        """
        ends_ns = given.begins_ns + round(given.curve.duration_s * NS_PER_S)
        if t_ns >= ends_ns + _AHEAD_NS:  # every set-point has been taken
            end = given.curve.at(given.curve.duration_s)
            self._setpoints.fly(
                actor, PositionSetpoint(_vector(end.p_world_m), float(end.yaw_rad[0]))
            )
            return replace(given, state="done", before=None)
        due_ns = max(given.sent_ns + _PERIOD_NS, t_ns)
        while due_ns <= t_ns + _AHEAD_NS:
            now = given.at(due_ns)
            if due_ns >= now.begins_ns:
                self._setpoints.fly(actor, _setpoint(now.reference(due_ns), due_ns))
            given = replace(given, sent_ns=due_ns)
            due_ns += _PERIOD_NS
        return given

    def _hold(self, actor: str) -> None:
        """Let a vehicle stay where it is. Raises ValueError: it was refused."""
        newest = self._world.newest(actor)
        if newest is not None:
            yaw_rad = float(q_to_euler_zyx(newest[0].q_xyzw)[0])
            self._setpoints.fly(actor, PositionSetpoint(_vector(newest[0].p_m[None]), yaw_rad))

    def _place(self, actor: str) -> FloatArray:
        """Return where an actor is, (3,). Raises ValueError: it is not tracked."""
        newest = self._world.newest(actor)
        if newest is None:
            raise ValueError(f"{actor} is not tracked now: wait until it is")
        return newest[0].p_m


def _check_near(actor: str, place_m: FloatArray, begin_m: FloatArray) -> None:
    """Check that an actor is, or will be, where its flight begins. Raises ValueError: it is not."""
    away_m = float(np.linalg.norm(place_m - begin_m))
    if away_m > _NEAR_M:
        raise ValueError(
            f"{actor} is {away_m:.2f} m from the begin of the flight: plan it from where it is"
        )


def curve_of(rows: Sequence[Sequence[float]]) -> Polynomials:
    """Return the trajectory through rows of :data:`~vil_bridge.web.schemas.flights.COLUMNS`.

    Raises:
        ValueRefused: the times do not begin with 0 or do not increase, or a number is absurd.
    """
    values: FloatArray = np.array(rows, np.float64)
    lengths_s = np.diff(values[:, 0])
    if values[0, 0] != 0.0 or not (lengths_s > 1e-3).all():
        raise ValueRefused(
            "rows: the times must begin with 0 and increase by a millisecond at least"
        )
    if not (np.abs(values) < _LARGEST).all():
        raise ValueRefused(f"rows: every number must be less than {_LARGEST:g}")
    motion = values[:, 1:13].reshape(-1, 4, 3)
    path = hermite(motion[:-1], motion[1:], lengths_s)
    yaw = np.unwrap(values[:, 13])
    rates = np.gradient(yaw, values[:, 0]) if len(yaw) > 2 else np.zeros(len(yaw))
    turns = np.stack((yaw, rates), axis=1)[..., None]
    heading = hermite(turns[:-1], turns[1:], lengths_s)
    return Polynomials(values[:, 0], np.concatenate((path, padded(heading, path.shape[1])), axis=2))


def _setpoint(found: Reference, t_ns: int) -> ReferenceSetpoint:
    p, v, a, j, s = (_vector(derivative) for derivative in found[:5])
    return ReferenceSetpoint(
        p, v, a, j, s, float(found.yaw_rad[0]), float(found.yaw_radps[0]), t_ns
    )


def _vector(rows: FloatArray) -> Vector:
    x, y, z = rows[0].tolist()
    return x, y, z


def _shown(given: _Given, t_ns: int) -> FlightOut:
    duration_s = given.curve.duration_s
    flown_s = 0.0
    if given.state != "offered":
        flown_s = min(max((t_ns - given.begins_ns) / NS_PER_S, 0.0), duration_s)
    rows = [list(row) for row in given.rows]
    return FlightOut(given.state, given.reason, given.begins_ns, duration_s, flown_s, rows)
