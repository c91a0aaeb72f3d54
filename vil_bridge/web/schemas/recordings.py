"""Bodies of the recording and replay routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, Protocol


@dataclass(frozen=True, slots=True)
class RecordingView:
    """State of the recording, or of the last one.

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
    """File of the folder.

    Attributes:
        readable: it can be replayed. truncated: its end is missing, since the bridge was killed or
            the disk full.
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
    """State of the replay, or of the last one.

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
    """Port to the recorder and the player.

    Called in threads of the HTTP server, for up to a second.

    A refused command raises RecordingError with the reason; unknown files raise KeyError.
    """

    def recording(self) -> RecordingView:
        """Return the state of the recording."""
        ...

    def start(self, name: str | None) -> None:
        """Start a recording in the folder of recordings; None = named after the time."""
        ...

    def stop(self) -> None:
        """End the recording, if there is one."""
        ...

    def stored(self) -> list[StoredView]:
        """Return the files of the folder, the newest first."""
        ...

    def opened(self, name: str) -> IO[bytes]:
        """Open a file of the folder that is complete; links are not followed."""
        ...

    def report(self, name: str) -> bytes:
        """Return the report of a file, as a page of HTML.

        Takes minutes for a recording of hours.
        """
        ...

    def replay(self) -> ReplayView:
        """Return the state of the replay."""
        ...

    def play(self, name: str, rate: float, loop: bool) -> None:
        """Replace live sources by the recorded ones."""
        ...

    def stop_replay(self) -> None:
        """Return to the live sources."""
        ...
