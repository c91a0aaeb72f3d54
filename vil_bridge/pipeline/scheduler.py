"""Camera ticks to render requests: even pacing, newest pose, a bounded number in flight."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.core.types import RenderRequest, View
from vil_bridge.interfaces.ports import RendererClient
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world.world import World


class Scheduler:
    """Asks one renderer for the pictures of its cameras.

    All cameras that a renderer may ever draw share one message, whose camera list never changes; a
    camera is *due* in its share of the messages, by its rate, and in none while another renderer
    draws it. A renderer that stands by gets requests without a due camera.

    Args:
        mine: True while this renderer draws the camera of that name.
        on_blank: asks for a black picture of a lost carrier's camera.
        waits: bridge time stands while a picture is due and the renderer is busy, or poses of that
            instant are still to come (simulations only).

    Attributes:
        skipped: ticks without a request by (camera, reason).
    """

    _KEEP_ALIVE_PERIOD_NS = NS_PER_S // 10

    def __init__(
        self,
        client: RendererClient,
        cameras: Sequence[BridgeCamera],
        world: World,
        mine: Callable[[str], bool],
        on_blank: Callable[[BridgeCamera, int], None],
        *,
        waits: bool = False,
    ) -> None:
        self._client = client
        self._cameras = tuple(cameras)
        self._world = world
        self._mine = mine
        self._on_blank = on_blank
        self._waits = waits
        self._overdue = False
        self._clock = bridge_clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unwatch: Callable[[], None] = lambda: None
        rate_hz = max(c.rate_hz for c in cameras)
        self._share = [c.rate_hz / rate_hz for c in cameras]
        self._due = [mine(camera.name) for camera in cameras]
        self._drawing = False
        self._tick = 0
        self._last_id = 0
        self.skipped: Counter[tuple[str, str]] = Counter()
        self._ticker = Ticker(round(NS_PER_S / rate_hz), self.tick)
        self._keep_alive = Ticker(
            self._KEEP_ALIVE_PERIOD_NS, lambda _due, _missed: self._check(), machine=True
        )

    def start(self) -> None:
        """Begin ticking in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._clock = bridge_clock()
        self._ticker.start()
        self._keep_alive.start()
        if self._waits:
            self._unwatch = self._world.watch(self._on_poses)

    def stop(self) -> None:
        """No request goes out after this."""
        self._ticker.stop()
        self._keep_alive.stop()
        self._clock.unbound(self)
        self._unwatch()

    def _on_poses(self, _t_ns: int) -> None:
        """Handle poses that time may stand for.

        They are in the world by the next turn of the loop.
        """
        if self._overdue and self._loop is not None:
            self._loop.call_soon(self._ask_again)

    def on_answer(self) -> None:
        """Handle an answer: the renderer may be free again; any thread."""
        if self._overdue and self._loop is not None:
            self._loop.call_soon_threadsafe(self._ask_again)

    def _ask_again(self) -> None:
        """Ask for what time stands for."""
        if self._overdue:
            self._ask(now_ns())

    def _check(self) -> None:
        self._client.keep_alive()
        self._ask_again()

    def _bound_time(self, *, overdue: bool) -> None:
        """Bridge time does not pass the next tick before it was seen, nor this one while its
        picture is overdue.

        A renderer that does not work delays no other.
        """
        working = self._working()
        self._overdue = overdue and working
        if not working:
            self._clock.unbound(self)
        elif overdue:
            self._clock.bound(self, now_ns())
        else:
            self._clock.bound(self, self._ticker.next_ns)

    def tick(self, due_ns: int, missed: int) -> None:
        """Ask for what is due at a tick, and for what waited.

        ``missed`` ticks passed unnoticed before it.
        """
        before = self._tick
        self._tick = self._tick + 1 + missed
        for i, camera in enumerate(self._cameras):
            if not self._mine(camera.name):
                self._due[i] = False
            elif pictures := int(self._tick * self._share[i]) - int(before * self._share[i]):
                if self._due[i]:
                    self.skipped[camera.name, "renderer_busy"] += 1
                if pictures > 1:
                    self.skipped[camera.name, "tick_missed"] += pictures - 1
                self._due[i] = True
                camera.ticks.append(due_ns)
        self._ask(due_ns)

    def _ask(self, due_ns: int) -> None:
        usable = [self._usable(i, due_ns) for i in range(len(self._cameras))]
        wanted = any(usable)
        may_ask = self._client.ready()
        t_ns = now_ns()
        if self._waits and not self._working():
            # Time passes until it works, and poses are behind it: for life only.
            usable = [False] * len(usable)
        elif self._waits:
            # A renderer that draws the newest of what waits skips the other: a world that waits
            # asks one by one.
            may_ask = may_ask and not self._client.in_flight and self._clock.is_reported(t_ns)
        if (wanted or self._asks_for_life()) and may_ask:
            self._client.request(self.build(t_ns, usable))
            self._drawing = any(usable)
            self._due = [
                waiting and not sent for waiting, sent in zip(self._due, usable, strict=True)
            ]
            wanted = False
        if self._waits:
            self._bound_time(overdue=wanted)

    def _asks_for_life(self) -> bool:
        """Return True when a request for no picture is worth sending.

        That is while the renderer could take over cameras if only it worked, and once when it lost
        its last camera, since the newest request is what keeps it alive from then on.
        """
        mine = [self._mine(camera.name) for camera in self._cameras]
        return (not self._working() and not all(mine)) or (self._drawing and not any(mine))

    def _working(self) -> bool:
        return self._client.status.state is ComponentState.RUNNING

    def _usable(self, index: int, due_ns: int) -> bool:
        camera = self._cameras[index]
        if not self._due[index]:
            return False
        if camera.usable(self._world):
            return True
        self._due[index] = False
        self.skipped[camera.name, "tracking_lost"] += 1
        if camera.on_loss == "blank":
            self._on_blank(camera, due_ns)
        return False

    def build(self, t_request_ns: int, due: Sequence[bool]) -> RenderRequest:
        """One request for the cameras marked due; the others keep their place in the list."""
        views = []
        t_scene_ns: int | None = None
        newest = None
        # A shared one is read once.
        delays_ns = {camera.delay: camera.delay.value_ns for camera in self._cameras}
        for camera, is_due in zip(self._cameras, due, strict=True):
            pose = camera.pose_to_render(self._world, t_request_ns, delays_ns[camera.delay])
            if is_due and t_scene_ns is None:
                t_scene_ns = pose.t_ns
                if not camera.fixed:
                    newest = self._world.newest(camera.actor)
            views += [
                View(
                    camera.geometry.rendered,
                    modality,
                    pose.T_world_camera,
                    pose.t_ns,
                    is_due,
                    camera.collision,
                    camera.hides,
                    pose.method,
                    camera.layer,
                    camera.reach_m,
                )
                for modality in camera.drawn
            ]
        if t_scene_ns is None:
            t_scene_ns = t_request_ns
        t_capture_ns: int | None = None
        t_arrival_ns: int | None = None
        if newest:
            t_capture_ns = newest[1]
            t_arrival_ns = newest[2]
        self._last_id = max(self._last_id + 1, t_request_ns)
        return RenderRequest(
            frame_id=self._last_id,
            t_request_ns=t_request_ns,
            views=tuple(views),
            snapshot=self._world.scene(t_scene_ns),
            t_capture_ns=t_capture_ns,
            t_arrival_ns=t_arrival_ns,
        )
