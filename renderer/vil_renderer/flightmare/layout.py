"""Images of a frame, their order and sizes: both ends compute them from the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from msgspec import UNSET

from vil_bridge.core.errors import ProtocolError
from vil_renderer.flightmare.messages import MAX_IMAGE_BYTES, FlightmareCamera, VehicleMessage

_MAX_FRAME_BYTES: Final = 512 << 20
_DEPTH_PLANE: Final = 1
_FAR_M: Final = 100.0
_NEAREST_FAR_M = 1e-3
_FARTHEST_FAR_M = 1e6
_AGILE_FAR_M: Final = 1000.0
"""agile-autonomy sends no clip planes, and takes depth times 1000 for metres."""


class Layer(Enum):
    """Content of an image; the three after the colours come in this order."""

    COLOUR = auto()
    DEPTH = auto()
    SEGMENTATION = auto()
    FLOW = auto()
    EVENTS = auto()
    """Of an event camera: a picture of colours and two JSON parts."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One picture of a frame.

    Attributes:
        vehicle: index in the settings. camera: index on that vehicle, among event cameras for
            ``EVENTS``.
        far_m: depth that is 1 in the picture.
    """

    vehicle: int
    camera: int
    layer: Layer
    width_px: int
    height_px: int
    far_m: float = _FAR_M

    @property
    def parts(self) -> int:
        """Return the number of message parts of the image."""
        return 3 if self.layer is Layer.EVENTS else 1


def slots_of(vehicles: Sequence[VehicleMessage]) -> list[Slot]:
    """Return the slots of a frame, in the order of its parts.

    Pictures of colours have their camera's size, layers that of the first camera of the main
    vehicle, which is the one in the middle of the list.

    Raises:
        ProtocolError: the images exceed the size limits.
    """
    main = vehicles[len(vehicles) // 2].cameras
    slots: list[Slot] = []
    for v, vehicle in enumerate(vehicles):
        for c, camera in enumerate(vehicle.cameras):
            slots.append(Slot(v, c, Layer.COLOUR, camera.width, camera.height))
            sized = main[0] if main else camera
            slots += [
                Slot(v, c, layer, sized.width, sized.height, _far_m(camera))
                for layer in _layers(camera)
            ]
        if vehicle.eventcameras is not UNSET:
            slots += [
                Slot(v, c, Layer.EVENTS, e.width, e.height)
                for c, e in enumerate(vehicle.eventcameras)
            ]
    sizes = [4 * slot.width_px * slot.height_px for slot in slots]
    if max(sizes, default=0) > MAX_IMAGE_BYTES or sum(sizes) > _MAX_FRAME_BYTES:
        raise ProtocolError(f"pictures of {sum(sizes) >> 20} MiB are asked for")
    return slots


def _layers(camera: FlightmareCamera) -> Iterator[Layer]:
    if camera.post_processing is not UNSET:
        for i, name in enumerate(camera.post_processing):
            # The renderer's names are its own; its client takes the first one for depth whatever it
            # says.
            if i == 0:
                yield Layer.DEPTH
            elif "flow" in name.lower():
                yield Layer.FLOW
            else:
                yield Layer.SEGMENTATION
    elif camera.enabledLayers is not UNSET:
        for on, layer in zip(
            camera.enabledLayers, (Layer.DEPTH, Layer.SEGMENTATION, Layer.FLOW), strict=False
        ):
            if on:
                yield layer


def _far_m(camera: FlightmareCamera) -> float:
    if camera.farClipPlane is not UNSET and camera.farClipPlane[_DEPTH_PLANE] > 0.0:
        return min(max(camera.farClipPlane[_DEPTH_PLANE], _NEAREST_FAR_M), _FARTHEST_FAR_M)
    return _FAR_M if camera.post_processing is UNSET else _AGILE_FAR_M
