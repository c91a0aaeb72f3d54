"""Bodies of the recording and replay routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, Protocol

__all__ = ["RecordingView", "Recordings", "ReplayView", "StoredView"]


@dataclass(frozen=True, slots=True)
class RecordingView:
    """How a recording goes, or the last one went.

    Attributes:
        state: idle, recording or failed.
        lost: messages that could not be written, by topic.
        reason: why it failed.
    """

    state: str = "idle"
    file: str = ""
    seconds: float = 0.0
    bytes: int = 0
    messages: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StoredView:
    """A file of the folder.

    Attributes:
        readable: it can be replayed. truncated: its end is missing, since the bridge was killed or the disk full.
        reason: why it is not readable.
    """

    name: str
    bytes: int
    duration_s: float | None
    readable: bool
    truncated: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplayView:
    """How a replay goes, or the last one went.

    Attributes:
        state: idle, playing, done or failed.
        held_back: events of live sources that the recorded ones replace, by source.
    """

    state: str = "idle"
    file: str = ""
    position_s: float = 0.0
    duration_s: float = 0.0
    rate: float = 1.0
    loop: bool = False
    held_back: dict[str, int] = field(default_factory=dict)
    reason: str = ""


class Recordings(Protocol):
    """Whoever records and replays. Asked in threads of the HTTP server, where a call may take a second.

    What cannot be done raises RecordingError, saying why; unknown files raise KeyError.
    """

    def recording(self) -> RecordingView:
        """How it goes."""
        ...

    def start(self, name: str | None) -> None:
        """Begin to record, into the folder of recordings; None = named after the time."""
        ...

    def stop(self) -> None:
        """End the recording, if there is one."""
        ...

    def stored(self) -> list[StoredView]:
        """Files of the folder, the newest first."""
        ...

    def opened(self, name: str) -> IO[bytes]:
        """Open a file of the folder that is complete; links are not followed."""
        ...

    def report(self, name: str) -> bytes:
        """Where the time of every frame of a file went, as a page of HTML; takes minutes for hours."""
        ...

    def replay(self) -> ReplayView:
        """How it goes."""
        ...

    def play(self, name: str, rate: float, loop: bool) -> None:
        """Let a recording take the place of the live sources that it holds."""
        ...

    def stop_replay(self) -> None:
        """Back to the live sources."""
        ...
