"""A scene as one small GLB for browsers.

Its static objects, merged by material, with textures of at most 512 px.

``python -m vil_renderer.embedded.servers.browser_scene NAME`` writes the GLB of a shipped scene to
stdout, ``--scene SCENE`` that of any scene, by name or file. Splats are their surface in their
colours. Lights, normal maps and movable objects are left out; OpenGL is not needed. Source: the
glTF 2.0 specification, KHR_mesh_quantization for normals of one byte.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import cv2
import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError, VilBridgeError
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf.read import Y_UP
from vil_renderer.embedded.assets.model import Material, Primitive, TextureUse
from vil_renderer.embedded.scene import Gate, Scene, SceneObject
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.embedded.scenes import SCENES
from vil_renderer.embedded.splats import arranged, read_splats
from vil_renderer.embedded.splats.surface import surface_of

_SIDE_PX: Final = 512
_QUALITY: Final = 82
_MAGIC: Final = 0x46546C67
_JSON: Final = 0x4E4F534A
_BINARY: Final = 0x004E4942
_ARRAY_BUFFER: Final = 34962
_ELEMENT_ARRAY_BUFFER: Final = 34963
_BYTE: Final = 5120
_UNSIGNED_BYTE: Final = 5121
_UNSIGNED_INT: Final = 5125
_FLOAT: Final = 5126
_WRAPS: Final = {"repeat": 10497, "clamp": 33071, "mirror": 33648}
_UNLIT: Final = "KHR_materials_unlit"
_ALPHA: Final = {"opaque": "OPAQUE", "mask": "MASK", "blend": "BLEND"}


def main(arguments: Sequence[str]) -> int:
    """Write the GLB of the scene.

    Return 0, or 2 when no shipped scene has that name or the file is wrong.
    """
    try:
        scene = _named(arguments)
    except VilBridgeError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sys.stdout.buffer.write(write_glb(scene))
    return 0


def _named(arguments: Sequence[str]) -> Scene:
    if arguments[:1] == ["--scene"]:
        return load_scene(arguments[1])
    name = arguments[0] if arguments else ""
    if name not in SCENES:
        raise ConfigError(f"no shipped scene is named {name!r}; known: {', '.join(sorted(SCENES))}")
    return SCENES[name]()


def write_glb(scene: Scene) -> bytes:
    """Return the whole file.

    Its ``extras.gates`` are the scene's gates in the world's axes (metres, z up).
    """
    writer = _Writer()
    for material, parts in _by_material(scene).items():
        writer.add(material, parts)
    return writer.file([_gate(gate) for gate in scene.gates])


def _gate(gate: Gate) -> dict[str, Any]:
    place = gate.T_world_gate
    p = place.p_m.tolist()
    q = place.q_xyzw.tolist()
    return {
        "name": gate.name,
        "p_m": p,
        "q_xyzw": q,
        "width_m": gate.width_m,
        "height_m": gate.height_m,
    }


def _by_material(scene: Scene) -> Mapping[Material, list[tuple[Primitive, FloatArray]]]:
    """Return every static primitive, with the matrix from its axes to the world."""
    found: dict[Material, list[tuple[Primitive, FloatArray]]] = {}
    for thing in (*scene.objects, *_surface(scene)):
        if thing.movable or (scene.splats is not None and thing.name in scene.splats.proxy):
            continue
        for node, asset_from_node in zip(
            thing.asset.nodes, thing.asset.asset_from_node(), strict=True
        ):
            for part in node.primitives:
                found.setdefault(part.material, []).append(
                    (part, thing.world_from_asset @ asset_from_node)
                )
    return found


def _surface(scene: Scene) -> tuple[SceneObject, ...]:
    """Return the surface of a scene's splats."""
    splats = scene.splats
    if splats is None:
        return ()
    field = splats.arranged or arranged(read_splats(splats.path))
    return (
        SceneObject(
            "surface of splats", surface_of(field, "surface of splats"), splats.T_world_splats
        ),
    )


