"""Child process of ``vicon-native``.

Reads a vendor's library, writes CGStream packets to its output.

The library holds the interpreter lock while it waits, so it gets an interpreter of its own. What
goes wrong is said in one sentence on the error output; then the process ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np

from vil_adapters.vicon.blocks import (
    FRAME_INFO,
    GLOBAL_SEGMENTS,
    LATENCY_INFO,
    STREAM_INFO,
    SUBJECT_INFO,
    TICKS_PER_S,
    LatencySample,
    SubjectInfo,
    ViconSegment,
)
from vil_adapters.vicon.codec import encode_packet
from vil_adapters.vicon.segments import ROW, encode_segments
from vil_bridge.core.geometry import q_normalize, q_to_matrix

SENTENCES: Final = {
    "InvalidHostName": "the server's name cannot be resolved",
    "ClientAlreadyConnected": "the library is connected already",
    "ClientConnectionFailed": "the server does not accept the connection: is its DataStream on, "
    "and the port right?",
    "NotConnected": "the connection to the server broke",
    "NoFrame": "the server sends no frames: is the system live?",
    "InvalidSubjectName": "the server no longer knows a subject that it named",
    "InvalidSegmentName": "the server no longer knows a segment that it named",
    "NotImplemented": "the library is too old for what was asked of it",
    "CoLinearAxes": "the library refuses the axes",
    "LeftHandedAxes": "the library refuses left-handed axes",
}
"""Result codes of the SDK in words."""

_PERMANENT: Final = frozenset(("NotConnected", "NotImplemented"))


class NativeError(Exception):
    """The library reported a result other than success."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(SENTENCES.get(code, f"the library says {code!r}"))


@dataclass(frozen=True, slots=True)
class NativeSegment:
    """One segment, millimetres, quaternion x y z w; no pose while occluded."""

    subject: str
    name: str
    parent: str
    pose: tuple[Sequence[float], Sequence[float]] | None


@dataclass(frozen=True, slots=True)
class NativeFrame:
    """One frame of the library."""

    number: int
    rate_hz: float
    latency_s: float
    segments: tuple[NativeSegment, ...]


class _Library(Protocol):
    def frame(self) -> NativeFrame:
        """Return the next frame. Raises NativeError."""
        ...


class _Dssdk:
    """Vicon's own module; it raises exceptions with the code in their text."""

    def __init__(self, address: str) -> None:
        self._module: Any = import_module("vicon_dssdk").ViconDataStream
        self._client = self._module.Client()
        self._ask(self._client.Connect, address)
        self._ask(self._client.EnableSegmentData)
        self._ask(self._client.SetBufferSize, 1)
        self._ask(self._client.SetStreamMode, self._module.Client.StreamMode.EServerPush)

    def _ask(self, call: Any, *args: Any) -> Any:
        try:
            return call(*args)
        except self._module.DataStreamException as exc:
            raise NativeError(str(exc)) from exc

    def frame(self) -> NativeFrame:
        """Return the next frame. Raises NativeError."""
        client = self._client
        if not self._ask(client.GetFrame):
            raise NativeError("NoFrame")
        subjects = self._ask(client.GetSubjectNames)
        found = [
            self._segment(s, name)
            for s in subjects
            for name in self._ask(client.GetSegmentNames, s)
        ]
        return NativeFrame(
            self._ask(client.GetFrameNumber),
            self._ask(client.GetFrameRate),
            self._ask(client.GetLatencyTotal),
            tuple(found),
        )

    def _segment(self, subject: str, name: str) -> NativeSegment:
        parent = ""
        with suppress(self._module.DataStreamException):  # a root has none
            parent = self._client.GetSegmentParentName(subject, name)
        p_mm, p_occluded = self._ask(self._client.GetSegmentGlobalTranslation, subject, name)
        q_xyzw, q_occluded = self._ask(
            self._client.GetSegmentGlobalRotationQuaternion, subject, name
        )
        pose: tuple[Sequence[float], Sequence[float]] | None = None
        if not p_occluded and not q_occluded:
            pose = (p_mm, q_xyzw)
        return NativeSegment(subject, name, parent, pose)


