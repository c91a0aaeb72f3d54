"""The bridge's end of the protocol: requests images of Flightmare or the embedded renderer.

A renderer that is new or was silent needs the settings several times before it accepts poses, and
reports once, over a lossy socket, that it is ready: the settings are repeated until ready or any
frame arrives. Then at most two poses are unanswered, each with its number; a frame with another
number is foreign.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.types import ActorKind, RenderedFrame, RenderRequest, View
from vil_renderer.connection import PendingRequest, RendererConnection
from vil_renderer.flightmare.codec import TOPIC, decode_answer, encode_scene
from vil_renderer.flightmare.config import FlightmareConfig
from vil_renderer.flightmare.convert import SceneSetup, SceneWriter, read_frame
from vil_renderer.flightmare.messages import Dialect, FlightmareHeader, ReadyMessage, SceneMessage

_SETTINGS_PERIOD_NS: Final = NS_PER_S // 50


class FlightmareClient(RendererConnection[SceneMessage]):
    """One Flightmare connection.

    Counters besides those of :class:`RendererConnection`: ``settings`` (sent), ``foreign`` (an
    unrequested frame: of a settings message, of another bridge, or late), ``restarts`` (back to the
    settings).
    """

    topic = TOPIC

    def __init__(self, name: str, config: FlightmareConfig) -> None:
        super().__init__(name, config, str(config.scene_id), ("settings", "foreign", "restarts"))
        self._config = config
        self._silence_ns = round(config.silence_s * NS_PER_S)
        self._writer = SceneWriter(
            Dialect(config.dialect),
            config.scene_id,
            {ActorKind.HUMAN: config.bone_prefab, ActorKind.PROP: config.prop_prefab},
            config.object_csv,
        )
        self._ours = False
        self._setup: SceneSetup | None = None
        self._settings: list[bytes] = []
        self._t_settings_from_ns = 0

    # --- the loop's side -----------------------------------------------------------------------

    def _may_send(self, now: int) -> bool:
        self._check_timeouts(now)
        if self._opening:
            return now >= self._t_settings_from_ns and now - self._t_sent_ns >= _SETTINGS_PERIOD_NS
        return len(self._in_flight) < self._config.max_in_flight

    def _ask(self, request: RenderRequest) -> None:
        """Send a pose, or the settings while the renderer is not open."""
        setup = self._writer.setup_of(request)
        if setup != self._setup:
            self._change_setup(setup)
        asked = PendingRequest(request, self._writer.message(setup, request, request.frame_id))
        if self._opening:
            self._send_settings(asked)
        else:
            self._send(asked, request.frame_id)
        if self._writer.without_prefab:
            self.status.facts["without_prefab"] = sorted(self._writer.without_prefab)

    def _repeat(self, asked: PendingRequest[SceneMessage]) -> None:
        if self._opening:
            self._send_settings(asked)
        else:
            super()._repeat(asked)

    def _picture_bytes(self, view: View) -> int:
        return 4 * view.camera.width_px * view.camera.height_px

    def _encode(self, message: SceneMessage, number: int) -> list[bytes]:
        key = "frame_id" if message.frame_id is not UNSET else "ntime"
        return encode_scene(msgspec.structs.replace(message, **{key: number}))

    def _change_setup(self, setup: SceneSetup) -> None:
        """Restart for other cameras or vehicles; an original renderer restarts after a silence."""
        with self._lock:
            in_use = bool(self._settings and self._topics)
            self._reopen("unanswered")
            self._setup = setup
            if in_use and not self._ours:
                self._t_settings_from_ns = machine_ns() + self._silence_ns + self._silence_ns // 4

    def _send_settings(self, asked: PendingRequest[SceneMessage]) -> None:
        """Say what the scene is made of, always in the same words until the renderer is open."""
        with self._lock:
            self._repeat_from_now(asked)
        if not self._settings:
            assert self._setup is not None
            settings = encode_scene(self._writer.message(self._setup, asked.request))
            with self._lock:
                self._settings = settings
        now = machine_ns()
        if now < self._t_settings_from_ns:
            return
        with self._lock:
            self._t_sent_ns = now
            self.status.counters["settings"] += 1
        self._sockets.send(self._settings)

    # --- below: with self._lock held -----------------------------------------------------------

    def _reopen(self, lost: str) -> None:
        self.status.counters["restarts"] += not self._opening
        self._settings = []
        self._t_settings_from_ns = 0
        super()._reopen(lost)

    def _check_timeouts(self, now: int) -> None:
        """Give up what was not answered in time.

        After a longer silence the renderer has started over.
        """
        if self._opening:
            return
        if now - self._t_heard_ns > self._silence_ns:
            self._reopen("unanswered")
        elif self._overdue(now):
            self._give_up("unanswered")
            self.status.waiting(
                self._too_slow
                or f"the renderer has answered no pose for {self._config.answer_timeout_s:g} "
                "s: it is busy, stopped, "
                f"or cut off; after {self._config.silence_s:g} s the settings are sent again"
            )

    def _why_nothing_comes(self) -> str:
        reasons = ["it loads its scene", f"its frames do not reach port {self.image_port}"]
        if self._config.dialect == "2022":
            reasons.append(
                f"it cannot open object_csv = {self._config.object_csv!r} on its own host"
            )
        return (
            "a renderer is connected and gets the settings, but nothing has come back yet: "
            f"{', '.join(reasons[:-1])}, or {reasons[-1]}"
        )

    def _how_to_start(self) -> str:
        ports = f"-input-port {self.pose_port} -output-port {self.image_port}"
        return (
            "`vil-bridge renderer --protocol flightmare "
            f"{ports.replace('-i', '--i').replace('-o', '--o')}` or "
            f"Flightmare's program with -client-ip <this host> {ports}"
        )

    # --- the relay thread's side ---------------------------------------------------------------

    def _handle(self, parts: list[memoryview], t_image_ns: int) -> RenderedFrame | None:
        answer, pictures = decode_answer(parts)
        if isinstance(answer, FlightmareHeader):
            asked = self._accept(answer, t_image_ns)
            if asked is None:
                return None
            frame, problems = read_frame(
                answer, pictures, asked.message.vehicles, asked.request, t_image_ns
            )
            self._judge(frame, problems)
            return frame
        if isinstance(answer, ReadyMessage) and answer.ready:
            with self._lock:
                self._connected(t_image_ns)
        return None

    def _accept(
        self, header: FlightmareHeader, t_image_ns: int
    ) -> PendingRequest[SceneMessage] | None:
        counters = self.status.counters
        with self._lock:
            self._connected(t_image_ns)
            if header.stamp not in self._in_flight:
                counters["foreign"] += 1
                return None
            asked = self._settle(header.stamp)
            self._ours = header.vil is not UNSET
            self.status.facts["renderer"] = (
                "original" if header.vil is UNSET else header.vil.renderer
            )
            if header.vil is not UNSET and header.vil.refused:
                self.status.facts["renderer_refused"] = header.vil.refused
            else:
                self.status.facts.pop("renderer_refused", None)
            if asked.answered:
                self._works()
                return None
            asked.answered = True
            counters["answered"] += 1
        return asked

    def _connected(self, t_image_ns: int) -> None:
        """Record that the renderer is ready: it said so or sent a frame; with self._lock held."""
        if self._opening:
            if not self._settings or t_image_ns < self._t_settings_from_ns:
                return
            self._opening = False
            self._seen_picture = False
            self.status.facts["dialect"] = self._config.dialect
            self.status.facts.setdefault("connected_since_ns", t_image_ns)
            self.status.facts.pop("left_out", None)
        self._t_heard_ns = machine_ns()
