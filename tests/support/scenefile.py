"""Scene files in a folder, with models small enough to be written by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vil_bridge.core.errors import RendererError
from vil_renderer.embedded.scene import Environment, Scene
from vil_renderer.embedded.scenefile import load_scene

TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)


def bare() -> Scene:
    """A base with nothing in it."""
    return Scene(
        "bare", (), Environment(np.full(3, 0.3), np.full(3, 0.1), exposure=2.0, latitude_deg=10.0)
    )


BASES = {"bare": bare}


def read(folder: Path, text: str, bases: Mapping[str, Any] | None = None) -> Scene:
    """The scene of a file with this text."""
    path = folder / "test.yaml"
    path.write_text(text)
    return load_scene(path, BASES if bases is None else bases)


def problems(folder: Path, text: str, bases: Mapping[str, Any] | None = None) -> list[str]:
    """What is told of a file with this text, without the folder."""
    with pytest.raises(RendererError) as caught:
        read(folder, text, bases)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def write_glb(
    path: Path, nodes: Sequence[Mapping[str, Any]], lights: Sequence[Mapping[str, Any]] = ()
) -> None:
    """A GLB with one triangle as mesh 0; nodes are glTF's."""
    data = TRIANGLE.tobytes()
    document = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": list(range(len(nodes)))}],
        "scene": 0,
        "nodes": list(nodes),
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [
            {
                "bufferView": 0,
                "componentType": 5126,
                "count": 3,
                "type": "VEC3",
                "min": [0, 0, 0],
                "max": [1, 1, 0],
            }
        ],
        "bufferViews": [{"buffer": 0, "byteLength": len(data)}],
        "buffers": [{"byteLength": len(data)}],
    }
    if lights:
        document["extensionsUsed"] = ["KHR_lights_punctual"]
        document["extensions"] = {"KHR_lights_punctual": {"lights": list(lights)}}
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = (
        struct.pack("<I4s", len(text), b"JSON")
        + text
        + struct.pack("<I4s", len(data), b"BIN\0")
        + data
    )
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


def write_obj(path: Path) -> None:
    """One triangle: x, then y."""
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")


def write_stl(path: Path) -> None:
    """One triangle as text."""
    vertices = "".join(f"vertex {x} {y} {z}\n" for x, y, z in 1000 * TRIANGLE)
    path.write_text(
        f"solid s\nfacet normal 0 0 1\nouter loop\n{vertices}endloop\nendfacet\nendsolid s\n"
    )


def write_png(path: Path, colour: tuple[int, int, int] = (255, 0, 0)) -> None:
    """Two by two pixels."""
    Image.new("RGB", (2, 2), colour).save(path)


def points(scene: Scene, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Vertices of an object in the world, (n, 3)."""
    thing = next(o for o in scene.objects if o.name == name)
    made = []
    for node, matrix in zip(thing.asset.nodes, thing.asset.asset_from_node(), strict=True):
        m = thing.world_from_asset @ matrix
        made += [part.p_m @ m[:3, :3].T + m[:3, 3] for part in node.primitives]
    return np.concatenate(made)
