from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.flightgoggles import ask, drone, golden, human, picture, pose_at, same_mask, view
from tests.support.json_changes import changed
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, CameraModel, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_renderer.flightgoggles.codec import (
    TOPIC,
    decode_images,
    decode_pose,
    decode_slot,
    encode_images,
    encode_pose,
)
from vil_renderer.flightgoggles.convert import PoseWriter, read_answer
from vil_renderer.flightgoggles.convert_renderer import read_pose
from vil_renderer.flightgoggles.messages import EXTENSION_VERSION, AnswerExtension, ImageHeader
from vil_renderer.flightgoggles.pictures import PixelImage, slot_arrays

PREFABS = {ActorKind.VEHICLE: "Quad", ActorKind.HUMAN: "", ActorKind.PROP: ""}
POSES = [golden(name)[1] for name in ("pose_v1.json", "pose_v2.json", "pose_v3.json")]
POSES.append(
    encode_pose(
        PoseWriter("Hall", PREFABS).message(
            ask(1, actors=[human(0.3), drone("d", pose_at(0, 0, 1))])
        )
    )[1]
)
ANSWER = [
    bytes(part)
    for part in encode_images(
        ImageHeader(
            camWidth=4, camHeight=3, cameraIDs=["front"], channels=[3], cameraIndexes=[0], ntime=1
        ),
        [PixelImage(picture(Modality.RGB, 4, 3))],
    )
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def random_picture(
    noise: np.random.Generator, modality: Modality, width: int, height: int
) -> PixelImage:
    """Any values that the modality may have."""
    form = FORMAT_OF[modality]
    shape = form.shape(width, height)
    if form.dtype in ("<f4", "<f2"):
        pixels = (noise.normal(size=shape) * 10).astype(form.dtype)
    else:
        pixels = noise.integers(1, 1 + np.iinfo(form.dtype).max, shape).astype(form.dtype)
    return PixelImage(pixels, noise.random((height, width)) < 0.5 if form.masked else None)


def read_all(frames: list[bytes]) -> None:
    """Both readers to the end, as client and renderer would; anything but ProtocolError escapes."""
    with contextlib.suppress(ProtocolError):
        read_pose(decode_pose(frames))
    with contextlib.suppress(ProtocolError):
        read_answer(*decode_images(frames), ask(1), 0)


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_random_bytes_raise_only_protocol_errors(frames: list[bytes]) -> None:
    read_all(frames)
    read_all([TOPIC, *frames])
    read_all([ANSWER[0], *frames])


@given(st.sampled_from([*POSES, ANSWER[0]]), st.data())
def test_overwritten_bytes_raise_only_protocol_errors(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=6))
    broken = body[:at] + patch + body[at + len(patch) :]
    read_all([TOPIC, broken])
    read_all([broken, ANSWER[1]])


@given(st.sampled_from([*POSES, ANSWER[0]]), st.data(), JSON)
def test_any_value_of_any_key_raises_only_protocol_errors(
    body: bytes, data: st.DataObject, value: Any
) -> None:
    broken = changed(body, data, value, depth=4)
    read_all([TOPIC, broken])
    read_all([broken, ANSWER[1]])


@given(
    st.integers(1, 2**62 - 1),
    st.integers(1, 12),
    st.integers(1, 12),
    st.lists(st.sampled_from(list(Modality)), min_size=1, max_size=3, unique=True),
    st.randoms(use_true_random=False),
)
def test_pictures_of_any_size_survive_the_wire(
    ntime: int, width: int, height: int, modalities: list[Modality], rng: Any
) -> None:
    camera = CameraModel("front", width, height, 1.0)
    request = ask(ntime, [view(camera, modality) for modality in modalities])
    noise = np.random.default_rng(rng.getrandbits(32))
    pictures = [random_picture(noise, modality, width, height) for modality in modalities]
    header = ImageHeader(
        camWidth=width,
        camHeight=height,
        cameraIDs=[v.key for v in request.views],
        channels=[3] * len(modalities),
        ntime=ntime,
        vil=AnswerExtension(v=EXTENSION_VERSION, formats=[FORMAT_OF[m].name for m in modalities]),
    )
    frame, problems = read_answer(*decode_images(encode_images(header, pictures)), request, 0)
    slot = np.frombuffer(b"".join(a.tobytes() for a in slot_arrays(pictures)), np.uint8)
    through_memory, more_problems = read_answer(header, decode_slot(header, slot), request, 0)
    assert problems == more_problems == []
    for by_wire, by_slot, was in zip(frame.images, through_memory.images, pictures, strict=True):
        for got in (by_wire, by_slot):
            assert got.pixels.dtype == was.pixels.dtype
            assert np.array_equal(got.pixels, was.pixels)
            assert same_mask(got.valid, was.valid)
