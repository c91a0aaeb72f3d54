"""Pose messages whose numbers the compiled kernel writes (``world/kernel/numbers.c``).

A text with gaps is made once for the same rigid actors, and each message fills its gaps. Numbers have nine decimals:
a nanometre, and a billionth of an attitude.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import numpy as np

from vil_bridge.core.types import ActorKind, ActorState, FloatArray, RenderRequest
from vil_bridge.world.kernel.library import KERNEL
from vil_renderer.flightgoggles.convert import PoseWriter, unity_poses
from vil_renderer.flightgoggles.messages import MAX_OBJECTS, PoseMessage

_ROW: Final = 7
_MOST_CHARACTERS: Final = 24
_POSITION: Final = b"[\1,\1,\1]"
_ROTATION: Final = b"[\1,\1,\1,\1]"
_POINTERS_AND_SIZES: Final = (
    *(ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64),
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
)


class _Text:
    """JSON of a list of structures, with gaps for the numbers of poses."""

    def __init__(self, structures: Sequence[Any], positions: Sequence[Any], values: FloatArray) -> None:
        row_of = {id(position): row for row, position in enumerate(positions)}
        rows = [row_of[id(one.position)] for one in structures if id(one.position) in row_of]
        self._text = msgspec.json.encode(structures)
        numbers = (_ROW * np.array(rows, dtype=np.int32)[:, None] + np.arange(_ROW, dtype=np.int32)).ravel()
        self._out = ctypes.create_string_buffer(len(self._text) + (numbers.size + 1) * _MOST_CHARACTERS)
        self._arrays = numbers, values
        self._arguments = (
            *(self._text, len(self._text), numbers.ctypes.data, numbers.size, values.ctypes.data),
            *(ctypes.addressof(self._out), len(self._out)),
        )

    def filled(self, fill: Any) -> msgspec.Raw | None:
        """Return the JSON with the values of now; None where one is not finite, or absurd."""
        size = fill(*self._arguments)
        return None if size < 0 else msgspec.Raw(ctypes.string_at(self._out, size))


class CompiledPoseWriter(PoseWriter):
    """Writer whose messages hold objects and actors as JSON already, where all of them are rigid."""

    def __init__(self, scene: str, prefabs: Mapping[ActorKind, str]) -> None:
        super().__init__(scene, prefabs)
        self._fill = cast("Any", KERNEL).vil_fill_numbers
        self._fill.argtypes, self._fill.restype = _POINTERS_AND_SIZES, ctypes.c_int64
        self._key: tuple[object, ...] = ()
        self._values = np.zeros((0, _ROW))
        self._texts: tuple[_Text, ...] = ()

    def _written(self, request: RenderRequest, actors: Sequence[ActorState], hidden: set[str]) -> PoseMessage:
        if not actors or any(actor.skeleton is not None for actor in actors):
            return super()._written(request, actors, hidden)
        described = tuple((a.name, a.kind, a.prefab, a.size_m) for a in actors)
        if self._key != (described, hidden, len(self._known)):
            self._describe(actors, hidden)
            self._key = described, hidden, len(self._known)
        self._values[:, :3], self._values[:, 3:] = unity_poses(actors)
        objects, extended = (text.filled(self._fill) for text in self._texts)
        if objects is None or extended is None or len(self._known) > MAX_OBJECTS:  # the encoder says why
            return super()._written(request, actors, hidden)
        return self._assembled(request, objects, extended, [])

    def _describe(self, actors: Sequence[ActorState], hidden: set[str]) -> None:
        """Make the texts for these actors."""
        positions: list[Any] = [msgspec.Raw(_POSITION) for _ in actors]
        rotations: list[Any] = [msgspec.Raw(_ROTATION) for _ in actors]
        self._values = np.zeros((len(actors), _ROW))
        structures = (
            self._objects(actors, hidden, positions, rotations),
            list(map(self._extended_actor, actors, positions, rotations)),
        )
        self._texts = tuple(_Text(of, positions, self._values) for of in structures)


def pose_writer(scene: str, prefabs: Mapping[ActorKind, str]) -> PoseWriter:
    """Return a writer: one that uses the kernel where it is there."""
    return PoseWriter(scene, prefabs) if KERNEL is None else CompiledPoseWriter(scene, prefabs)
