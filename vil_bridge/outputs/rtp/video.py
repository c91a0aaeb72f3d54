"""One camera's video: encodes, cuts into packets, sends them evenly, reports the clock."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_S, WallClock, machine_ns, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.outputs.base import kind_of
from vil_bridge.outputs.rtp.config import RtpConfig
from vil_bridge.outputs.rtp.encoder import i420, open_encoder
from vil_bridge.outputs.rtp.packets import HEADER_BYTES, payloads, rtp_packet, rtp_ticks
from vil_bridge.outputs.rtp.reports import receiver_reports, sender_report
from vil_bridge.outputs.rtp.sdp import describe
from vil_bridge.runtime.pacing import in_bursts
from vil_bridge.runtime.supervisor import Status

_REPORT_PERIOD_NS: Final = NS_PER_S
_MAX_REPORT_BYTES: Final = 1500
_READ_AT_ONCE: Final = 16
_SEND_LIMIT_S: Final = 0.1
_GAIN: Final = 0.1
_CNAME: Final = "vil-bridge"


class CameraVideo:
    """Encoder and sender of one camera's pictures, for its
    :class:`~vil_bridge.outputs.sink_thread.SinkThread`.

    Attributes:
        camera: its name.
        kind: modality and variant of the pictures that it takes.
        sdp: description with which a player opens the video.

    Raises:
        SinkError: the camera has no such pictures, no encoder opens, or the size is odd.
    """

    def __init__(
        self, camera: CameraInfo, config: RtpConfig, status: Status, clock: WallClock
    ) -> None:
        self.camera = camera.model.name
        self.kind = kind_of(camera, config.variant)
        self._config = config
        self._status = status
        self._clock = clock
        self._rate_hz = camera.rate_hz
        self._size_px = (
            config.width_px or camera.model.width_px,
            config.height_px or camera.model.height_px,
        )
        self._to = config.host, config.port_of(self.camera)
        self._spread_ns = round(config.pacing * NS_PER_S / camera.rate_hz)
        self._ssrc, self._sequence = secrets.randbits(32), secrets.randbits(16)
        self._packets = self._payload_bytes = self._ticks = 0
        self._t_report_ns = 0
        self._delay_ns: float | None = None
        self._open()
        self._video, self._reports = _socket(config.host), _socket(config.host)
        self._reports.setblocking(False)
        self.sdp = describe(
            self.camera,
            host=config.host,
            port=self._to[1],
            syntax=self._encoder.syntax,
            parameter_sets=self._encoder.parameter_sets,
            bitrate_bps=1e6 * config.bitrate_mbps,
            rate_hz=camera.rate_hz,
            session=self._ssrc,
        )
        self._facts: dict[str, Any] = {
            "to": f"{config.host}:{self._to[1]}",
            "encoder": self._encoder.name,
            "instead": self._instead,
            "sdp": self.sdp,
        }
        self._update_status()

    def send(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Send one picture; takes ``pacing`` of the time to the next one, encoding included.

        Raises:
            SinkError: the encoder failed; the next picture gets a new one.
            OSError: the system does not send.
        """
        t_begun_ns = machine_ns()
        try:
            units = self._encoder.encode(i420(pixels, self._size_px))
        except SinkError:
            self._open()
            raise
        t_display_ns = header.t_display_ns
        # A disturbed pipeline may show two instants in the wrong order; players need them in this
        # one.
        self._ticks = max(rtp_ticks(t_display_ns), self._ticks + 1)
        parts = list(
            payloads(units, self._encoder.syntax, self._config.packet_bytes - HEADER_BYTES)
        )
        t_first_ns = machine_ns()
        spread_ns = max(0, t_begun_ns + self._spread_ns - t_first_ns)
        for i, (part,) in enumerate(in_bursts(parts, t_first_ns, spread_ns)):
            packet = rtp_packet(
                part,
                marker=i == len(parts) - 1,
                sequence=self._sequence,
                ticks=self._ticks,
                ssrc=self._ssrc,
                frame_id=header.frame_id,
                t_display_ns=t_display_ns,
            )
            self._video.sendto(packet, self._to)
            self._sequence += 1
            self._packets += 1
            self._payload_bytes += len(part)
        self._account(header.stamps_ns.image)

    def read_reports(self) -> None:
        """Handle receivers' reports (loop thread, when :meth:`fileno` is readable)."""
        for _ in range(_READ_AT_ONCE):
            try:
                data = self._reports.recv(_MAX_REPORT_BYTES)
            except (BlockingIOError, ConnectionError):
                return
            try:
                found = receiver_reports(data, self._ssrc, self._clock.utc_ns(now_ns()))
            except ProtocolError:
                self._status.counters["malformed"] += 1
                continue
            for report in found:
                self._status.counters["receiver_reports"] += 1
                self._facts["receiver"] = {
                    "lost_fraction": report.lost_fraction,
                    "jitter_ms": 1e3 * report.jitter_s,
                    "round_trip_ms": None
                    if report.round_trip_s is None
                    else 1e3 * report.round_trip_s,
                }

    def fileno(self) -> int:
        """Descriptor on which receivers' reports come."""
        return self._reports.fileno()

    def close(self) -> None:
        """Release the sockets."""
        self._video.close()
        self._reports.close()

    def _open(self) -> None:
        gray = self.kind[0] == Modality.GRAY
        self._encoder, self._instead = open_encoder(
            self._config, self._size_px, self._rate_hz, full_range=gray
        )

    def _account(self, t_image_ns: int | None) -> None:
        t_ns = now_ns()
        if t_image_ns is not None:
            delay_ns = t_ns - t_image_ns
            self._delay_ns = (
                delay_ns
                if self._delay_ns is None
                else self._delay_ns + _GAIN * (delay_ns - self._delay_ns)
            )
            self._facts["image_to_sent_ms"] = round(self._delay_ns / 1e6, 3)
        if t_ns - self._t_report_ns >= _REPORT_PERIOD_NS:
            self._t_report_ns = t_ns
            report = sender_report(
                self._ssrc,
                self._clock.utc_ns(t_ns),
                rtp_ticks(t_ns),
                self._packets,
                self._payload_bytes,
                _CNAME,
            )
            self._reports.sendto(report, (self._to[0], self._to[1] + 1))
            self._update_status()

    def _update_status(self) -> None:
        self._status.facts[self.camera] = dict(self._facts)


def _socket(host: str) -> socket.socket:
    """Open a socket: unconnected, since a receiver may come later.

    Of loopback where the receiver is.

    Raises:
        SinkError: this system has no such addresses.
    """
    made: socket.socket | None = None
    try:
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        if ipaddress.ip_address(host).is_loopback:
            made.bind((host, 0))
    except OSError as exc:
        if made is not None:
            made.close()
        raise SinkError(f"no video to {host}: {exc.strerror or exc}") from exc
    made.settimeout(_SEND_LIMIT_S)
    return made
