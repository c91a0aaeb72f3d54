"""Structs of the kernel, with their fields by name.

The headers explain the fields. A library with other structs is refused when it is loaded
(:mod:`~vil_bridge.kernel.library`).
"""

from __future__ import annotations

import ctypes
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt

# Types of a field in Python and in C.
Int64 = Annotated[int, "int64_t"]
Double = Annotated[float, "double"]
SevenDoubles = Annotated[tuple[float, ...], "double[7]"]
SevenInt32s = Annotated[tuple[int, ...], "int32_t[7]"]
DoubleArray = Annotated[npt.NDArray[np.float64], "double *"]
Int64Array = Annotated[npt.NDArray[np.int64], "int64_t *"]
Int32Array = Annotated[npt.NDArray[np.int32], "int32_t *"]
Uint32Array = Annotated[npt.NDArray[np.uint32], "uint32_t *"]
ByteArray = Annotated[npt.NDArray[Any], "uint8_t *"]
CharArray = Annotated[npt.NDArray[Any], "char *"]
SkeletonAddresses = Annotated[npt.NDArray[np.uint64], "VilSkeleton **"]

_NUMBERS: Final[dict[str, Any]] = {
    "int64_t": ctypes.c_int64,
    "double": ctypes.c_double,
    "double[7]": ctypes.c_double * 7,
    "int32_t[7]": ctypes.c_int32 * 7,
}
"""Types in C that are no addresses."""
_ELEMENTS: Final = {
    "double *": "float64",
    "int64_t *": "int64",
    "int32_t *": "int32",
    "uint32_t *": "uint32",
    "VilSkeleton **": "uint64",
}
_BYTES: Final = ("uint8_t *", "char *")
"""Types in C of arrays whose elements may be any."""

Layout = dict[str, tuple[str, int]]
"""Of each struct an empty text and its size, of each field its type and its offset in bytes."""


class KernelStruct(ctypes.Structure):
    """A struct of the kernel, whose fields are given by name.

    Those with a default may be left out. Arrays and structs that a field points to live as long as
    the struct, and must stay in place.

    Attributes:
        pointer: its address, as an argument.

    Raises:
        TypeError: a field is missing or unknown, or its value has another type.
    """

    _c_types: ClassVar[dict[str, str]]
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        missing = self._c_types.keys() - self._defaults.keys() - fields.keys()
        if missing:
            raise TypeError(
                f"{type(self).__name__} is given no {', '.join(sorted(missing))}: give it by name"
            )
        self._held: dict[str, object] = {}
        self.pointer = ctypes.c_void_p(self.address)
        self.assign(**self._defaults | fields)

    @property
    def address(self) -> int:
        """Address of the struct."""
        return ctypes.addressof(self)

    def assign(self, **fields: Any) -> None:
        """Give fields other values.

        Raises:
            TypeError: a field is unknown, or its value has another type.
        """
        unknown = fields.keys() - self._c_types.keys()
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no {', '.join(sorted(unknown))}: give fields that "
                "vil_bridge/kernel/structs.py lists"
            )
        for name, value in fields.items():
            if self._c_types[name] in _NUMBERS:
                setattr(self, name, value)
            else:
                setattr(self, name, self._address_of(name, value))
                self._held[name] = value

    def _address_of(self, name: str, value: object) -> int | None:
        c_type = self._c_types[name]
        if isinstance(value, KernelStruct) and c_type == f"{type(value).__name__} *":
            return value.address
        if isinstance(value, np.ndarray) and _fits(value, c_type):
            return value.ctypes.data
        if value is None and name in self._defaults:
            return None
        raise TypeError(
            f"{type(self).__name__}.{name} is given {_described(value)}: give it a `{c_type}`, "
            "arrays with their elements in a row"
        )


def _c_type(hint: Any) -> str:
    """Return the type in C of a field's annotation."""
    if isinstance(hint, type):
        return f"{hint.__name__} *"
    _, c_type = get_args(hint)
    return str(c_type)


def _fits(array: npt.NDArray[Any], c_type: str) -> bool:
    """Return whether an array's memory is what a field points to."""
    known = c_type in _BYTES or array.dtype.name == _ELEMENTS.get(c_type)
    return known and array.flags.c_contiguous


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"a value of type {type(value).__name__}"


def layout() -> Layout:
    """Return offsets and sizes as Python has them."""
    found: Layout = {}
    for struct in _STRUCTS:
        name = struct.__name__
        for field, c_type in struct._c_types.items():
            found[f"{name}.{field}"] = c_type, getattr(struct, field).offset
        found[name] = "", ctypes.sizeof(struct)
    return found


