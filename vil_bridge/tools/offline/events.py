"""Events and configuration of a recording, for tools that work without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vil_bridge.config.load import load_text
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.types import ClockExchange, SourceEvent, SourceReset
from vil_bridge.recording.reader import Recording
from vil_bridge.registry import resolve

__all__ = ["arrivals", "config_of"]

_LONGEST_LEAP_NS: Final = 3600 * NS_PER_S
"""Of arrivals, beyond the time that passed for the recorder: a pause moves both."""


def arrivals(recording: Recording) -> Iterator[tuple[int, SourceEvent]]:
    """Yield each event and the bridge time at which it came, which never falls.

    Raises:
        RecordingError: the file is damaged.
    """
    now_ns: int | None = None
    before_ns = 0
    for event, recorded_ns, _ in recording.stamped_events():
        t_ns = _arrival_ns(event)
        if t_ns is not None:
            if now_ns is not None and (t_ns - now_ns) - (recorded_ns - before_ns) > _LONGEST_LEAP_NS:
                raise RecordingError(
                    f"{recording.path}: an event came hours later than the file was written: it is damaged"
                )
            before_ns = recorded_ns
            now_ns = t_ns if now_ns is None else max(now_ns, t_ns)
        if now_ns is not None:  # a reset without a time that comes first resets what is still empty
            yield now_ns, event


def config_of(recording: Recording) -> BridgeConfig:
    """Return the recorded configuration.

    Raises:
        ConfigError: this version, or what is installed here, cannot use it.
    """
    return load_text(recording.config_text, f"{recording.path} (its configuration)", resolve=resolve)


def _arrival_ns(event: SourceEvent) -> int | None:
    """Return the arrival time of an event, bridge time; None = unknown."""
    match event:
        case ClockExchange():
            return event.t_received_ns
        case SourceReset():
            return None
    return event.t_arrival_ns
