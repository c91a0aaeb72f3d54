"""QTM bytes: vectors written from the published layout, both ways, and everything that is wrong
with bytes.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_adapters.qualisys.codec import (
    DataFrame,
    Framing,
    PacketType,
    body_records,
    decode_data,
    decode_discovery_reply,
    decode_discovery_request,
    encode_data,
    encode_discovery_reply,
    encode_discovery_request,
    encode_packet,
    encode_text,
    segment_records,
)
from vil_adapters.qualisys.parameters import (
    BodyInfo,
    Parameters,
    QualisysSegment,
    SkeletonInfo,
    decode_parameters,
    encode_parameters,
)
from vil_bridge.core.errors import ProtocolError


def example() -> DataFrame:
    bodies = body_records(2)
    bodies[0] = (1.0, 2.0, 3.0), (0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    segments = segment_records(1)
    segments[0] = 7, (4.0, 5.0, 6.0), (0.0, 0.0, 0.6, 0.8)
    return DataFrame(1_500_000, 42, bodies, (segments, segment_records(0)))


# Body of the data packet of `example`, field by field from the layout.
EXAMPLE = b"".join(
    (
        struct.pack("<qII", 1_500_000, 42, 2),
        struct.pack("<II", 8 + 8 + 2 * 48, 5),
        struct.pack("<iHH", 2, 0, 0),
        struct.pack("<12f", 1, 2, 3, 0, 1, 0, -1, 0, 0, 0, 0, 1),
        struct.pack("<12f", *[math.nan] * 12),
        struct.pack("<II", 8 + 4 + 4 + 32 + 4, 18),
        struct.pack("<ii", 2, 1),
        struct.pack("<i7f", 7, 4, 5, 6, 0, 0, 0.6, 0.8),
        struct.pack("<i", 0),
    )
)


def test_a_frame_has_the_published_layout() -> None:
    assert encode_data(example()) == EXAMPLE
    frame = decode_data(EXAMPLE)
    assert (frame.t_us, frame.number) == (1_500_000, 42)
    assert frame.bodies is not None and frame.skeletons is not None
    assert frame.bodies.tobytes() == example().bodies.tobytes()  # type: ignore[union-attr]
    assert [len(segments) for segments in frame.skeletons] == [1, 0]
    assert frame.skeletons[0]["id"].tolist() == [7]
    assert frame.skeletons[0]["q_xyzw"][0] == pytest.approx([0.0, 0.0, 0.6, 0.8])


def test_unknown_components_are_passed_over_by_their_size() -> None:
    timecode = struct.pack("<II", 8 + 16, 17) + bytes(16)
    body = struct.pack("<qII", 1, 2, 3) + timecode + EXAMPLE[16:]
    frame = decode_data(body)
    assert frame.bodies is not None and len(frame.bodies) == 2
    assert decode_data(struct.pack("<qII", 1, 2, 0)).bodies is None


@pytest.mark.parametrize("length", range(len(EXAMPLE)))
def test_every_truncation_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        decode_data(EXAMPLE[:length])


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (12, 99),
        (16, 7),
        (16, 2**31),
        (24, -1),
        (24, 2**31 - 1),
        (128, 9),
        (136, 2**30),
        (136, -5),
        (140, 2**30),
    ],
)
def test_counts_and_sizes_that_lie_are_refused(offset: int, value: int) -> None:
    lying = EXAMPLE[:offset] + struct.pack("<q", value)[:4] + EXAMPLE[offset + 4 :]
    with pytest.raises(ProtocolError):
        decode_data(lying)


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_protocol_errors(data: bytes) -> None:
    for decode in (
        decode_data,
        decode_discovery_reply,
        decode_discovery_request,
        decode_parameters,
    ):
        try:
            decode(data)
        except ProtocolError:
            continue
    try:
        list(Framing().feed(data))
    except ProtocolError:
        return


@given(st.lists(st.integers(1, 40), max_size=30))
def test_framing_does_not_depend_on_how_bytes_arrive(cuts: list[int]) -> None:
    packets = [
        encode_text(PacketType.COMMAND, "version 1.25"),
        encode_packet(PacketType.DATA, EXAMPLE),
    ]
    stream = b"".join(packets)
    framing = Framing()
    found = []
    for size in [*cuts, len(stream)]:
        chunk, stream = stream[:size], stream[size:]
        found += list(framing.feed(chunk))
    assert found == [(1, packets[0]), (3, packets[1])]


@pytest.mark.parametrize("size", [0, 7, 2**31, 2**32 - 1])
def test_a_size_that_no_packet_has_is_refused_at_once(size: int) -> None:
    framing = Framing()
    with pytest.raises(ProtocolError):
        list(framing.feed(struct.pack("<II", size, 3)))


def test_discovery_has_the_published_layout() -> None:
    assert encode_discovery_request(0x1234) == bytes.fromhex("0a000000 07000000 1234")
    assert decode_discovery_request(bytes.fromhex("0a000000 07000000 1234")) == 0x1234
    reply = struct.pack("<II", 8 + 4 + 2, 7) + b"QTM\0" + struct.pack(">H", 22222)
    assert encode_discovery_reply("QTM", 22222) == reply
    assert decode_discovery_reply(reply) == ("QTM", 22222)
    for length in range(len(reply)):
        with pytest.raises(ProtocolError):
            decode_discovery_reply(reply[:length])


# --- parameters -----------------------------------------------------------------------------------

XML = b"""<QTM_Parameters_Ver_1.25>
  <The_3D><AxisUpwards>+Y</AxisUpwards></The_3D>
  <The_6D>
    <Body><Name>drone</Name><Enabled>true</Enabled><Points><Point X="1" Y="2" Z="3"/></Points>
      </Body>
    <Body><Name>spare &amp; old</Name><Enabled>False</Enabled></Body>
    <Body><Name>gate</Name></Body>
    <Euler><First>Yaw</First></Euler>
  </The_6D>
  <Skeletons><Skeleton Name="Anna"><Scale>1.1</Scale><Segments>
    <Segment Name="Hips" ID="4">
      <Transform><Position X="0" Y="0" Z="9"/></Transform>
      <DefaultTransform><Position X="1" Y="2" Z="930.5"/></DefaultTransform>
      <Segment Name="Spine" ID="2"><Position X="0" Y="0" Z="100"/><Segment Name="Head" ID="9"/>
        </Segment>
    </Segment>
  </Segments></Skeleton></Skeletons>
