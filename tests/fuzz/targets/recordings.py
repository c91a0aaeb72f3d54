"""Recordings of other systems, read from files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.fuzz.target import Target, scratch
from vil_adapters.recording.formats import open_recording
from vil_bridge.core.errors import ConfigError

__all__ = ["TARGETS"]

_FOLDER: Final = scratch()


def _played(name: str, form: str, data: bytes) -> None:
    """Read a file and look at its first instants, as a source that plays it would."""
    path = _FOLDER / name
    path.write_bytes(data)
    recording = open_recording(path, form, unit_m=0.01 if form == "bvh" else None)
    for t_ns, _ in zip(recording.instants(), range(3), strict=False):
        recording.at(t_ns)
    recording.at(recording.duration_ns // 2)


def _reader(name: str, form: str) -> Callable[[bytes], None]:
    return partial(_played, name, form)


_EUROC: Final = "#time,x,y,z,qw,qx,qy,qz\n" + "".join(
    f"{10**18 + i * 10**7},{i},2,3,1,0,0,0\n" for i in range(4)
)
_TUM: Final = "# time x y z qx qy qz qw\n" + "".join(
    f"{i / 100} {i} 2 3 0 0 0 1\n" for i in range(4)
)
_BVH: Final = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT Chest
  {
    OFFSET 0 10 0
    CHANNELS 3 Zrotation Xrotation Yrotation
    End Site
    {
      OFFSET 0 5 0
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.01
0 90 0 1 2 3 4 5 6
0 91 0 1 2 3 4 5 6
"""
_TRC: Final = (
    "PathFileType\t4\t(X/Y/Z)\ta.trc\n"
    "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame"
    "\tOrigNumFrames\n"
    "100\t100\t2\t2\tmm\t100\t1\t2\n"
    "Frame#\tTime\ta\t\t\tb\t\t\n"
    "\t\tX1\tY1\tZ1\tX2\tY2\tZ2\n"
    "1\t0.00\t1\t2\t3\t4\t5\t6\n"
    "2\t0.01\t1\t2\t3\t\t\t\n"
)
_NEXUS: Final = (
    "Trajectories\n100\n,,drone:a,,,drone:b,,\nFrame,Sub Frame,X,Y,Z,X,Y,Z\n,,mm,mm,mm,mm,mm,mm\n"
    "1,0,1,2,3,4,5,6\n2,0,1,2,3,,,\n"
)
_MOTIVE: Final = (
    "Format Version,1.23,Take Name,a,Capture Frame Rate,100,Rotation "
    "Type,Quaternion,Length Units,Meters\n"
    "\n"
    ",,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid Body,Rigid "
    "Body,Marker,Marker,Marker\n"
    ",,drone,drone,drone,drone,drone,drone,drone,m1,m1,m1\n"
    ',,"7","7","7","7","7","7","7","8","8","8"\n'
    ",,Rotation,Rotation,Rotation,Rotation,Position,Position,Position,Position,Position,Position\n"
    "Frame,Time (Seconds),X,Y,Z,W,X,Y,Z,X,Y,Z\n"
    "0,0.00,0,0,0,1,1,2,3,4,5,6\n"
    "1,0.01,0,0,0,1,1,2,3,,,\n"
)


def _c3d() -> bytes:
    """Two points in two frames, float32, Intel.

    Header, one block of parameters, data (c3d.org's user guide).
    """
    header = struct.pack("<BBHHHHHfHHf", 2, 0x50, 2, 0, 1, 2, 0, -1.0, 4, 0, 100.0).ljust(
        512, b"\0"
    )
    groups = b"".join(
        (
            _c3d_group(1, b"POINT"),
            _c3d_parameter(1, b"USED", 2, (), struct.pack("<h", 2)),
            _c3d_parameter(1, b"FRAMES", 2, (), struct.pack("<h", 2)),
            _c3d_parameter(1, b"SCALE", 4, (), struct.pack("<f", -1.0)),
            _c3d_parameter(1, b"RATE", 4, (), struct.pack("<f", 100.0)),
            _c3d_parameter(1, b"DATA_START", 2, (), struct.pack("<h", 4)),
            _c3d_parameter(1, b"UNITS", -1, (2,), b"mm"),
            _c3d_parameter(1, b"LABELS", -1, (4, 2), b"ab:x" + b"ab:y"),
        )
    )
    parameters = (struct.pack("<BBBB", 1, 0x50, 2, 84) + groups + b"\0\0").ljust(1024, b"\0")
    return header + parameters + struct.pack("<8f", 1, 2, 3, 0, 4, 5, 6, 0) * 2


def _c3d_group(number: int, name: bytes) -> bytes:
    return struct.pack("<bb", len(name), -number) + name + struct.pack("<hB", 3, 0)


def _c3d_parameter(
    group: int, name: bytes, kind: int, shape: tuple[int, ...], values: bytes
) -> bytes:
    body = struct.pack("<bB", kind, len(shape)) + bytes(shape) + values + b"\0"
    return struct.pack("<bb", len(name), group) + name + struct.pack("<h", len(body) + 2) + body


TARGETS: Final = (
    Target("euroc", _reader("a.csv", "euroc"), (ConfigError,), lambda: [_EUROC.encode()], 2048),
    Target("tum", _reader("a.txt", "tum"), (ConfigError,), lambda: [_TUM.encode()], 2048),
    Target("bvh", _reader("a.bvh", "bvh"), (ConfigError,), lambda: [_BVH.encode()], 2048),
    Target("c3d", _reader("a.c3d", "c3d"), (ConfigError,), lambda: [_c3d()], 4096),
    Target("trc", _reader("a.trc", "trc"), (ConfigError,), lambda: [_TRC.encode()], 2048),
    Target(
        "nexus-csv", _reader("a.csv", "nexus-csv"), (ConfigError,), lambda: [_NEXUS.encode()], 2048
    ),
    Target(
        "motive-csv",
        _reader("a.csv", "motive-csv"),
        (ConfigError,),
        lambda: [_MOTIVE.encode()],
        2048,
    ),
)