_Struct = TypeVar("_Struct", bound=KernelStruct)
_STRUCTS: Final[list[type[KernelStruct]]] = []


@dataclass_transform(kw_only_default=True)
def _listed(struct: type[_Struct]) -> type[_Struct]:
    """Make fields of a class's annotations, and add it to the list."""
    hints = get_type_hints(struct, include_extras=True)
    names = list(struct.__annotations__)
    struct._c_types = {name: _c_type(hints[name]) for name in names}
    struct._defaults = {name: vars(struct)[name] for name in names if name in vars(struct)}
    struct._fields_ = [
        (name, _NUMBERS.get(c_type, ctypes.c_void_p)) for name, c_type in struct._c_types.items()
    ]
    _STRUCTS.append(struct)
    return struct


@_listed
class VilClock(KernelStruct):
    """Foreign clock of ``clock.h``."""

    ready: Int64 = 0
    oldest_ns: Int64
    line_ref_ns: Int64 = 0
    line_offset_ns: Int64 = 0
    line_drift: Double = 0.0
    fit_ref_ns: Int64 = 0
    fit_offset_ns: Int64 = 0
    fit_drift: Double = 0.0
    most_over_ns: Double = 0.0
    least_over_ns: Double = 0.0
    second_start_ns: Int64 = 0
    second_offset_ns: Int64 = 0
    count: Int64 = 0
    sum_ns: Int64 = 0


@_listed
class VilNatNetBinding(KernelStruct):
    """Meaning of the records of NatNet frames of one layout, of ``natnet.h``."""

    words: Int64
    rows_out: Int64
    absent_count: Int64
    has_local: Int64
    layout: Int32Array
    rows: Int32Array
    absent: Int32Array
    parents: Int32Array
    pose: DoubleArray
    tracked: ByteArray
    nonfinite: Int64 = 0
    implausible: Int64 = 0
    farthest_m: Double
    factor: SevenDoubles
    axis: SevenInt32s


@_listed
class VilNatNetStream(KernelStruct):
    """Reception of NatNet frames of one server, of ``natnet_stream.h``.

    Without a binding, no frame is expected.
    """

    server_ip: Int64
    frame_port: Int64 = 0
    sized: Int64 = 0
    ticks_per_s: Int64 = 0
    most_skipped: Int64
    fastest_hz: Int64
    binding: Annotated[VilNatNetBinding | None, "VilNatNetBinding *"] = None
    bytes: ByteArray
    spare: Int64 = 0
    held: Int64
    shown: Int64
    held_size: Int64 = 0
    shown_size: Int64 = 0
    number: Int64 = 0
    t_capture_ns: Int64 = 0
    t_newest_ns: Int64 = 0
    lost: Int64 = 0
    taken: Int64 = 0
    superseded: Int64 = 0
    latency_ns: Int64 = 0
    params: Int64 = 0
    unread: Int64 = 0
    converted: Int64 = 0
    size: Int64 = 0
    odd_ip: Int64 = 0
    odd_port: Int64 = 0
    odd_t_ns: Int64 = 0


@_listed
class VilPoseText(KernelStruct):
    """Pose message of one form, of ``numbers.h``."""

    bodies: Int64
    cameras: Int64
    gaps: Int64
    capacity: Int64
    body_turn: DoubleArray
    camera_turn: DoubleArray
    poses: DoubleArray
    indices: Int32Array
    values: DoubleArray
    out: CharArray


@_listed
class VilFilter(KernelStruct):
    """Filters of tracks, of ``tracks.h``."""

    rows: Int64
    columns: Int64
    steady: DoubleArray
    first: DoubleArray
    t_ns: Int64Array
    state: DoubleArray
    newest: DoubleArray
    step_s: DoubleArray
    age: Int64Array
    variance: DoubleArray
    log_jerk: DoubleArray
    surprises: Int64Array
    whitened: DoubleArray
    learnt_ns: Int64Array
    learnt: DoubleArray
    unlearnt: DoubleArray
    held_ns: Int64Array
    held: DoubleArray
    sums: DoubleArray
    lag_s: DoubleArray
    log_parts: DoubleArray


