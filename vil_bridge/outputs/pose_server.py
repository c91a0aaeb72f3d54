"""Common parts of outputs that serve poses as a mocap system does.

All actors at one instant in each frame.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from vil_bridge.config.address import Ipv4
from vil_bridge.config.base import OutputConfigBase, custom
from vil_bridge.config.bind_address import require_guard
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, TrackingState
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.runtime.supervisor import Status

_IDLE_NS: Final = 100 * NS_PER_MS


class PoseServerConfig(OutputConfigBase):
    """Keys of both servers of poses."""

    actors: tuple[str, ...] = Field(
        default=(), description="Actors that it serves; none named = all."
    )
    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address to serve on.")
    insecure: bool = Field(
        default=False,
        description="Allow an address that the network can reach: the protocol knows no keys.",
    )
    up_axis: Literal["y", "z"] = Field(
        default="z", description="Up axis of what is sent; the world's is z."
    )
    rate_hz: float | None = Field(
        default=None,
        gt=0,
        le=1000.0,
        description="Frames per second at most; none = one for each new frame of poses.",
    )
    max_clients: int = Field(
        default=16, ge=1, le=256, description="Clients at once; further ones are refused."
    )

    @model_validator(mode="after")
    def _private_and_blind(self) -> Self:
        if self.cameras:
            raise custom(
                f"{self.type} sends poses. Remove `cameras`, and send the images by another output"
            )
        require_guard(self.bind, guarded=self.insecure)
        return self


class PoseFrame(NamedTuple):
    """All served actors at one instant, world axes.

    Attributes:
        t_ns: bridge time, that of the newest measured pose; it increases from frame to frame.
        p_m: shape (n, 3). q_xyzw: shape (n, 4). skeletons: of each actor, None of rigid ones.
        tracked: shape (n,); False = the pose is old, or predicted for too long.
    """

    t_ns: int
    p_m: FloatArray
    q_xyzw: FloatArray
    tracked: BoolArray
    skeletons: tuple[SkeletonFrame | None, ...]


class PoseFeed:
    """Calls ``send`` with a frame for each new frame of poses in the world, and ten times a second
    without one.

    Several frames of one turn of the event loop, or of one period, become one: the newest; others
    are counted as ``superseded``.

    Attributes:
        names: of the actors, in the order of the frames. rows: of these in the world's snapshots.
    """

    def __init__(
        self,
        world: WorldView,
        actors: Sequence[str],
        send: Callable[[PoseFrame], None],
        status: Status,
        rate_hz: float | None,
    ) -> None:
        names = world.snapshot(now_ns()).table.names
        self.names: Final = tuple(actors) or names
        self.rows: Final = np.array([names.index(name) for name in self.names], np.intp)
        self._world = world
        self._send = send
        self._status = status
        self._rate_hz = rate_hz
        self._newest_ns = self._sent_ns = self._sent_at_ns = now_ns()
        self._due = False

    async def run(self) -> None:
        """Send until cancelled."""
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()

        def announce(t_ns: int) -> None:
            self._status.counters["superseded"] += self._newest_ns > self._sent_ns
            self._newest_ns = max(self._newest_ns, t_ns)
            if self._rate_hz is None and not self._due:
                self._due = True
                loop.call_soon(self._send_newest, context=context)

        period_ns = _IDLE_NS // 2 if self._rate_hz is None else round(NS_PER_S / self._rate_hz)
        ticker = Ticker(period_ns, lambda _due_ns, _missed: self._on_tick())
        end = self._world.watch(announce)
        ticker.start()
        try:
            await loop.create_future()
        finally:
            ticker.stop()
            end()

    def _on_tick(self) -> None:
        """Send what is new; while nothing is, report now and then who is lost."""
        t_ns = now_ns()
        if self._rate_hz is not None:
            self._send_newest()
        if t_ns - self._sent_at_ns >= _IDLE_NS:
            self._newest_ns = max(self._newest_ns, t_ns)
            self._send_newest()

    def _send_newest(self) -> None:
        self._due = False
        if self._newest_ns <= self._sent_ns:
            return
        self._sent_ns = self._newest_ns
        self._sent_at_ns = now_ns()
        snapshot = self._world.snapshot(self._newest_ns)
        assert snapshot.poses is not None
        poses = snapshot.poses[self.rows]
        tracked = np.array([state is TrackingState.TRACKED for state in snapshot.states], np.bool_)
        skeletons = tuple([snapshot.skeletons[row] for row in self.rows])
        self._send(
            PoseFrame(snapshot.t_ns, poses[:, :3], poses[:, 3:], tracked[self.rows], skeletons)
        )


def cannot_serve(what: str, address: str, error: OSError) -> SinkError:
    """Return the error of an output whose address cannot be had."""
    return SinkError(
        f"cannot serve {what} at {address}: {error.strerror or error}."
        " Give the output another port or address, or end the program that has this one"
    )
