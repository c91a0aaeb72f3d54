"""Bodies of the recording and replay routes."""

from __future__ import annotations

from dataclasses import dataclass, field


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
