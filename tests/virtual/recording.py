"""Checks of a recording, read with the format's own library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader

__all__ = ["check_recording"]

_EVENTS: Final = ("/vil/events/flight", "/vil/events/actor")


def check_recording(file: Path, view: Mapping[str, Any], *, may_fail: bool) -> Iterator[str]:
    """Yield what does not hold of a file that was ended.

    Args:
        view: the bridge's answer. may_fail: its disk had an end, or broke.
    """
    if view["state"] != "idle" and not may_fail:
        yield f"the recording is {view['state']}: {view['reason']}"
    if view["lost"]:
        yield f"the recording lost {view['lost']}"
    counts: Counter[str] = Counter()
    newest_ns: Counter[str] = Counter()
    newest: dict[str, bytes] = {}
    with file.open("rb") as stream:
        try:
            for _, channel, message in NonSeekingReader(stream).iter_messages(log_time_order=False):
                counts[channel.topic] += 1
                if channel.topic not in _EVENTS:
                    continue
                if message.publish_time < newest_ns[channel.topic]:
                    yield (
                        f"{channel.topic}: {message.publish_time} comes after "
                        f"{newest_ns[channel.topic]}"
                    )
                if message.data == newest.get(channel.topic):
                    yield f"{channel.topic}: the event of {message.publish_time} comes twice"
                newest_ns[channel.topic] = message.publish_time
                newest[channel.topic] = message.data
        except EndOfFile:
            if view["state"] == "idle":
                yield "the recording has no end"
    if view["state"] == "idle" and counts.total() != view["messages"]:
        yield f"{counts.total()} messages are in the recording, {view['messages']} were written"
    for topic in _EVENTS:
        if view["state"] == "idle" and not counts[topic]:
            yield f"the recording has nothing of {topic}; it has {sorted(counts)}"