class _Writer:
    """Writer of a document: views into one buffer, everything else as JSON."""

    def __init__(self) -> None:
        self._binary = bytearray()
        self._views: list[dict[str, Any]] = []
        self._accessors: list[dict[str, Any]] = []
        self._primitives: list[dict[str, Any]] = []
        self._materials: list[dict[str, Any]] = []
        self._textures: list[dict[str, Any]] = []
        self._samplers: list[dict[str, Any]] = []
        self._images: list[dict[str, Any]] = []
        self._seen: dict[int, int] = {}

    def add(self, material: Material, parts: list[tuple[Primitive, FloatArray]]) -> None:
        """Add one primitive of everything that has this material."""
        counts = np.cumsum([0, *(len(part.p_m) for part, _ in parts)])
        p_m = np.concatenate([part.p_m @ m[:3, :3].T + m[:3, 3] for part, m in parts]).astype("<f4")
        if not len(p_m):
            return
        normals = _unit(
            np.concatenate([part.normal @ np.linalg.inv(m[:3, :3]) for part, m in parts])
        )
        attributes = {
            "POSITION": self._array(
                p_m, _FLOAT, "VEC3", min=p_m.min(axis=0).tolist(), max=p_m.max(axis=0).tolist()
            ),
            "NORMAL": self._array(
                _padded(np.rint(127.0 * normals).astype(np.int8)), _BYTE, "VEC3", normalized=True
            ),
        }
        if material.base is not None:
            uv = np.concatenate([_uv(part, material.base) for part, _ in parts])
            attributes["TEXCOORD_0"] = self._array(uv.astype("<f4"), _FLOAT, "VEC2")
        if any(part.colour is not None for part, _ in parts):
            colour = np.concatenate([_colour(part) for part, _ in parts])
            attributes["COLOR_0"] = self._array(colour, _UNSIGNED_BYTE, "VEC4", normalized=True)
        corners = [
            part.triangles + np.uint32(first)
            for (part, _), first in zip(parts, counts, strict=False)
        ]
        indices = np.concatenate(corners).astype("<u4").reshape(-1)
        self._primitives.append(
            {
                "attributes": attributes,
                "indices": self._array(
                    indices, _UNSIGNED_INT, "SCALAR", target=_ELEMENT_ARRAY_BUFFER
                ),
                "material": self._material(material),
            }
        )

    def file(self, gates: list[dict[str, Any]]) -> bytes:
        """Return the GLB."""
        nodes: list[int] = []
        placed: list[dict[str, Any]] = []
        meshes: list[dict[str, Any]] = []
        if self._primitives:
            nodes = [0]
            placed = [{"mesh": 0, "matrix": Y_UP.reshape(-1).tolist()}]
            meshes = [{"primitives": self._primitives}]
        buffers: list[dict[str, int]] = []
        if self._binary:
            buffers = [{"byteLength": len(self._binary)}]
        document = {
            "asset": {"version": "2.0", "generator": "vil-bridge"},
            "extensionsUsed": ["KHR_mesh_quantization", _UNLIT],
            "extensionsRequired": ["KHR_mesh_quantization"],
            "extras": {"gates": gates},
            "scene": 0,
            "scenes": [{"nodes": nodes}],
            "nodes": placed,
            "meshes": meshes,
            "materials": self._materials,
            "textures": self._textures,
            "samplers": self._samplers,
            "images": self._images,
            "accessors": self._accessors,
            "bufferViews": self._views,
            "buffers": buffers,
        }
        text = msgspec.json.encode({key: value for key, value in document.items() if value != []})
        text += b" " * (-len(text) % 4)
        chunks = struct.pack("<II", len(text), _JSON) + text
        if self._binary:
            chunks += struct.pack("<II", len(self._binary), _BINARY) + bytes(self._binary)
        return struct.pack("<III", _MAGIC, 2, 12 + len(chunks)) + chunks

    def _array(
        self,
        values: npt.NDArray[Any],
        component: int,
        kind: str,
        target: int = _ARRAY_BUFFER,
        **more: Any,
    ) -> int:
        stride = {"byteStride": values.strides[0]} if target == _ARRAY_BUFFER else {}
        view = self._view(values.tobytes(), target=target, **stride)
        accessor = {
            "bufferView": view,
            "componentType": component,
            "type": kind,
            "count": len(values),
            **more,
        }
        self._accessors.append(accessor)
        return len(self._accessors) - 1

    def _view(self, data: bytes, **more: Any) -> int:
        self._views.append(
            {"buffer": 0, "byteOffset": len(self._binary), "byteLength": len(data), **more}
        )
        self._binary += data + bytes(-len(data) % 4)
        return len(self._views) - 1

    def _material(self, material: Material) -> int:
        surface: dict[str, Any] = {
            "baseColorFactor": list(material.base_colour),
            "metallicFactor": material.metallic,
            "roughnessFactor": material.roughness,
        }
        if material.base is not None:
            surface["baseColorTexture"] = {"index": self._texture(material.base)}
        described: dict[str, Any] = {
            "name": material.name,
            "pbrMetallicRoughness": surface,
            "emissiveFactor": np.clip(material.emissive_light, 0.0, 1.0).tolist(),
            "alphaMode": _ALPHA[material.alpha],
            "doubleSided": material.double_sided,
        }
        if material.alpha == "mask":
            described["alphaCutoff"] = material.alpha_cutoff
        if material.unlit:
            described["extensions"] = {_UNLIT: {}}
        self._materials.append(described)
        return len(self._materials) - 1

    def _texture(self, use: TextureUse) -> int:
        texture = use.texture
        if id(texture) not in self._seen:
            data, kind = _picture(texture.pixels)
            self._images.append({"bufferView": self._view(data), "mimeType": kind})
            wrap_u, wrap_v = (_WRAPS[wrap] for wrap in texture.wrap)
            self._samplers.append({"wrapS": wrap_u, "wrapT": wrap_v})
            self._textures.append(
                {"source": len(self._images) - 1, "sampler": len(self._samplers) - 1}
            )
            self._seen[id(texture)] = len(self._textures) - 1
        return self._seen[id(texture)]


def _picture(pixels: npt.NDArray[np.uint8]) -> tuple[bytes, str]:
    """Encode as JPEG, or as PNG if there is alpha; no side exceeds the limit."""
    scale = min(1.0, _SIDE_PX / max(pixels.shape[:2]))
    size = (max(1, round(scale * pixels.shape[1])), max(1, round(scale * pixels.shape[0])))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    if small.shape[2] == 4:
        return cv2.imencode(".png", cv2.cvtColor(small, cv2.COLOR_RGBA2BGRA))[
            1
        ].tobytes(), "image/png"
    quality = (cv2.IMWRITE_JPEG_QUALITY, _QUALITY)
    return cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), quality)[
        1
    ].tobytes(), "image/jpeg"


def _unit(vectors: FloatArray) -> FloatArray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), np.float64)


def _padded(rows: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Return rows (n, 3) of bytes at steps of four, as vertices must lie."""
    return np.concatenate((rows, np.zeros((len(rows), 1), np.int8)), axis=1)


def _uv(part: Primitive, use: TextureUse) -> FloatArray:
    uv = part.uv if use.uv_set == 0 or part.uv1 is None else part.uv1
    return np.asarray(uv @ use.transform[:, :2].T + use.transform[:, 2], np.float64)


def _colour(part: Primitive) -> npt.NDArray[np.uint8]:
    return np.full((len(part.p_m), 4), 255, np.uint8) if part.colour is None else part.colour


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
