"""Publishes this bridge's actors to bridges in other rooms.

One message per frame of a source, as soon as the world has it: the newest measured poses, not
predictions, since the other bridge predicts them itself. Where a source falls silent, its actors
are still sent five times a second, in the state that they then have.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from vil_bridge.bodies.skeleton import place_of
from vil_bridge.core.clock import NS_PER_MS, Ticker, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    SkeletonFrame,
    SkeletonModel,
    SourceEvent,
    SourceFrame,
    TrackingState,
)
from vil_bridge.interfaces.bulkhead import Bulkhead
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    ActorPose,
    Description,
    FrameMessage,
    Responder,
    encode_frame,
    records_of,
)
from vil_bridge.protocols.federation.zmq_link import PublisherLink
from vil_bridge.runtime.supervisor import Status, supervise

_TICK_NS: Final = 200 * NS_PER_MS
_NOWHERE: Final = Transform.identity()


class PublishedWorld(Protocol):
    """View of the world that the publisher needs."""

    def newest(self, actor: str) -> tuple[Transform, int, int] | None:
        """Newest tracked pose of a rigid actor, its capture and its arrival time."""
        ...

    def newest_skeleton(self, actor: str) -> tuple[SkeletonFrame, int] | None:
        """Newest tracked frame of a human, and its capture time."""
        ...

    def state_of(self, actor: str) -> TrackingState:
        """Tracking state now."""
        ...


@dataclass(frozen=True, slots=True)
class PublishedActor:
    """An actor with the source that tracks it."""

    info: ActorInfo
    source: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """An actor's newest measured pose; ``t_ns`` -1 = never."""

    t_ns: int
    pose: Transform
    skeleton: SkeletonFrame | None


class Publisher:
    """Sends frames over any number of links and answers their questions.

    Args:
        site: name of this bridge among the others.
        actors: those that are published: own ones, never what came from another bridge.
        world: where their poses are.
        clock: bridge time, for answers in threads that know of no bridge.

    Attributes:
        status: says why nothing is sent while that is so.
    """

    def __init__(
        self,
        site: str,
        actors: Sequence[PublishedActor],
        world: PublishedWorld,
        clock: Callable[[], int] = now_ns,
    ) -> None:
        self.links: list[PublisherLink] = []
        self.status = Status("publish")
        self._world = world
        description = Description(site, 0, tuple(a.info for a in actors))
        self._responder = Responder(1 + secrets.randbits(63), description, clock)
        self._groups: dict[str, list[int]] = {}
        for index, actor in enumerate(actors):
            self._groups.setdefault(actor.source, []).append(index)
        self._sent_ns = dict.fromkeys(self._groups, 0)
        self._sequence = 0
        self._ticker = Ticker(_TICK_NS, lambda _due_ns, _missed: self._boundary.call(self._on_tick))
        self._boundary = Bulkhead("publish")

    @property
    def site(self) -> str:
        """Name of this bridge among the others."""
        return self._responder.description.site

    def answer(self, request: bytes) -> bytes | None:
        """For the links: the answer to a request. Any thread. Raises ProtocolError."""
        return self._responder.answer(request)

    def start(self) -> None:
        """Open the links and begin.

        Raises:
            SinkError: an address cannot be had.
        """
        self._boundary.owned(self._start)

    def _start(self) -> None:
        for link in self.links:
            link.open()
        self._ticker.start()

    async def run(self) -> None:
        """Publish until cancelled, after :meth:`start`.

        A bug silences it for the back-off and ends nothing else.
        """

        async def publish(status: Status) -> None:
            status.running()
            await self._boundary.run(_for_ever)

        await supervise(publish, self.status)

    def stop(self) -> None:
        """End and release all addresses; may be called twice."""
        self._ticker.stop()
        for link in self.links:
            link.close()

    def report(self) -> dict[str, Any]:
        """Return address, subscribers, frames by outcome, and why nothing is sent. Any thread."""
        counters: Counter[str] = Counter()
        for link in self.links:
            counters.update(dict(link.counters))  # a copy first: the loop goes on counting
        status = self.status.report()
        return {
            "site": self.site,
            "state": str(status.state),
            "reason": status.reason,
            "endpoints": [link.endpoint for link in self.links],
            "subscribers": sum(link.subscribers for link in self.links),
            "counters": dict(counters),
        }

    def on_event(self, event: SourceEvent) -> None:
        """Publish behind a frame that has reached the world."""
        if isinstance(event, SourceFrame):
            self.on_frame(event.source)

    def on_frame(self, source: str) -> None:
        """Send the published actors of a source whose frame has reached the world."""
        if source in self._groups:
            self._boundary.call(self._publish, source, now_ns())

    def _on_tick(self) -> None:
        for link in self.links:
            link.housekeep()
        t_ns = now_ns()
        for source, sent_ns in self._sent_ns.items():
            if t_ns - sent_ns >= _TICK_NS:
                self._publish(source, t_ns)

    def _publish(self, source: str, t_ns: int) -> None:
        self._sent_ns[source] = t_ns
        listening = [link for link in self.links if link.subscribers]
        if not listening:
            return
        indices = self._groups[source]
        infos = self._responder.description.actors
        seen = [self._seen(infos[i]) for i in indices]
        newest_ns = max(s.t_ns for s in seen)
        poses = []
        for index, found in zip(indices, seen, strict=True):
            state = self._world.state_of(infos[index].name)
            if state is TrackingState.TRACKED and found.t_ns != newest_ns:
                state = TrackingState.COASTING  # of an earlier instant than the frame's
            poses.append(ActorPose(index, state, found.pose.p_m, found.pose.q_xyzw, found.skeleton))
            self._describe(index, found.skeleton)
        tracked = any(pose.state is TrackingState.TRACKED for pose in poses)
        self._sequence += 1
        responder = self._responder
        frame = FrameMessage(
            responder.run,
            self._sequence,
            responder.description.revision,
            newest_ns if tracked else t_ns,
            t_ns,
            *records_of(poses),
        )
        message = encode_frame(frame)
        for link in listening:
            link.publish(message)

    def _seen(self, info: ActorInfo) -> _Seen:
        if info.kind is ActorKind.HUMAN:
            human = self._world.newest_skeleton(info.name)
            if human is None:
                return _Seen(-1, _NOWHERE, None)
            skeleton, t_ns = human
            return _Seen(t_ns, place_of(skeleton), skeleton)
        body = self._world.newest(info.name)
        return _Seen(-1, _NOWHERE, None) if body is None else _Seen(body[1], body[0], None)

    def _describe(self, index: int, skeleton: SkeletonFrame | None) -> None:
        """Describe a skeleton that is new or has changed."""
        description = self._responder.description
        info = description.actors[index]
        if skeleton is None or _same(info.skeleton, skeleton.model):
            return
        actors = list(description.actors)
        actors[index] = replace(info, skeleton=skeleton.model)
        self._responder.description = Description(
            description.site, description.revision + 1, tuple(actors)
        )


async def _for_ever() -> None:
    await asyncio.Event().wait()


def _same(a: SkeletonModel | None, b: SkeletonModel) -> bool:
    return a is b or (
        a is not None
        and (a.bones, a.parents, a.scale) == (b.bones, b.parents, b.scale)
        and np.array_equal(a.offsets_m, b.offsets_m)
    )
