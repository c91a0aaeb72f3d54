"""Writes small glTF files, element by element, as the specification describes them."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], "f4")
SQUARE_INDICES = np.array([0, 1, 2, 0, 2, 3], "u2")
SQUARE_UV = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], "f4")


class GltfFile:
    """A file under construction: ``json`` may be changed at will."""

    def __init__(self) -> None:
        self.binary = bytearray()
        self.json: dict[str, Any] = {
            "asset": {"version": "2.0"},
            "accessors": [],
            "bufferViews": [],
        }

    def add(self, kind: str, item: dict[str, Any]) -> int:
        """Append an element, answer its index."""
        self.json.setdefault(kind, []).append(item)
        return len(self.json[kind]) - 1

    def view(self, data: bytes, **more: Any) -> int:
        """Append a buffer view."""
        self.binary += bytes(-len(self.binary) % 4)
        start = len(self.binary)
        self.binary += data
        return self.add(
            "bufferViews", {"buffer": 0, "byteOffset": start, "byteLength": len(data), **more}
        )

    def accessor(self, values: Any, **more: Any) -> int:
        """Append an accessor over a tight view of its own."""
        array = np.asarray(values)
        array = array if array.ndim > 1 else array[:, None]
        kind = array.dtype.str[1:]
        item = {
            "componentType": COMPONENTS[kind],
            "count": len(array),
            "type": TYPES[array.shape[1]],
        }
        return self.add("accessors", {"bufferView": self.view(array.tobytes()), **item, **more})

    def mesh(
        self, positions: Any = SQUARE, indices: Any = None, mode: int = 4, **attributes: int
    ) -> int:
        """Append a mesh of one primitive; a material is named ``material``."""
        primitive: dict[str, Any] = {"mode": mode}
        if "material" in attributes:
            primitive["material"] = attributes.pop("material")
        primitive["attributes"] = {
            "POSITION": self.accessor(np.asarray(positions, "f4")),
            **attributes,
        }
        if indices is not None:
            primitive["indices"] = self.accessor(indices)
        return self.add("meshes", {"primitives": [primitive]})

    def node(self, **item: Any) -> int:
        """Append a node."""
        return self.add("nodes", item)

    def image(self, pixels: Any, kind: str = "PNG") -> int:
        """Append a picture in a buffer view."""
        data = io.BytesIO()
        Image.fromarray(np.asarray(pixels, np.uint8)).save(data, kind)
        return self.add(
            "images",
            {"bufferView": self.view(data.getvalue()), "mimeType": f"image/{kind.lower()}"},
        )

    def glb(self) -> bytes:
        """The file as GLB."""
        described = dict(self.json)
        if self.binary:
            described["buffers"] = [{"byteLength": len(self.binary)}]
        text = json.dumps({key: value for key, value in described.items() if value != []}).encode()
        text += b" " * (-len(text) % 4)
        body = struct.pack("<II", len(text), 0x4E4F534A) + text
        if self.binary:
            padded = bytes(self.binary) + bytes(-len(self.binary) % 4)
            body += struct.pack("<II", len(padded), 0x004E4942) + padded
        return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body

    def write(self, folder: Path, name: str = "model.glb") -> Path:
        """Write it as GLB."""
        path = folder / name
        path.write_bytes(self.glb())
        return path


def textured_square() -> GltfFile:
    """A square of 1 m with a picture, a normal map, a parent, a skin and an animation.

    A bit of everything.
    """
    file = GltfFile()
    picture = np.zeros((4, 4, 3), np.uint8)
    picture[0] = (255, 0, 0)
    texture = file.add(
        "textures",
        {"source": file.image(picture), "sampler": file.add("samplers", {"wrapS": 33071})},
    )
    use = {"index": texture}
    surface = {"baseColorTexture": use, "roughnessFactor": 0.5}
    material = file.add(
        "materials", {"pbrMetallicRoughness": surface, "normalTexture": use, "name": "paint"}
    )
    mesh = file.mesh(
        SQUARE,
        SQUARE_INDICES,
        TEXCOORD_0=file.accessor(SQUARE_UV),
        JOINTS_0=file.accessor(np.tile(np.array([0, 1, 0, 0], "u1"), (4, 1))),
        WEIGHTS_0=file.accessor(np.tile(np.array([0.5, 0.5, 0, 0], "f4"), (4, 1))),
        material=material,
    )
    bind = np.tile(np.eye(4, dtype="f4").reshape(16), (2, 1))
    file.node(name="upper", translation=[0, 1, 0])
    file.node(name="lower", children=[0])
    skin = file.add("skins", {"joints": [1, 0], "inverseBindMatrices": file.accessor(bind)})
    file.node(name="square", mesh=mesh, skin=skin)
    sampler = {
        "input": file.accessor(np.array([0, 1], "f4")),
        "output": file.accessor(np.eye(4, dtype="f4")[[3, 2]]),
    }
    channel = {"sampler": 0, "target": {"node": 0, "path": "rotation"}}
    file.add("animations", {"name": "turn", "samplers": [sampler], "channels": [channel]})
    file.add("scenes", {"nodes": [2, 1]})
    return file
