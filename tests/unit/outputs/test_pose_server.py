"""Frames of served poses.

One instant each, measured where it was filmed, and flags of what is lost.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.events import until
from tests.support.filmed_room import PERSON, FilmedRoom
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.outputs.pose_server import PoseFeed, PoseFrame
from vil_bridge.outputs.vrpn.config import VrpnOutputConfig
from vil_bridge.runtime.supervisor import Status


class Fed:
    """A feed that runs, with all its frames."""

    def __init__(self, room: FilmedRoom, *actors: str, rate_hz: float | None = None) -> None:
        self.frames: list[PoseFrame] = []
        self.status = Status("fed")
        self.feed = PoseFeed(room.world, actors, self.frames.append, self.status, rate_hz)

    async def __aenter__(self) -> Fed:
        self._task = asyncio.create_task(self.feed.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def has_come(fed: Fed, t_ns: int) -> bool:
    return any(frame.t_ns == t_ns for frame in fed.frames)


async def test_each_new_frame_of_poses_is_sent_as_it_was_filmed() -> None:
    room = FilmedRoom(3)
    async with Fed(room) as fed:
        for _ in range(5):
            t_ns = room.film()
            await until(partial(has_come, fed, t_ns))
    for frame in fed.frames:
        if frame.t_ns in room.filmed:
            p_m, q_xyzw = room.filmed[frame.t_ns]
            np.testing.assert_allclose(frame.p_m, p_m, atol=1e-9)
            np.testing.assert_allclose(
                np.abs(np.sum(frame.q_xyzw * q_xyzw, axis=1)), 1.0, atol=1e-12
            )
            assert frame.tracked.all()
    assert all(a.t_ns < b.t_ns for a, b in pairwise(fed.frames))


async def test_actors_come_in_the_order_in_which_they_are_named() -> None:
    room = FilmedRoom(3, person=True)
    async with Fed(room, "cf2", PERSON, "cf0") as fed:
        t_ns = room.film()
        await until(lambda: any(frame.t_ns == t_ns for frame in fed.frames))
    frame = next(frame for frame in fed.frames if frame.t_ns == t_ns)
    np.testing.assert_allclose(frame.p_m[[0, 2]], room.filmed[t_ns][0][[2, 0]], atol=1e-9)
    assert [skeleton is not None for skeleton in frame.skeletons] == [False, True, False]


async def test_several_frames_of_one_turn_become_one() -> None:
    room = FilmedRoom(1)
    async with Fed(room) as fed:
        stamps = [room.film() for _ in range(4)]
        await until(lambda: any(frame.t_ns == stamps[-1] for frame in fed.frames))
    assert not {frame.t_ns for frame in fed.frames} & set(stamps[:-1])
    assert fed.status.counters["superseded"] == 3


async def test_an_older_capture_is_not_sent_and_takes_no_newer_ones_place() -> None:
    """Captures of 10, 20 and 30 ms.

    One of 25 ms comes alone, then 50 ms and 40 ms in one turn, then 50 ms again.
    """
    clock = BridgeTime()
    with clock.in_force():
        clock.stand_at(NS_PER_S)
        room = FilmedRoom(2)
        async with Fed(room) as fed:
            for turn in ((10,), (20,), (30,), (25,), (50, 40), (50,), (60,)):
                for t_ms in turn:
                    clock.stand_at(NS_PER_S + t_ms * NS_PER_MS)
                    room.film()
                for _ in range(3):
                    await asyncio.sleep(0)
    assert [(frame.t_ns - NS_PER_S) / NS_PER_MS for frame in fed.frames] == [10, 20, 30, 50, 60]
    for frame in fed.frames:
        np.testing.assert_allclose(frame.p_m, room.filmed[frame.t_ns][0], atol=1e-9)


async def test_a_lost_actor_is_flagged_and_silence_is_too() -> None:
    room = FilmedRoom(2)
    async with Fed(room) as fed:
        room.film()
        t_ns = room.film(lost=["cf1"])
        await until(lambda: any(frame.t_ns == t_ns for frame in fed.frames))
        flagged = next(frame for frame in fed.frames if frame.t_ns == t_ns)
        assert flagged.tracked.tolist() == [True, False]
        await until(lambda: not fed.frames[-1].tracked.any())  # nothing films any more
    assert fed.frames[-1].t_ns > t_ns


async def test_a_rate_limits_the_frames() -> None:
    room = FilmedRoom(1)
    async with Fed(room, rate_hz=50.0) as fed:
        begun_ns = now_ns()
        while now_ns() - begun_ns < 300_000_000:
            room.film()
            await asyncio.sleep(0.002)
        ended_ns = now_ns()
    assert 1 <= len(fed.frames) <= 2 + (ended_ns - begun_ns) * 50 / 1e9
    assert fed.status.counters["superseded"] > 0


@pytest.mark.parametrize(
    ("keys", "cure"),
    [
        ({"bind": "0.0.0.0"}, "add `insecure: true` on a private link"),
        ({"cameras": ("front",)}, "Remove `cameras`, and send the images by another output"),
        ({"bind": "localhost"}, "is not an IPv4 address. Write four numbers such as 192.168.1.10"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_cure(keys: dict[str, Any], cure: str) -> None:
    with pytest.raises(ValidationError, match=cure.replace(".", r"\.")):
        VrpnOutputConfig(**keys)
    assert VrpnOutputConfig(bind="0.0.0.0", insecure=True).actors == ()
