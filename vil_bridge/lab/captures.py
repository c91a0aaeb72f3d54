"""A captured tracking system in the lab, written ``[ADDRESS:]PORT=FILE``."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from vil_adapters.captured import CapturedStream
from vil_adapters.optitrack.replayed import ReplayedMotive, is_connect
from vil_bridge.core.errors import ConfigError
from vil_bridge.lab.servers import RunningServer
from vil_bridge.record.pcap import read_capture

__all__ = ["CaptureSpec"]

_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class CaptureSpec:
    """A capture and where it is played: there a NatNet server listens, or other systems send their datagrams."""

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
        raise ConfigError(f"--replay-capture {text}: write [ADDRESS:]PORT=FILE, such as 1510=captures/mocap.pcap")

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.path} at {self.host}:{self.port}"

    def open(self) -> RunningServer:
        """The server of the capture, not running yet.

        Raises:
            RecordingError: the file cannot be read, or is no capture.
            ConfigError: it holds nothing to play.
            OSError: the port is taken.
        """
        datagrams = read_capture(self.path)
        first = next(datagrams, None)
        if first is None:
            raise ConfigError(f"{self.path}: there is no datagram in it")
        whole = itertools.chain((first,), datagrams)
        if not is_connect(first):
            return CapturedStream(whole, self.host, self.port)
        try:
            return ReplayedMotive(whole, self.host, self.port)
        except ConfigError as exc:
            raise ConfigError(f"{self.path}: {exc}") from None
