"""A captured tracking system in the lab, written ``[ADDRESS:]PORT=FILE``."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from vil_adapters.emulation.capture_playback import CapturedStream
from vil_adapters.lab.servers import RunningServer
from vil_adapters.optitrack.capture_server import ReplayedMotive, is_natnet
from vil_adapters.vicon.udp_codec import receiver_of_objects
from vil_bridge.core.errors import ConfigError
from vil_bridge.protocols.pcap.pcap import read_capture
from vil_bridge.runtime.datagrams import Datagram

_MAX_PORT: Final = 65535
_MAX_JUDGED: Final = 2000
"""Datagrams of tracking systems, the first ones, that decide which system was captured."""


@dataclass(frozen=True, slots=True)
class CaptureSpec:
    """A capture and where it is played.

    There a NatNet server listens, or other systems send their datagrams.
    """

    path: Path
    host: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> CaptureSpec:
        """Read ``[ADDRESS:]PORT=FILE``.

        Raises:
            ConfigError: it is written otherwise.
        """
        found = re.fullmatch(r"(?:([\d.]+):)?(\d{1,5})=(.+)", text)
        try:
            if found is not None and int(found[2]) <= _MAX_PORT:
                return cls(Path(found[3]), str(IPv4Address(found[1] or "127.0.0.1")), int(found[2]))
        except ValueError:  # no address
            pass
        raise ConfigError(
            f"--replay-capture {text}: write [ADDRESS:]PORT=FILE, such as 1510=captures/mocap.pcap"
        )

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.path} at {self.host}:{self.port}"

    def open(self) -> RunningServer:
        """Return the server of the capture, not running yet.

        Raises:
            RecordingError: the file cannot be read, or is not a capture.
            ConfigError: it holds nothing to play.
            OSError: the port is taken.
        """
        whole = read_capture(self.path)
        first = next(whole, None)
        if first is None:
            raise ConfigError(
                f"{self.path}: there is no datagram in it. Capture whole UDP packets over IPv4"
            )
        whole = itertools.chain([first], whole)
        judged = list(itertools.islice(filter(_is_known, read_capture(self.path)), _MAX_JUDGED))
        objects_to = receiver_of_objects(judged)
        natnet = sum(is_natnet(d) for d in judged)
        if objects_to is not None and sum(d.receiver == objects_to for d in judged) > natnet:
            return CapturedStream(
                (d for d in whole if d.receiver == objects_to), self.host, self.port
            )
        if not natnet:
            raise ConfigError(
                f"{self.path}: no datagram is NatNet or Tracker's UDP objects. Capture on "
                "the interface of the mocap"
            )
        try:
            return ReplayedMotive(whole, self.host, self.port)
        except ConfigError as exc:
            raise ConfigError(f"{self.path}: {exc}") from None


def _is_known(datagram: Datagram) -> bool:
    return is_natnet(datagram) or receiver_of_objects((datagram,)) is not None
