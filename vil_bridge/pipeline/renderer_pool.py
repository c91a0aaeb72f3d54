"""All renderers together.

Their schedulers and threads, what they do, and the renderer of each camera now.

One thread per renderer connection receives. A camera that has its renderer for itself is relayed in
that thread too; any other camera has a thread of its own, so that a slow one delays no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, machine_ns, now_ns
from vil_bridge.interfaces.ports import RendererClient
from vil_bridge.pipeline.assignment import Assigner, RendererPreference
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.camera_relay import CameraRelay
from vil_bridge.pipeline.poll_thread import POLL_MS, PollThread
from vil_bridge.pipeline.renderer_load import RendererLoad
from vil_bridge.pipeline.scheduler import Scheduler
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world.world import World

_CHECK_NS: Final = 100 * NS_PER_MS
_STOP_NS: Final = NS_PER_S


class RendererPool:
    """Draws cameras with several renderers.

    Args:
        clients: connections by name. It does not close them.
        relays: by camera.
        preferences: by camera, the renderers that may draw it, all of them among ``clients``.
        waits: bridge time stands while a picture is overdue (simulations only).

    Attributes:
        renderers: connections to them, by name.
        assigner: assigns cameras to renderers.
        loads: what each renderer does.
    """

    def __init__(
        self,
        clients: Mapping[str, RendererClient],
        relays: Mapping[str, CameraRelay],
        preferences: Mapping[str, RendererPreference],
        world: World,
        *,
        waits: bool,
    ) -> None:
        self._waits = waits
        self.renderers = dict(clients)
        self._relays = dict(relays)
        self._preferences = dict(preferences)
        self.assigner = Assigner(preferences)
        self.loads = {name: RendererLoad() for name in clients}
        self._schedulers: list[Scheduler] = []
        self._threads: list[PollThread] = []
        fed_by: dict[str, list[CameraRelay]] = {}
        for name in clients:
            fed = [relay for c, relay in relays.items() if name in preferences[c].renderers]
            fed_by[name] = fed
        alone = {
            name: fed[0]
            for name, fed in fed_by.items()
            if len(fed) == 1 and preferences[fed[0].camera.name].renderers == (name,)
        }
        for name, fed in fed_by.items():
            if fed:
                self._connect(clients[name], fed, alone.get(name), world)
        self._threads += [
            PollThread(f"relay-{name}", [relay.fileno()], relay.step)
            for name, relay in relays.items()
            if relay not in alone.values()
        ]
        self._ticker = Ticker(_CHECK_NS, lambda _due, _missed: self._assign())

    def start(self) -> None:
        """Begin receiving, asking and assigning, in the running loop."""
        for thread in self._threads:
            thread.start()
        for scheduler in self._schedulers:
            scheduler.start()
        self._ticker.start()

    def stop(self) -> None:
        """No request goes out and no relay works after this; takes at most 1 s."""
        self._ticker.stop()
        for scheduler in self._schedulers:
            scheduler.stop()
        for thread in self._threads:
            thread.ask_to_stop()
        for relay in self._relays.values():
            relay.wake()
        deadline_ns = machine_ns() + _STOP_NS
        for thread in self._threads:
            thread.join(deadline_ns)

    @property
    def failed(self) -> BaseException | None:
        """Exception that ended a thread, which is a bug."""
        return next((thread.failed for thread in self._threads if thread.failed is not None), None)

    def busy_s(self) -> dict[str, float]:
        """Of each thread, how long it has been at what it does now."""
        return {thread.name: thread.busy_s for thread in self._threads}

    def skipped(self, camera: str) -> Counter[str]:
        """Ticks of a camera without a request, by reason."""
        total: Counter[str] = Counter()
        for scheduler in self._schedulers:
            total.update(
                {
                    reason: count
                    for (name, reason), count in dict(scheduler.skipped).items()
                    if name == camera
                }
            )
        return total

    def waits_for(self, camera: str) -> tuple[str, ...]:
        """Return a camera's candidates while none of them works; empty while one does."""
        renderers = self._preferences[camera].renderers
        if any(map(self._works, renderers)):
            return ()
        return renderers

    def needs(self, renderer: str) -> bool:
        """Return True when a camera is with this renderer now, or when no camera may ever be."""
        may_draw = any(
            renderer in preference.renderers for preference in self._preferences.values()
        )
        return not may_draw or bool(self.assigner.cameras_of(renderer))

    def _connect(
        self,
        client: RendererClient,
        fed: Sequence[CameraRelay],
        alone: CameraRelay | None,
        world: World,
    ) -> None:
        """Make scheduler and receiving thread of a connection.

        The latter relays the camera that is alone with it.
        """
        name = client.name
        cameras = [relay.camera for relay in fed]
        scheduler = Scheduler(
            client, cameras, world, partial(self._draws, name), self._blank, waits=self._waits
        )
        self._schedulers.append(scheduler)
        fds = [client.fileno()]
        if alone is not None:
            fds.append(alone.fileno())
        work = partial(_receive, client, scheduler, fed, self.loads[name], alone)
        self._threads.append(PollThread(f"link-{name}", fds, work))

    def _draws(self, renderer: str, camera: str) -> bool:
        return self.assigner.place_of(camera).renderer == renderer

    def _works(self, renderer: str) -> bool:
        return self.renderers[renderer].status.state is ComponentState.RUNNING

    def _assign(self) -> None:
        now = now_ns()
        working = {name for name in self.renderers if self._works(name)}
        self.assigner.update(
            now, working, lambda camera, renderer: self.loads[renderer].picture_ns(camera, now)
        )

    def _blank(self, camera: BridgeCamera, t_ns: int) -> None:
        self._relays[camera.name].offer_blank(t_ns)


def _receive(
    client: RendererClient,
    scheduler: Scheduler,
    relays: Sequence[CameraRelay],
    load: RendererLoad,
    alone: CameraRelay | None,
) -> int:
    """Return the function that a connection's thread calls when it wakes."""
    while (frame := client.receive()) is not None:
        load.add(frame)
        for relay in relays:
            relay.offer(frame)
        scheduler.on_answer()
    return POLL_MS if alone is None else alone.step()