</QTM_Parameters_Ver_1.25>\0"""


def test_parameters_are_read() -> None:
    parameters = decode_parameters(XML)
    assert parameters.up_axis == "+Y"
    assert parameters.bodies == (
        BodyInfo("drone"),
        BodyInfo("spare & old", enabled=False),
        BodyInfo("gate"),
    )
    (anna,) = parameters.skeletons
    assert (anna.name, anna.scale) == ("Anna", 1.1)
    assert anna.segments == (
        QualisysSegment(4, "Hips", None, (1.0, 2.0, 930.5)),
        QualisysSegment(2, "Spine", 4, (0.0, 0.0, 100.0)),
        QualisysSegment(9, "Head", 2, (0.0, 0.0, 0.0)),
    )


def test_parameters_make_the_round_trip() -> None:
    parameters = decode_parameters(XML)
    xml = encode_parameters(parameters, "1.25", {"3d", "6d", "skeleton"})
    assert decode_parameters(xml.encode()) == parameters
    assert decode_parameters(encode_parameters(parameters, "1.19", {"6d"}).encode()) == Parameters(
        parameters.bodies
    )


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b"<a><b></a>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        b"<a><Skeletons><Skeleton><Segments><Segment "
        b'Name="x"/></Segments></Skeleton></Skeletons></a>',
        b'<a><Skeletons><Skeleton><Segments><Segment ID="1"/><Segment '
        b'ID="1"/></Segments></Skeleton></Skeletons></a>',
        b'<a><Skeletons><Skeleton><Segment ID="1"><Position '
        b'X="nan"/></Segment></Skeleton></Skeletons></a>',
        b"<a><Skeletons><Skeleton>"
        + b'<Segment ID="1">' * 400
        + b"</Segment>" * 400
        + b"</Skeleton></Skeletons></a>",
    ],
)
def test_parameters_that_cannot_be_are_refused(xml: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_parameters(xml)


def test_every_truncation_of_parameters_is_refused() -> None:
    xml = XML.rstrip(b"\0\n")
    for length in range(len(xml)):
        with pytest.raises(ProtocolError):
            decode_parameters(xml[:length])


def test_records_hold_what_the_layout_says() -> None:
    assert body_records(3).nbytes == 3 * 48
    assert segment_records(2).nbytes == 2 * 32
    assert np.isnan(body_records(1)["p_mm"]).all()


def test_a_skeleton_of_any_shape_survives() -> None:
    chain = tuple(
        QualisysSegment(i, f"s{i}", i - 1 if i > 1 else None, (0.0, 0.0, 1.5 * i))
        for i in range(1, 30)
    )
    parameters = Parameters(skeletons=(SkeletonInfo("chain", chain, 0.9),))
    assert (
        decode_parameters(encode_parameters(parameters, "1.25", {"skeleton"}).encode())
        == parameters
    )
