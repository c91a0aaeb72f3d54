"""Status of a NatNet session: facts while it runs, reasons while it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from vil_adapters.optitrack.compiled_frame import StreamedFrame
from vil_adapters.optitrack.convert import capture_ns
from vil_adapters.optitrack.sockets import NatNetSockets
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.protocols.natnet.codec import ServerInfo, Version
from vil_bridge.protocols.natnet.frame import Suffix
from vil_bridge.protocols.natnet.model import Models

_MS_PER_S: Final = 1e3


def server_facts(info: ServerInfo, version: Version) -> dict[str, Any]:
    """Return name, versions and transmission mode of the server."""
    mode = "unicast"
    if info.multicast:
        mode = f"multicast {info.group}:{info.data_port}"
    return {
        "server": f"{info.name} {dotted(info.app_version)}",
        "version": dotted(version),
        "server_version": dotted(info.natnet_version),
        "mode": mode,
    }


def subject_facts(models: Models) -> dict[str, Any]:
    """Return the subjects that the server describes."""
    return {
        "subjects": [body.name for body in models.bodies],
        "skeletons": [skeleton.name for skeleton in models.skeletons],
        "trained_marker_sets": [asset.name for asset in models.assets],
        "shared_names": list(models.shared_names),
    }


def latency_facts(suffix: Suffix, info: ServerInfo) -> dict[str, float] | None:
    """Return the parts of the server's own latency, ms; None when a stamp is missing."""
    if not (info.ticks_per_s and suffix.mid_exposure and suffix.received and suffix.transmit):
        return None
    per_tick_ms = _MS_PER_S / info.ticks_per_s
    return {
        "camera": (suffix.received - suffix.mid_exposure) * per_tick_ms,
        "software": (suffix.transmit - suffix.received) * per_tick_ms,
        "system": (suffix.transmit - suffix.mid_exposure) * per_tick_ms,
    }


class FrameRate:
    """Frame rate of the server from numbers and capture times, so that losses do not lower it."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def restart(self) -> None:
        """Begin again with the next frame."""
        self._last = None

    def measure_hz(self, frame: StreamedFrame, info: ServerInfo) -> float | None:
        """Return the rate since the frame of the call before; None while unknown."""
        t_ns = capture_ns(frame.suffix, info)
        last = self._last
        self._last = None if t_ns is None else (frame.number, t_ns)
        if last is None or t_ns is None or t_ns <= last[1] or frame.number <= last[0]:
            return None
        return (frame.number - last[0]) * NS_PER_S / (t_ns - last[1])


@dataclass(frozen=True, slots=True)
class SilenceDiagnosis:
    """Diagnosis of a session that emits nothing.

    Attributes:
        answering: the server answers requests. frames: frames arrive.
        repeated: number of the one frame that is sent again and again.
        stale_ms: age of the last frame when it was too old to be emitted, else None.
    """

    answering: bool
    frames: bool
    repeated: int | None
    stale_ms: float | None


def silence_reason(
    link: NatNetSockets, info: ServerInfo | None, diagnosis: SilenceDiagnosis
) -> str:
    """Return why nothing is emitted, what was tried, and what to check."""
    if diagnosis.frames and diagnosis.stale_ms is not None:
        return (
            f"frames from {link.server_ip} were captured {diagnosis.stale_ms:.0f} ms "
            "before they arrive, longer than "
            "max_age_ms: is the network congested (Wi-Fi), or does Motive smooth or buffer?"
        )
    if diagnosis.frames and diagnosis.repeated is not None:
        return (
            f"{link.server_ip} sends only repeats of frame {diagnosis.repeated}: is playback "
            "paused?"
        )
    if diagnosis.frames:
        asked = f"asked for every second on port {link.server_port}"
        return f"frames arrive from {link.server_ip}, but no descriptions of them: {asked}"
    if diagnosis.answering and info is not None:
        return _streaming_reason(link, info)
    trouble = f" ({link.trouble})" if link.trouble else ""
    return (
        f"no answer from {link.server_ip}:{link.server_port} via interface "
        f"{link.local_ip}{trouble}: "
        f"in Motive's streaming pane, is 'Enable' on and 'Local Interface' {link.server_ip}? "
        "Does the firewall there let UDP in?"
    )


def _streaming_reason(link: NatNetSockets, info: ServerInfo) -> str:
    if info.multicast:
        return (
            f"{link.server_ip} answers, but no frames of {info.group}:{info.data_port} "
            f"reach {link.local_ip}: "
            "is playback paused? Does the network pass multicast (over Wi-Fi set Motive "
            "to unicast)?"
        )
    return (
        f"{link.server_ip} answers, but sends no frames from port {info.data_port} to "
        f"interface {link.local_ip}: "
        "is playback paused? Does the firewall here let UDP in?"
    )


def dotted(version: Version) -> str:
    """Return (4, 1, 0, 0) as ``4.1``."""
    major, minor, *rest = version
    return ".".join(map(str, (major, minor, *rest) if any(rest) else (major, minor)))
