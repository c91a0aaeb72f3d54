"""Whatever bytes a glTF file holds, it is read or refused as a model; what is read can be used."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.gltf import textured_square
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.animation import sample
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.model import Asset

GOOD = textured_square().glb()
(JSON_BYTES,) = struct.unpack_from("<I", GOOD, 12)
bytewise = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def check_usable(asset: Asset) -> None:
    matrices = asset.asset_from_node()
    assert np.isfinite(matrices).all()
    for node in asset.nodes:
        assert node.parent < len(asset.nodes)
        for part in node.primitives:
            count = len(part.p_m)
            assert part.triangles.size == 0 or part.triangles.max() < count
            for array in (part.p_m, part.normal, part.uv, part.tangent, part.weights):
                assert array is None or (len(array) == count and np.isfinite(array).all())
            np.testing.assert_allclose(np.linalg.norm(part.normal, axis=1), 1.0, atol=1e-5)
            if part.joints is not None:
                assert node.skin is not None
                assert part.joints.max(initial=0) < len(node.skin.joints)
        if node.skin is not None:
            assert max(node.skin.joints) < len(asset.nodes)
    for clip in asset.animations.values():
        assert np.isfinite(sample(asset, clip, 0.3)).all()


def read_or_refuse(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        asset = load_gltf(path)
    except AssetError as exc:
        assert str(exc).startswith(path.name)
        return
    check_usable(asset)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.glb"
    for end in range(0, len(GOOD), 7):
        path.write_bytes(GOOD[:end])
        with pytest.raises(AssetError):
            load_gltf(path)


@bytewise
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=8)
)
def test_changed_bytes(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    read_or_refuse(tmp_path / "changed.glb", bytes(data))


@bytewise
@given(st.integers(20 + JSON_BYTES, len(GOOD) - 1), st.binary(min_size=1, max_size=64))
def test_changed_arrays_and_pictures(tmp_path: Path, at: int, patch: bytes) -> None:
    data = bytearray(GOOD)
    data[at : at + len(patch)] = patch[: len(data) - at]
    read_or_refuse(tmp_path / "changed.glb", bytes(data))


@bytewise
@given(st.data())
def test_changed_numbers_in_the_text(tmp_path: Path, data: st.DataObject) -> None:
    """Digits become other digits.

    Indices, counts, offsets, types and factors that are valid JSON.
    """
    text = bytearray(GOOD[20 : 20 + JSON_BYTES])
    digits = [i for i, byte in enumerate(text) if chr(byte).isdigit()]
    for at in data.draw(st.lists(st.sampled_from(digits), min_size=1, max_size=4)):
        text[at] = data.draw(st.sampled_from(b"0123456789"))
    read_or_refuse(tmp_path / "changed.glb", GOOD[:20] + bytes(text) + GOOD[20 + JSON_BYTES :])


@bytewise
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes(tmp_path: Path, data: bytes, framed: bool) -> None:
    head: Any = (
        struct.pack("<4sIIII", b"glTF", 2, 20 + len(data), len(data), 0x4E4F534A) if framed else b""
    )
    read_or_refuse(tmp_path / "random.glb", head + data)
