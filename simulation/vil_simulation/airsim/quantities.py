"""Numbers of AirSim's arguments by kind, each with its range from the table of physical ranges."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from vil_simulation.vehicles import physical_ranges as ranges
from vil_simulation.vehicles.physical_ranges import PhysicalRange

_RANGE: Final = "range"


def _within(permitted: PhysicalRange) -> msgspec.Meta:
    return msgspec.Meta(ge=permitted.least, le=permitted.most, extra={_RANGE: permitted})


def _whole(permitted: PhysicalRange) -> msgspec.Meta:
    return msgspec.Meta(ge=int(permitted.least), le=int(permitted.most), extra={_RANGE: permitted})


def range_of(annotated: object) -> PhysicalRange | None:
    """Return the range of a type of this module; None = it is another type."""
    for meta in getattr(annotated, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.extra:
            found: PhysicalRange = meta.extra[_RANGE]
            return found
    return None


Metres = Annotated[float, _within(ranges.POSITION)]
Centimetres = Annotated[float, _within(ranges.LENGTH_CM)]
WholeMetres = Annotated[int, _whole(ranges.BOX_SIDE)]
MetresPerSecond = Annotated[float, _within(ranges.SPEED)]
MetresPerSecond2 = Annotated[float, _within(ranges.ACCELERATION)]
Radians = Annotated[float, _within(ranges.ANGLE)]
Degrees = Annotated[float, _within(ranges.ANGLE_DEG)]
RadiansPerSecond = Annotated[float, _within(ranges.RATE)]
RadiansPerSecond2 = Annotated[float, _within(ranges.ANGULAR_ACCELERATION)]
DegreesPerSecond = Annotated[float, _within(ranges.RATE_DEG)]
DegreesOrRate = Annotated[float, _within(ranges.HEADING_DEG)]
Newtons = Annotated[float, _within(ranges.FORCE)]
WindSpeed = Annotated[float, _within(ranges.WIND)]
Share = Annotated[float, _within(ranges.SHARE)]
Stick = Annotated[float, _within(ranges.STICK)]
StickScale = Annotated[float, _within(ranges.STICK_SCALE)]
Gain = Annotated[float, _within(ranges.GAIN)]
Factor = Annotated[float, _within(ranges.FACTOR)]
Duration = Annotated[float, _within(ranges.TIMEOUT)]
StepSeconds = Annotated[float, _within(ranges.STEP)]
Period = Annotated[float, _within(ranges.PERIOD)]
Frames = Annotated[int, _whole(ranges.FRAMES)]
TimeStamp = Annotated[int, _whole(ranges.TIME_STAMP)]
FieldOfView = Annotated[float, _within(ranges.FIELD_OF_VIEW)]
LensParameter = Annotated[float, _within(ranges.DISTORTION)]
QuaternionPart = Annotated[float, _within(ranges.QUATERNION)]
ObjectScale = Annotated[float, _within(ranges.SCALE)]
DrawnSize = Annotated[float, _within(ranges.DRAWN_SIZE)]
DrawnLength = Annotated[float, _within(ranges.LENGTH)]
CellSize = Annotated[float, _within(ranges.CELL)]
Latitude = Annotated[float, _within(ranges.LATITUDE)]
Longitude = Annotated[float, _within(ranges.LONGITUDE)]
Altitude = Annotated[float, _within(ranges.ALTITUDE)]
Unused = Annotated[float, _within(ranges.UNUSED)]
