"""The bridge's end of the protocol: requests images of FlightGoggles or the embedded renderer.

A renderer that is *opening* gets poses slowly: it drops the first ones, and must not collect a
queue while it loads a scene.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from itertools import islice
from typing import ClassVar, Final

import msgspec
from msgspec import UNSET

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.types import ActorKind, RenderedFrame, RenderRequest, View
from vil_bridge.optics.pixel_formats import FORMAT_OF, RGB8
from vil_renderer.connection import PendingRequest, RendererConnection
from vil_renderer.flightgoggles.codec import TOPIC, WrittenPose, decode_header, encode_pose
from vil_renderer.flightgoggles.compiled_writer import pose_writer
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_renderer.flightgoggles.convert import read_answer
from vil_renderer.flightgoggles.handover import HandoverReader
from vil_renderer.flightgoggles.messages import ImageHeader, PoseMessage

logger = logging.getLogger(__name__)

_OPENING_PERIOD_NS: Final = NS_PER_S // 10
_OPENING_QUICK: Final = 10
"""Poses sent at the opening period; a renderer that has not answered them is still loading."""
_IN_FLIGHT_LIMIT: Final = 256
_HIDDEN_FACT: Final = "hidden_from_original_renderers"
_INFO_FACT: Final = "info"
_INFO_LIMIT: Final = 32


class FlightGogglesClient(RendererConnection[PoseMessage | WrittenPose]):
    """One FlightGoggles connection.

    Counters besides those of :class:`RendererConnection`: ``duplicates`` (an unrequested answer),
    ``swallowed`` (before the first answer).
    """

    topic = TOPIC
    lost_by_newcomers: ClassVar[str] = "swallowed"

    def __init__(self, name: str, config: FlightGogglesConfig) -> None:
        super().__init__(name, config, repr(config.scene), ("duplicates", "swallowed"))
        self._config = config
        self._writer = pose_writer(
            config.scene,
            {
                ActorKind.VEHICLE: config.vehicle_prefab,
                ActorKind.HUMAN: config.bone_prefab,
                ActorKind.PROP: config.prop_prefab,
            },
        )
        self._original = False
        self._opening_sent = 0
        self._handover = HandoverReader()
        self._handover_lock = threading.Lock()  # close() may come while receive() runs

    # --- the loop's side -----------------------------------------------------------------------

    def _may_send(self, now: int) -> bool:
        if not self._opening and self._overdue(now):
            self._reopen("unanswered")
        if self._opening:
            quick = self._opening_sent < _OPENING_QUICK
            return now - self._t_sent_ns >= (_OPENING_PERIOD_NS if quick else self._keep_alive_ns)
        return len(self._in_flight) < self._config.max_in_flight

    def _ask(self, request: RenderRequest) -> None:
        self._send(PendingRequest(request, self._writer.message(request)), request.frame_id)
        self._report_undrawn()

    def _picture_bytes(self, view: View) -> int:
        width_px = view.camera.width_px
        height_px = view.camera.height_px
        return max(
            RGB8.nbytes(width_px, height_px), FORMAT_OF[view.modality].nbytes(width_px, height_px)
        )

    def _encode(self, message: PoseMessage | WrittenPose, number: int) -> list[bytes]:
        if isinstance(message, WrittenPose):
            return encode_pose(WrittenPose(message.text, number, self._handover.nonce))
        numbered = msgspec.structs.replace(message, ntime=number, utime=number)
        if numbered.vil is not UNSET and self._handover.nonce:
            numbered.vil = msgspec.structs.replace(numbered.vil, ring=self._handover.nonce)
        return encode_pose(numbered)

    def _send(self, asked: PendingRequest[PoseMessage | WrittenPose], number: int) -> None:
        super()._send(asked, number)
        with self._lock:
            self._opening_sent += self._opening
            if len(self._in_flight) > _IN_FLIGHT_LIMIT:
                oldest, _ = self._in_flight.pop(next(iter(self._in_flight)))
                self._lose(oldest, "swallowed")

    def _report_undrawn(self) -> None:
        facts = self.status.facts
        if self._writer.without_prefab:
            facts["without_prefab"] = sorted(self._writer.without_prefab)
        hidden = sorted(self._writer.disputed)
        with self._lock:
            if not self._original or facts.get(_HIDDEN_FACT, []) == hidden:
                return
            facts[_HIDDEN_FACT] = hidden
        logger.warning(
            "%s: this renderer cannot hide %s from one camera and show it to another, so "
            "pictures that are asked for "
            "together with the one that hides it do not show it: give each such vehicle "
            "its own renderer connection",
            self.name,
            ", ".join(hidden),
        )

    # --- below: with self._lock held -----------------------------------------------------------

    def _reopen(self, lost: str) -> None:
        self._opening_sent = 0
        if not self._topics:
            self.status.facts.pop("pictures_by", None)
        super()._reopen(lost)

    def _why_nothing_comes(self) -> str:
        return (
            "a renderer is connected and has not answered: it loads its scene, is "
            "stopped or cut off, or its image "
            f"port is not {self.image_port}"
        )

    def _how_to_start(self) -> str:
        return (
            f"`vil-bridge renderer --input-port {self.pose_port} --output-port "
            f"{self.image_port}` or FlightGoggles "
            f"with -client-ip <this host> -input-port {self.pose_port} -output-port "
            f"{self.image_port}"
        )

    # --- the relay thread's side ---------------------------------------------------------------

    def receive(self) -> RenderedFrame | None:
        """Return the next answer, None when nothing is waiting."""
        frame = super().receive()
        if frame is None and not self._topics:
            self._release()
        return frame

    def close(self) -> None:
        """Release sockets and shared memory at once; may be called twice."""
        super().close()
        self._release()

    def _release(self) -> None:
        with self._handover_lock:
            self._handover.close()

    def _handle(self, parts: list[memoryview], t_image_ns: int) -> RenderedFrame | None:
        header = decode_header(parts[0])
        with self._handover_lock:
            if self._sockets.closed:
                return None
            pictures = self._handover.pictures(header, parts[1:])
        asked = self._accept(header, t_image_ns)
        if asked is None:
            return None
        frame, problems = read_answer(header, pictures, asked.request, t_image_ns)
        self._judge(frame, problems)
        return frame

    def _accept(
        self, header: ImageHeader, t_image_ns: int
    ) -> PendingRequest[PoseMessage | WrittenPose] | None:
        """Return the request if this is its first answer, else None."""
        counters = self.status.counters
        with self._lock:
            if header.stamp not in self._in_flight:
                counters["duplicates"] += 1
                return None
            asked = self._settle(header.stamp)
            self._t_heard_ns = machine_ns()
            if self._opening:
                self._connected(header, t_image_ns)
            if asked.answered:
                return None
            asked.answered = True
            counters["answered"] += 1
            self.status.facts["pictures_by"] = self._handover.transport
            if header.vil is not UNSET:
                self._record_info(header.vil.info)
        return asked

    def _connected(self, header: ImageHeader, t_image_ns: int) -> None:
        self._opening = False
        self._seen_picture = False
        facts = self.status.facts
        facts["api_version"] = header.apiVersion or "unknown"
        self._original = header.vil is UNSET
        facts["renderer"] = "original" if header.vil is UNSET else header.vil.renderer
        facts.setdefault("connected_since_ns", t_image_ns)
        facts.pop("left_out", None)
        if not self._original:
            facts.pop(_HIDDEN_FACT, None)
        self._works()

    def _record_info(self, info: Mapping[str, str | float | None]) -> None:
        """Record the renderer's information (lock held).

        A change of its quality profile is logged.
        """
        before = self.status.facts.get(_INFO_FACT, {})
        self.status.facts[_INFO_FACT] = dict(islice(info.items(), _INFO_LIMIT))
        profile = info.get("profile")
        wanted = info.get("profile_wanted")
        if profile is not None and profile != before.get("profile"):
            level = logging.INFO if profile == wanted else logging.WARNING
            logger.log(
                level, "%s: draws with profile %s, %s was asked for", self.name, profile, wanted
            )
