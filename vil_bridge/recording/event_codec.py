"""Source events as bytes and back, exactly: every float64 and int64 as it was, in msgpack.

A skeleton's model is written once, before the first frame that shows it, and by its number from
then on.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RecordingError
from vil_bridge.core.sensor_readings import SensorKind, SensorReadings, table_of
from vil_bridge.core.types import (
    ClockExchange,
    FloatArray,
    ImuSample,
    Markers,
    SkeletonFrame,
    SkeletonModel,
    SourceEvent,
    SourceFrame,
    SourceReset,
)

_MOST_MODELS: Final = 256
"""Numbers of skeleton models in use.

One more and all are written again, so that the table stays bounded.
"""


class StampedEvent(NamedTuple):
    """An event with what the bridge knew of its times.

    Attributes:
        t_ns: bridge time at which it came into the world.
        t_capture_ns: its capture in bridge time, as mapped then; None where it has none.
    """

    event: SourceEvent
    t_ns: int
    t_capture_ns: int | None


class _Skeleton(msgspec.Struct, array_like=True, gc=False):
    model: int
    p_m: bytes
    q_xyzw: bytes
    tracked: bytes


class _Markers(msgspec.Struct, array_like=True, gc=False):
    labels: tuple[str, ...]
    p_m: bytes
    tracked: bytes


class _Frame(msgspec.Struct, array_like=True, tag="frame", gc=False):
    number: int
    t_foreign_ns: int | None
    t_arrival_ns: int
    t_capture_ns: int | None
    latency_ns: int
    subjects: tuple[str, ...]
    p_m: bytes
    q_xyzw: bytes
    tracked: bytes
    skeletons: tuple[_Skeleton, ...]
    markers: _Markers | None


class _Imu(msgspec.Struct, array_like=True, tag="imu", gc=False):
    t_foreign_ns: int | None
    t_arrival_ns: int
    t_capture_ns: int | None
    w_radps: bytes
    f_mps2: bytes


class _Sensor(msgspec.Struct, array_like=True, tag="sensor", gc=False):
    sensor: str
    kind: SensorKind
    t_ns: int
    t_arrival_ns: int
    subjects: tuple[str, ...]
    values: bytes
    labels: tuple[str, ...] = ()


class _Clock(msgspec.Struct, array_like=True, tag="clock", gc=False):
    t_sent_ns: int
    t_foreign_ns: int
    t_received_ns: int


class _Reset(msgspec.Struct, array_like=True, tag="reset", gc=False):
    reason: str
    clock: bool
    subjects: tuple[str, ...] = ()


class _Model(msgspec.Struct, array_like=True, tag="skeleton", gc=False):
    number: int
    name: str
    bones: tuple[str, ...]
    parents: tuple[int, ...]
    offsets_m: bytes
    scale: float


_Record = _Frame | _Imu | _Sensor | _Clock | _Reset | _Model


class EventEncoder:
    """Events of one recording to bytes; one thread."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._last: dict[str, tuple[SkeletonModel, int]] = {}

    def encode(self, event: SourceEvent, t_capture_ns: int | None) -> list[bytes]:
        """Return an event's message, after those of skeleton models that it is the first to use.

        Raises:
            OverflowError: a number has more than 64 bits.
        """
        records: list[_Record] = []
        match event:
            case SourceFrame():
                skeletons = tuple(self._skeleton(s, records) for s in event.skeletons)
                records.append(_frame(event, t_capture_ns, skeletons))
            case ImuSample():
                w = _floats(event.w_radps)
                f = _floats(event.f_mps2)
                records.append(_Imu(event.t_foreign_ns, event.t_arrival_ns, t_capture_ns, w, f))
            case SensorReadings():
                values = _floats(event.values)
                times = event.t_ns, event.t_arrival_ns
                records.append(
                    _Sensor(event.sensor, event.kind, *times, event.subjects, values, event.labels)
                )
            case ClockExchange():
                records.append(_Clock(event.t_sent_ns, event.t_foreign_ns, event.t_received_ns))
            case SourceReset():
                records.append(_Reset(event.reason, event.clock, event.subjects))
        try:
            return [self._encode(record) for record in records]
        except OverflowError:
            self._reset()  # the skeleton models of this event are not written either
            raise

    def _skeleton(self, frame: SkeletonFrame, records: list[_Record]) -> _Skeleton:
        model = frame.model
        last = self._last.get(model.name)
        number = last[1] if last is not None and last[0] is model else self._number(model, records)
        return _Skeleton(number, _floats(frame.p_m), _floats(frame.q_xyzw), _flags(frame.tracked))

    def _number(self, model: SkeletonModel, records: list[_Record]) -> int:
        offsets = _floats(model.offsets_m)
        key = (model.name, model.bones, model.parents, offsets, model.scale)
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= _MOST_MODELS:
                self._reset()
            number = self._numbers[key] = len(self._numbers)
            records.append(_Model(number, *key))
        self._last[model.name] = model, number
        return number

    def _reset(self) -> None:
        self._numbers.clear()
        self._last.clear()