class _Pyvicon:
    """The open wrapper; it returns codes, w x y z, None while occluded, and no parents."""

    def __init__(self, address: str) -> None:
        module: Any = import_module("pyvicon_datastream")
        self._success = module.Result.Success
        self._client = module.PyViconDatastream()
        self._check(self._client.connect(address))
        self._check(self._client.enable_segment_data())
        self._check(self._client.set_stream_mode(module.StreamMode.ServerPush))

    def _check(self, result: Any) -> None:
        if result != self._success:
            raise NativeError(result.name)

    def frame(self) -> NativeFrame:
        """Return the next frame. Raises NativeError."""
        client = self._client
        self._check(client.get_frame())
        subjects = [client.get_subject_name(i) for i in range(client.get_subject_count() or 0)]
        counted = [
            (subject, i)
            for subject in subjects
            for i in range(client.get_segment_count(subject) or 0)
        ]
        segments = [
            self._segment(subject, client.get_segment_name(subject, i)) for subject, i in counted
        ]
        rate_hz = client.get_frame_rate() or 0.0
        latency_s = client.get_latency_total() or 0.0
        return NativeFrame(client.get_frame_number(), rate_hz, latency_s, tuple(segments))

    def _segment(self, subject: str, name: str) -> NativeSegment:
        p_mm = self._client.get_segment_global_translation(subject, name)
        q_wxyz = self._client.get_segment_global_quaternion(subject, name)
        if p_mm is None or q_wxyz is None or not np.any(q_wxyz):
            return NativeSegment(subject, name, "", None)
        return NativeSegment(subject, name, "", (p_mm, np.roll(q_wxyz, -1).tolist()))


_LIBRARIES: Final[dict[str, type[_Dssdk] | type[_Pyvicon]]] = {
    "vicon_dssdk": _Dssdk,
    "pyvicon_datastream": _Pyvicon,
}


def encode_frame(frame: NativeFrame) -> bytes:
    """Return the frame as a CGStream packet with its descriptions, in the server's axes as the
    library turned them.
    """
    subjects: dict[str, list[NativeSegment]] = {}
    for segment in frame.segments:
        subjects.setdefault(segment.subject, []).append(segment)
    infos = []
    rows = []
    for i, (subject, segments) in enumerate(subjects.items(), start=1):
        ids = {segment.name: k for k, segment in enumerate(segments, start=1)}
        described = tuple(
            ViconSegment(ids.get(s.parent, 0), ids[s.name], (0.0,) * 6, s.name) for s in segments
        )
        infos.append(SUBJECT_INFO.encode(SubjectInfo(i, subject, described)))
        rows += [(i, ids[s.name], *s.pose) for s in segments if s.pose is not None]
    table = np.zeros(len(rows), ROW)
    if rows:
        table["subject"], table["id"] = [r[0] for r in rows], [r[1] for r in rows]
        table["p"] = [r[2] for r in rows]
        table["R"] = q_to_matrix(q_normalize(np.array([r[3] for r in rows], dtype=np.float64)))
    period_ticks = 0
    if frame.rate_hz > 0.0:
        period_ticks = round(TICKS_PER_S / frame.rate_hz)
    return encode_packet(
        STREAM_INFO.encode(period_ticks),
        *infos,
        FRAME_INFO.encode((frame.number - 1) % (1 << 32)),
        LATENCY_INFO.encode((LatencySample("Total", frame.latency_s),)),
        encode_segments(GLOBAL_SEGMENTS.type, table),
    )


def _frames(library: _Library) -> Iterator[NativeFrame]:
    """Yield frames until the connection ends; pauses are skipped. Raises NativeError."""
    while True:
        try:
            yield library.frame()
        except NativeError as exc:
            if exc.code in _PERMANENT:
                raise


def main() -> int:
    """Run ``python -m vil_adapters.vicon.native_worker LIBRARY HOST:PORT``."""
    name, address = sys.argv[1:]
    try:
        for frame in _frames(_LIBRARIES[name](address)):
            sys.stdout.buffer.write(encode_frame(frame))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        return 0
    except NativeError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
