"""Numbers and the base class of the types of glTF's JSON.

Numbers are bounded where a wild one could make later arithmetic overflow.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Index = Annotated[int, Meta(ge=0, le=2**31)]
Size = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[float, Meta(ge=-1e12, le=1e12)]
Factor = Annotated[float, Meta(ge=0.0, le=1e6)]
Pair = tuple[Number, Number]
Vector = tuple[Number, Number, Number]
Quaternion = tuple[Number, Number, Number, Number]
Colour = tuple[Factor, Factor, Factor]
Matrix = Annotated[tuple[Number, ...], Meta(min_length=16, max_length=16)]
ComponentType = Literal[5120, 5121, 5122, 5123, 5125, 5126]


class GltfObject(msgspec.Struct, rename="camel", frozen=True):
    """JSON object whose unknown members are ignored, as the specification requires."""