class EventDecoder:
    """Events of one recording from bytes, in the order in which they were written."""

    def __init__(self) -> None:
        self._decode = msgspec.msgpack.Decoder(_Record).decode
        self._models: dict[int, SkeletonModel] = {}
        self._subjects: dict[tuple[str, ...], tuple[str, ...]] = {}

    def decode(self, source: str, t_ns: int, data: bytes | memoryview) -> StampedEvent | None:
        """Return the event that came at ``t_ns``.

        None where the message holds a skeleton model only.

        Raises:
            RecordingError: it is not an event of ours.
        """
        try:
            return self._event(source, t_ns, self._decode(data))
        except (msgspec.MsgspecError, ValueError, KeyError) as exc:
            raise RecordingError(f"no event of source {source}: {exc}") from exc

    def _event(self, source: str, t_ns: int, record: _Record) -> StampedEvent | None:
        match record:
            case _Frame():
                return StampedEvent(self._frame(source, record), t_ns, record.t_capture_ns)
            case _Imu():
                w = _array(record.w_radps)
                f = _array(record.f_mps2)
                sample = ImuSample(
                    source, record.t_foreign_ns, record.t_arrival_ns, w.reshape(3), f.reshape(3)
                )
                return StampedEvent(sample, t_ns, record.t_capture_ns)
            case _Sensor():
                return StampedEvent(_sensor(source, record), t_ns, record.t_ns)
            case _Clock():
                times = record.t_sent_ns, record.t_foreign_ns, record.t_received_ns
                return StampedEvent(ClockExchange(source, *times), t_ns, None)
            case _Reset():
                return StampedEvent(
                    SourceReset(source, record.reason, record.clock, record.subjects), t_ns, None
                )
            case _Model():
                self._models[record.number % _MOST_MODELS] = _model(record)
                return None

    def _frame(self, source: str, record: _Frame) -> SourceFrame:
        # The same object for the same subjects: the world compares them by identity first.
        if len(self._subjects) > _MOST_MODELS:
            self._subjects.clear()
        subjects = self._subjects.setdefault(record.subjects, record.subjects)
        n = len(subjects)
        markers = record.markers
        return SourceFrame(
            source,
            record.number,
            record.t_foreign_ns,
            record.t_arrival_ns,
            subjects,
            _array(record.p_m).reshape(n, 3),
            _array(record.q_xyzw).reshape(n, 4),
            _bools(record.tracked).reshape(n),
            tuple(self._skeleton(s) for s in record.skeletons),
            None if markers is None else _markers(markers),
            record.latency_ns,
        )

    def _skeleton(self, record: _Skeleton) -> SkeletonFrame:
        model = self._models[record.model]
        m = len(model.bones)
        p_m = _array(record.p_m).reshape(m, 3)
        q_xyzw = _array(record.q_xyzw).reshape(m, 4)
        return SkeletonFrame(model, p_m, q_xyzw, _bools(record.tracked).reshape(m))


def _frame(
    event: SourceFrame, t_capture_ns: int | None, skeletons: tuple[_Skeleton, ...]
) -> _Frame:
    m = event.markers
    return _Frame(
        event.frame_number,
        event.t_foreign_ns,
        event.t_arrival_ns,
        t_capture_ns,
        event.latency_ns,
        event.subjects,
        _floats(event.p_m),
        _floats(event.q_xyzw),
        _flags(event.tracked),
        skeletons,
        None if m is None else _Markers(m.labels, _floats(m.p_m), _flags(m.tracked)),
    )


def _sensor(source: str, record: _Sensor) -> SensorReadings:
    n = len(record.subjects)
    if len(record.labels) not in (0, n):
        raise ValueError(
            f"sensor {record.sensor!r} has {len(record.labels)} labels of {n} vehicles"
        )
    values = table_of(record.kind, _array(record.values), n)
    times = record.t_ns, record.t_arrival_ns
    return SensorReadings(
        source, record.sensor, record.kind, *times, record.subjects, values, record.labels
    )


def _model(record: _Model) -> SkeletonModel:
    m = len(record.bones)
    if len(record.parents) != m or not all(
        -1 <= parent < i for i, parent in enumerate(record.parents)
    ):
        raise ValueError(f"skeleton {record.name!r}: its parents do not fit its {m} bones")
    offsets_m = _array(record.offsets_m).reshape(m, 3)
    return SkeletonModel(record.name, record.bones, record.parents, offsets_m, record.scale)


def _markers(record: _Markers) -> Markers:
    k = len(record.labels)
    return Markers(
        record.labels, _array(record.p_m).reshape(k, 3), _bools(record.tracked).reshape(k)
    )


def _floats(values: FloatArray) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def _flags(values: npt.NDArray[np.bool_]) -> bytes:
    return np.ascontiguousarray(values, dtype=np.bool_).tobytes()


def _array(data: bytes) -> FloatArray:
    return np.frombuffer(data, dtype="<f8")


def _bools(data: bytes) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = np.frombuffer(data, dtype=np.uint8) != 0
    return flags
