"""Compiled kernel and twin on the same generated frames.

``python -m tests.fuzz.kernel_against_twin --frames N``.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.fuzz.natnet_frames import Stream, streams
from tests.fuzz.object_streams import object_streams
from tests.fuzz.twins import Agreement, compare_frames
from tests.fuzz.vicon_frames import segment_frames
from tests.fuzz.vrpn_streams import Conversation, conversations
from vil_adapters.optitrack.compiled_frame import PackedFrame, StreamedFrame, read_frame
from vil_adapters.optitrack.convert import NatNetConverter
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.vicon.codec import Blocks
from vil_adapters.vicon.compiled_objects import CompiledObjectTracker, PackedObjects, read_objects
from vil_adapters.vicon.convert import ViconConverter
from vil_adapters.vicon.object_tracker import ObjectTracker
from vil_adapters.vicon.udp_codec import ObjectBlock, decode_objects
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.source import VrpnSession
from vil_adapters.vrpn.tracker_table import TrackerTable
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import BoolArray, FloatArray, SourceEvent, SourceFrame
from vil_bridge.kernel.library import ABSENT, KERNEL
from vil_bridge.protocols.natnet.frame import NatNetFrame
from vil_bridge.runtime.supervisor import Status

__all__ = [
    "COMPARISONS",
    "compare",
    "compare_datagrams",
    "compare_objects",
    "compare_segments",
    "compare_streams",
    "compare_vicon",
    "compare_vrpn",
    "main",
]

_RESTART: Final = 10


def compare(
    datagram: bytes, stream: Stream, kernel: NatNetConverter, twin: NatNetConverter, on: Agreement
) -> None:
    """Read and convert one datagram in both ways.

    Raises:
        AssertionError: they differ.
    """
    on.frames += 1
    frame, expected = _read(read_frame, datagram, stream), _read(decode_poses, datagram, stream)
    if isinstance(frame, str) or isinstance(expected, str):
        assert frame == expected
        on.refused += 1
        return
    on.compiled += isinstance(frame, PackedFrame)
    on.decoded += isinstance(frame, NatNetFrame)
    assert (frame.number, repr(frame.suffix), frame.unread) == (
        *(expected.number, repr(expected.suffix), expected.unread),
    )
    compare_frames(kernel.frame(frame, 5), twin.frame(expected, 5), on)
    assert _state(kernel) == _state(twin)


def _read(read: Any, datagram: bytes, stream: Stream) -> StreamedFrame | str:
    try:
        frame: StreamedFrame = read(datagram, stream.version)
    except ProtocolError as exc:
        return str(exc)
    return frame


def _state(converter: NatNetConverter) -> tuple[object, ...]:
    return (
        converter.unknown,
        converter.nonfinite,
        converter.implausible,
        converter.skeleton_coordinates,
    )


def compare_streams(frames: int, seed: int) -> Agreement:
    """Compare at least so many frames of generated streams."""
    on = Agreement()
    for stream in streams(seed):
        kernel, twin = stream.converter(), stream.converter()
        for datagram in stream.datagrams:
            compare(datagram, stream, kernel, twin, on)
        if on.frames >= frames:
            break
    return on


# --- Vicon ---------------------------------------------------------------------------------------


class TwinConverter(ViconConverter):
    """Converter that leaves the kernel alone."""

    def _compiled_poses(self, blocks: Blocks) -> tuple[FloatArray, FloatArray, BoolArray]:
        return self._segment_poses(blocks)


def compare_vicon(frames: int, seed: int) -> Agreement:
    """Compare at least so many frames of generated Vicon servers."""
    on = Agreement()
    for number, blocks_of_frames in enumerate(segment_frames(seed)):
        segments = number % 2 == 0
        kernel, twin = (
            ViconConverter("lab", segments=segments),
            TwinConverter("lab", segments=segments),
        )
        for blocks in blocks_of_frames:
            compare_segments(blocks, kernel, twin, on)
        if on.frames >= frames:
            break
    return on


def compare_segments(
    blocks: Blocks, kernel: ViconConverter, twin: ViconConverter, on: Agreement
) -> None:
    """Convert one frame in both ways.

    Raises:
        AssertionError: they differ.
    """
    on.frames += 1
    assert kernel.describe(blocks) == twin.describe(blocks)
    found, expected = _converted(kernel, blocks), _converted(twin, blocks)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        on.refused += 1
        return
    on.compiled += 1
    compare_frames(found, expected, on)
    assert (kernel.undescribed, kernel.invalid) == (twin.undescribed, twin.invalid)


def _converted(converter: ViconConverter, blocks: Blocks) -> SourceFrame | str:
    try:
        return converter.frame(blocks, 7, 10**9, 5, 10**12)
    except ProtocolError as exc:
        return str(exc)


# --- Tracker's object stream ----------------------------------------------------------------------


def compare_objects(frames: int, seed: int) -> Agreement:
    """Compare at least so many frames of generated object streams."""
    on = Agreement()
    for datagrams in object_streams(seed):
        compare_datagrams(datagrams, on)
        if on.frames >= frames:
            break
    return on


def compare_datagrams(datagrams: Iterable[bytes], on: Agreement) -> None:
    """Convert one object stream in both ways; half way the server sends another sequence.

    Raises:
        AssertionError: they differ.
    """
    kernel, twin = CompiledObjectTracker("lab", 100.0), ObjectTracker("lab", 100.0)
    for number, datagram in enumerate(datagrams):
        on.frames += 1
        found, expected = _objects(read_objects, datagram), _objects(decode_objects, datagram)
        if isinstance(found, str) or isinstance(expected, str):
            assert found == expected
            on.refused += 1
            continue
        assert found.frame_number == expected.frame_number
        assert isinstance(expected, ObjectBlock)
        on.compiled += isinstance(found, PackedObjects)
        if number == _RESTART:
            kernel.restart()
            twin.restart()
        compare_frames(kernel.next_frame(found, 5), twin.frame(expected, 5), on)
        assert (kernel.invalid, kernel.refused) == (twin.invalid, twin.refused)


def _objects(read: Any, datagram: bytes) -> PackedObjects | ObjectBlock | str:
    try:
        block: PackedObjects | ObjectBlock = read(datagram)
    except ProtocolError as exc:
        return str(exc)
    return block


# --- VRPN ----------------------------------------------------------------------------------------


class TwinSession(VrpnSession):
    """Session that leaves the kernel alone."""

    def _make_table(self, config: VrpnConfig) -> TrackerTable:
        return TrackerTable(self._name, self._frame, repeats_mean_lost=config.repeats_mean_lost)


def compare_vrpn(frames: int, seed: int) -> Agreement:
    """Compare at least so many frames of generated VRPN servers."""
    on = Agreement()
    for conversation in conversations(seed):
        compare_conversation(conversation, on)
        if on.frames >= frames:
            break
    return on


def compare_conversation(conversation: Conversation, on: Agreement) -> None:
    """Hold one conversation in both ways.

    Raises:
        AssertionError: they differ.
    """
    config = VrpnConfig(server="127.0.0.1", **conversation.options)
    ends = [_Conversed(kind, config) for kind in (VrpnSession, TwinSession)]
    for data, t_ns in conversation.pieces:
        kernel, twin = [end.hear(data, t_ns) for end in ends]
        assert kernel[1:] == twin[1:]
        assert len(kernel[0]) == len(twin[0])
        for found, expected in zip(kernel[0], twin[0], strict=True):
            assert type(found) is type(expected)
            if isinstance(found, SourceFrame) and isinstance(expected, SourceFrame):
                on.frames += 1
                on.compiled += 1
                compare_frames(found, expected, on)
            else:
                assert found == expected
        on.refused += bool(kernel[1])
        if kernel[1]:
            break  # a broken stream stays broken


class _Conversed:
    """Session, what it emitted, and its status."""

    def __init__(self, kind: type[VrpnSession], config: VrpnConfig) -> None:
        self._events: list[SourceEvent] = []
        self._status = Status("lab")
        self._status.facts.update(address="127.0.0.1:3883", interface="127.0.0.1")
        self._session = kind("lab", config, self._events.append, self._status)

    def hear(self, data: bytes, t_ns: int) -> tuple[list[SourceEvent], str, str, Counter[str], Any]:
        """Return the events of a piece, its error, and the state after it."""
        self._events.clear()
        error = ""
        try:
            if data:
                self._session.on_data(data, t_ns)
            else:
                self._session.housekeep(t_ns)
        except ProtocolError as exc:
            error = str(exc)
        facts = {name: fact for name, fact in self._status.facts.items() if name != "last_reset"}
        return [*self._events], error, self._session.trouble, +self._status.counters, facts


# --- all -----------------------------------------------------------------------------------------

COMPARISONS: Final[dict[str, Callable[[int, int], Agreement]]] = {
    "natnet": compare_streams,
    "vicon": compare_vicon,
    "vicon-objects": compare_objects,
    "vrpn": compare_vrpn,
}
"""Number of frames and seed to the agreement of each source."""


def main(argv: list[str] | None = None) -> int:
    """Compare and print; where the kernel is absent there is nothing to compare."""
    parser = argparse.ArgumentParser(
        description="Compare the compiled kernel with its twin on generated frames."
    )
    parser.add_argument("--frames", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if KERNEL is None:
        print(f"nothing is compared: {ABSENT}")
        return 0
    logging.disable()
    for source, compare_source in COMPARISONS.items():
        print(
            json.dumps({"source": source} | vars(compare_source(args.frames, args.seed))),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
