"""Labels of streamed markers: subject and marker of each."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.protocols.natnet.frame import MARKER, OCCLUDED, UNLABELED, NatNetFrame
from vil_bridge.protocols.natnet.model import Models

BONE_MASK: Final = 0xFFFF
"""The bone's or marker's part of a streamed id; the rest is that of the model it belongs to."""


class MarkerLabels:
    """Names streamed markers ``subject/marker`` by the descriptions of one server.

    A streamed id is (model id << 16) | marker number, and ids of bodies, skeletons and trained sets
    may be the same: the model is then one that has a marker of this number, and of several markers
    of one id the first is the body's, the next the skeleton's or the trained set's. A marker that
    the descriptions do not name goes by its number.
    """

    def __init__(self, models: Models, *, unlabeled: bool) -> None:
        self._unlabeled = unlabeled
        self._sets = {name: described.markers for name, described in models.marker_sets.items()}
        self._models: dict[int, list[tuple[str, tuple[str, ...]]]] = {}
        for body in models.bodies:
            own = tuple(marker.name for marker in body.markers)
            self._add(body.id, body.name, own if any(own) else self._sets.get(body.name, own))
        for skeleton in models.skeletons:
            self._add(skeleton.id, skeleton.name, self._sets.get(skeleton.name, ()))
        self._assets: dict[int, tuple[str, dict[int, str]]] = {}
        for asset in models.assets:
            self._add(asset.id, asset.name, tuple(marker.name for marker in asset.markers))
            names = {marker.id & BONE_MASK: marker.name for marker in asset.markers}
            self._assets[asset.id] = (asset.name, names)
        self._bound: tuple[bytes, tuple[str, ...]] = (b"", ())

    def _add(self, identity: int, subject: str, markers: tuple[str, ...]) -> None:
        self._models.setdefault(identity, []).append((subject, markers))

    def read(
        self, frame: NatNetFrame, *, before_3: bool
    ) -> tuple[tuple[str, ...], FloatArray, BoolArray]:
        """Return the labels, the positions (k, 3) in streamed units and axes, and which are seen.

        K,.

        Args:
            frame: what was streamed.
            before_3: a server of 2.x, which streams unlabeled markers in a section of their own
                only.
        """
        markers = frame.markers
        if not self._unlabeled:
            markers = markers[~_unlabeled(markers["id"], markers["params"])]
        labels = self._labels(markers["id"].tobytes(), markers["params"].tobytes())
        places = [markers["p"]]
        seen = [(markers["params"] & OCCLUDED) == 0]
        for asset in frame.assets:
            labels += self._asset_labels(asset.id, asset.markers["id"].tolist())
            places.append(asset.markers["p"])
            seen.append((asset.markers["params"] & OCCLUDED) == 0)
        if self._unlabeled and before_3:
            labels += ("",) * len(frame.other_markers)
            places.append(frame.other_markers)
            seen.append(np.ones(len(frame.other_markers), dtype=np.bool_))
        return labels, np.concatenate(places).astype(np.float64), np.concatenate(seen)

    def _labels(self, ids: bytes, params: bytes) -> tuple[str, ...]:
        """Return the labels of a sequence of markers.

        The last result is cached, since sequences seldom change.
        """
        kinds = np.frombuffer(params, MARKER["params"])
        bare = _unlabeled(numbers := np.frombuffer(ids, MARKER["id"]), kinds)
        key = ids + bare.tobytes()
        if key != self._bound[0]:
            seen: Counter[int] = Counter()
            labels = []
            for identity, unlabeled in zip(numbers.tolist(), bare.tolist(), strict=True):
                labels.append("" if unlabeled else self._label(identity, seen[identity]))
                seen[identity] += 1
            self._bound = key, tuple(labels)
        return self._bound[1]

    def _label(self, identity: int, before: int) -> str:
        """Return the label of a marker by the number of markers with the same id before it in
        the frame.
        """
        number = identity & BONE_MASK
        models = self._models.get(identity >> 16, [])
        fitting = [
            (subject, names) for subject, names in models if 0 < number <= len(names)
        ] or models
        if not fitting:
            return ""
        subject, names = fitting[min(before, len(fitting) - 1)]
        return f"{subject}/{(names[number - 1] if 0 < number <= len(names) else '') or number}"

    def _asset_labels(self, identity: int, ids: list[int]) -> tuple[str, ...]:
        subject, names = self._assets.get(identity, ("", {}))
        if not subject:
            return ("",) * len(ids)
        return tuple(f"{subject}/{names.get(i & BONE_MASK, i & BONE_MASK)}" for i in ids)


def _unlabeled(ids: npt.NDArray[np.int32], params: npt.NDArray[np.int16]) -> BoolArray:
    bare: BoolArray = ((params & UNLABELED) != 0) | (ids >> 16 == 0)
    return bare