@_listed
class VilBank(KernelStruct):
    """Tracks of rigid actors, of ``tracks.h``."""

    rows: Int64
    capacity: Int64
    noisy: Int64
    slowest_mps: Double
    slowest_radps: Double
    t: Int64Array
    moved_ns: Int64Array
    poses: DoubleArray
    count: Int64Array
    newest: DoubleArray
    gate_ns: Int64Array
    max_speed_mps: DoubleArray
    max_rate_radps: DoubleArray
    limit_ns: Int64Array
    coast_ns: Int64Array
    t_capture_ns: Int64Array
    t_arrival_ns: Int64Array
    tracked: ByteArray
    repeats: Int64Array
    repeats_first_ns: Int64Array
    repeats_newest_ns: Int64Array
    done: Int64Array
    filtered: DoubleArray
    turned_rad: DoubleArray


@_listed
class VilRoom(KernelStruct):
    """Place of a room in the world, of ``tracks.h``."""

    is_world: Int64
    turn: DoubleArray
    shift: DoubleArray


@_listed
class VilFrame(KernelStruct):
    """Columns of a source's frames and the rows that they feed, of ``tracks.h``."""

    count: Int64
    markers_turned: Int64
    room: VilRoom
    columns: Int64Array
    rows: Int64Array
    markers: DoubleArray
    poses: DoubleArray


@_listed
class VilStamps(KernelStruct):
    """Newest frame of a skeleton, of ``tracks.h``.

    Attributes:
        t_capture_ns, t_arrival_ns: of the newest one whose hips were tracked, -1 = never.
        tracked: the hips were in the newest one.
        suspected: the hips are where they cannot be, and may prove to stay there.
    """

    t_capture_ns: Int64
    t_arrival_ns: Int64
    tracked: Int64 = 0
    suspected: Int64 = 0


@_listed
class VilSkeleton(KernelStruct):
    """Track of a skeleton, of ``tracks.h``."""

    bones: Int64
    capacity: Int64
    place_bone: Int64
    max_mps: Double
    max_radps: Double
    stamps: VilStamps
    t: Int64Array
    poses: DoubleArray
    seen: ByteArray
    count: Int64Array
    repeats: Int64Array
    repeats_first_ns: Int64Array
    repeats_newest_ns: Int64Array
    world: DoubleArray
    world_seen: ByteArray


@_listed
class VilFrameStore(KernelStruct):
    """Tracks that frames of one layout feed, of ``tracks.h``."""

    rows: Int64
    skeletons: Int64
    bank: VilBank
    filter: VilFilter
    bodies: VilFrame
    tracks: SkeletonAddresses
    first_rows: Int64Array
    refused: ByteArray


@_listed
class VilViconBinding(KernelStruct):
    """Meaning of the segments of frames of one layout, of ``vicon.h``."""

    segments: Int64
    rows_out: Int64
    y_up: Int64
    keys: Uint32Array
    slots: Int32Array
    parents: Int32Array
    pose: DoubleArray
    tracked: ByteArray
    invalid: Int64 = 0
    farthest_m: Double
    rotation_tolerance: Double


@_listed
class VilObjectsBinding(KernelStruct):
    """Meaning of the objects of datagrams with the same names, of ``vicon_objects.h``."""

    objects: Int64
    rows_out: Int64
    repeats: Int64
    invalid: Int64 = 0
    names: ByteArray
    rows: Int32Array
    last: ByteArray
    times: Int64Array
    pose: DoubleArray
    tracked: ByteArray
    farthest_m: Double
    largest_rad: Double


@_listed
class VilVrpnTable(KernelStruct):
    """Trackers and the frames that their poses make, of ``vrpn.h``."""

    trackers: Int64 = 0
    most_entries: Int64
    groups: Int64 = 0
    entries: Int64 = 0
    bound: Int64 = 0
    pose_type: Int64
    has_suspect: Int64 = 0
    suspect_ns: Int64 = 0
    repeats_mean_lost: Int64
    y_up: Int64
    repeated: Int64 = 0
    superseded: Int64 = 0
    unwanted: Int64 = 0
    duplicates: Int64 = 0
    unusable: Int64 = 0
    implausible_stamps: Int64 = 0
    scale_m: Double
    farthest_m: Double
    pose: DoubleArray
    shown: DoubleArray
    period_ns: DoubleArray
    entry_pose: DoubleArray
    frame_pose: DoubleArray
    t_ns: Int64Array
    t_arrival_ns: Int64Array
    repeats: Int64Array
    messages: Int64Array
    group_t_ns: Int64Array
    group_arrival_ns: Int64Array
    group_start: Int64Array
    entry_row: Int32Array
    frame_row: Int32Array
    bound_sender: Int32Array
    bound_sensor: Int32Array
    bound_row: Int32Array
    tracked: ByteArray
    group_used: ByteArray
    entry_tracked: ByteArray
    frame_tracked: ByteArray
    covered: ByteArray
