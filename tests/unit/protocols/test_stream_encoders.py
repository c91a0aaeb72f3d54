"""Pictures keep their pixels, their rows and their memory."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import simplejpeg
import zmq

from tests.support.stream_rig import photo
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.protocols.image_codecs import EncodingOptions, encode

RAW_RGB, RAW_GRAY = EncodingOptions("raw", "rgb", 90), EncodingOptions("raw", "gray", 90)


def decoded(payload: bytes | memoryview | zmq.Frame, fields: dict[str, str | int]) -> ImageArray:
    payload = payload.buffer if isinstance(payload, zmq.Frame) else payload
    dtype, channels = {"gray8": ("u1", ()), "rgb8": ("u1", (3,)), "depth16": ("<u2", ())}[
        str(fields["format"])
    ]
    image = np.frombuffer(payload, dtype).reshape(
        int(fields["height"]), int(fields["width"]), *channels
    )
    return image[::-1] if fields["rows"] == "bottom_up" else image


def bottom_up(pixels: ImageArray) -> ImageArray:
    """The same picture as a renderer's codec hands it over.

    Upright view of an upside-down buffer.
    """
    wire = np.ascontiguousarray(pixels[::-1])
    return wire[::-1]


def psnr_db(a: ImageArray, b: ImageArray) -> float:
    return float(10 * np.log10(255.0**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


@pytest.mark.parametrize(
    "view", [lambda p: p, bottom_up, lambda p: np.repeat(p, 2, axis=1)[:, ::2]]
)
def test_raw_is_bit_exact_whatever_the_memory_layout(view: object) -> None:
    rgb = photo()
    pixels = view(rgb)  # type: ignore[operator]
    assert np.array_equal(pixels, rgb)
    got = encode(pixels, RAW_RGB, Modality.RGB)
    assert np.array_equal(decoded(got.payload, got.fields), rgb)
    gray = encode(pixels, RAW_GRAY, Modality.RGB)
    assert np.array_equal(decoded(gray.payload, gray.fields), cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))


def test_raw_does_not_copy_what_is_contiguous_even_upside_down() -> None:
    rgb = photo()
    for pixels in (rgb, bottom_up(rgb)):
        payload = encode(pixels, RAW_RGB, Modality.RGB).payload
        assert isinstance(payload, memoryview)
        assert np.shares_memory(np.frombuffer(payload, np.uint8), pixels)


def test_a_received_picture_is_sent_on_as_the_message_part_that_it_was() -> None:
    rgb = photo(48, 64)
    part = zmq.Frame(np.ascontiguousarray(rgb[::-1]).tobytes())
    pixels = np.frombuffer(part.buffer, np.uint8).reshape(rgb.shape)[::-1]
    got = encode(pixels, RAW_RGB, Modality.RGB)
    assert got.payload is part
    assert np.array_equal(decoded(part.buffer, got.fields), rgb)
    crop = encode(pixels[:24], RAW_RGB, Modality.RGB)  # only a part of it: must not send the whole
    assert np.array_equal(decoded(crop.payload, crop.fields), rgb[:24])


def test_gray_weights_are_those_of_luma() -> None:
    for rgb, gray in (
        ((255, 0, 0), 76),
        ((0, 255, 0), 150),
        ((0, 0, 255), 29),
        ((255, 255, 255), 255),
    ):
        pixels = np.full((8, 8, 3), rgb, np.uint8)
        got = encode(pixels, RAW_GRAY, Modality.RGB)
        assert decoded(got.payload, got.fields).tolist() == [[gray] * 8] * 8


def test_depth_keeps_all_sixteen_bits() -> None:
    depth = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) * 21
    for wants in (RAW_RGB, RAW_GRAY):
        got = encode(bottom_up(depth), wants, Modality.DEPTH)
        assert got.fields == {
            "encoding": "raw",
            "format": "depth16",
            "rows": "bottom_up",
            "width": 64,
            "height": 48,
        }
        assert np.array_equal(decoded(got.payload, got.fields), depth)


@pytest.mark.parametrize("color", ["gray", "rgb"])
def test_jpeg_is_upright_and_close(color: str) -> None:
    rgb = photo()
    truth = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[:, :, None] if color == "gray" else rgb
    for pixels in (rgb, bottom_up(rgb)):
        got = encode(pixels, EncodingOptions("jpeg", color, 90), Modality.RGB)
        image = simplejpeg.decode_jpeg(got.payload, "GRAY" if color == "gray" else "RGB")
        assert got.fields["rows"] == "top_down"
        assert psnr_db(image, truth) > 38.0
    subsampling = simplejpeg.decode_jpeg_header(got.payload)[3]
    assert subsampling == ("Gray" if color == "gray" else "420")


def test_jpeg_quality_is_obeyed() -> None:
    sizes = [
        len(encode(photo(), EncodingOptions("jpeg", "gray", q), Modality.RGB).payload)
        for q in (30, 60, 90)
    ]
    assert sizes == sorted(sizes) and sizes[0] < 0.7 * sizes[2]


def test_a_gray_picture_stays_gray() -> None:
    gray = photo()[:, :, 0]
    got = encode(gray, RAW_RGB, Modality.RGB)
    assert got.fields["format"] == "gray8"
    assert np.array_equal(decoded(got.payload, got.fields), gray)
    assert (
        encode(gray, EncodingOptions("jpeg", "rgb", 90), Modality.RGB).fields["format"] == "gray8"
    )
