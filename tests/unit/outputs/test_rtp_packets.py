"""The video output's bytes.

By the RFCs' figures, reports of receivers, descriptions, what is refused.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.rtp import HEIGHT_PX, WIDTH_PX, camera_info, depacketized, painted, parse_packet
from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import ProtocolError, SinkError
from vil_bridge.outputs.rtp.config import RtpConfig
from vil_bridge.outputs.rtp.encoder import i420, open_encoder
from vil_bridge.outputs.rtp.packets import H264, HEVC, nal_units, payloads, rtp_packet, rtp_ticks
from vil_bridge.outputs.rtp.reports import ntp_time, receiver_reports, sender_report
from vil_bridge.outputs.rtp.sdp import describe
from vil_bridge.outputs.rtp.video import CameraVideo
from vil_bridge.runtime.supervisor import Status

SPS, PPS, IDR = b"\x67\x42\xc0\x1eab", b"\x68\xcecd", b"\x65" + bytes(range(1, 60))


def test_units_of_a_byte_stream() -> None:
    stream = b"\0\0\0\1" + SPS + b"\0\0\1" + PPS + b"\0\0\0\0\1" + IDR + b"\0\0"
    assert nal_units(stream) == [SPS, PPS, IDR]
    assert nal_units(b"") == nal_units(b"no start code") == []


def test_small_units_travel_together_and_large_ones_in_parts() -> None:
    stap, *parts = payloads([SPS, PPS, IDR], H264, 40)
    assert stap == b"\x78" + b"\0\6" + SPS + b"\0\4" + PPS  # type 24, NRI 3
    assert [p[:2] for p in parts] == [b"\x7c\x85", b"\x7c\x45"]  # FU-A, begin and end of a type 5
    assert b"".join(p[2:] for p in parts) == IDR[1:]
    assert list(payloads([PPS], H264, 40)) == [PPS]


def test_hevc_headers() -> None:
    # VPS; CRA (21) of layer 1, temporal id 2.
    vps, slice_ = b"\x40\x01v", b"\x2a\x0a" + bytes(range(1, 60))
    ap, *parts = payloads([vps, vps, slice_], HEVC, 40)
    assert ap == b"\x60\x01" + 2 * (b"\0\3" + vps)
    assert [p[:3] for p in parts] == [b"\x62\x0a\x95", b"\x62\x0a\x55"]


def test_a_packet() -> None:
    told = {
        "sequence": 65537,
        "ticks": 2**32 + 7,
        "ssrc": 0xCAFE,
        "frame_id": 2**62,
        "t_display_ns": 123,
    }
    packet = parse_packet(rtp_packet(b"abc", marker=True, **told))
    assert packet == (True, 1, 7, 0xCAFE, 2**62, 123, b"abc")
    assert rtp_ticks(1_000_000_000) == 90_000
    assert rtp_ticks(10**18 + 11_112) - rtp_ticks(10**18) == 1


def test_sender_report_tells_one_instant_on_two_clocks() -> None:
    t_ns = 5_000_000_000
    report = sender_report(7, 1_700_000_000_500_000_000, rtp_ticks(t_ns), 3, 4000, "vil-bridge")
    head, kind, words, ssrc, seconds, fraction, ticks, packets, sent = struct.unpack_from(
        ">BBHIIIIII", report
    )
    assert (head, kind, words, ssrc) == (0x80, 200, 6, 7)
    assert (seconds, fraction) == (1_700_000_000 + 2_208_988_800, 1 << 31)
    assert (ticks, packets, sent) == (450_000, 3, 4000)
    assert len(report) % 4 == 0
    assert report[28:38] == struct.pack(">BBHIBB", 0x81, 202, (len(report) - 28) // 4 - 1, 7, 1, 10)
    assert report[38:].rstrip(b"\0") == b"vil-bridge"


def receiver_report(ssrc: int, last: int, since: int) -> bytes:
    return struct.pack(">BBHIIB3sIIII", 0x81, 201, 7, 1, ssrc, 64, b"\0\0\5", 900, 180, last, since)


def test_receiver_reports() -> None:
    utc_ns = 1_700_000_000_000_000_000
    sent = ntp_time(utc_ns - 250_000_000) >> 16 & 0xFFFF_FFFF
    data = (
        receiver_report(9, sent, 65536 // 5)
        + struct.pack(">BBH", 0x80, 203, 0)
        + receiver_report(8, 1, 1)
    )
    (report,) = receiver_reports(data, 9, utc_ns)
    assert report.lost_fraction == 0.25
    assert report.jitter_s == 0.002
    assert report.round_trip_s == pytest.approx(0.05, abs=1e-4)
    assert receiver_reports(receiver_report(9, 0, 0), 9, utc_ns)[0].round_trip_s is None
    for bad in (data[:-1], b"\x40" + data[1:], data[:5], b"\x82" + receiver_report(9, 0, 0)[1:]):
        with pytest.raises(ProtocolError):
            receiver_reports(bad, 9, utc_ns)


def test_description() -> None:
    told: Any = {"port": 5600, "bitrate_bps": 6e6, "rate_hz": 59.94, "session": 5}
    h264 = describe("front", host="127.0.0.1", syntax=H264, parameter_sets=[SPS, PPS], **told)
    sets = f"{base64.b64encode(SPS).decode()},{base64.b64encode(PPS).decode()}"
    assert (
        f"a=fmtp:96 packetization-mode=1;profile-level-id=42c01e;sprop-parameter-sets={sets}\r\n"
        in h264
    )
    assert "c=IN IP4 127.0.0.1\r\n" in h264
    assert "m=video 5600 RTP/AVP 96\r\n" in h264
    hevc = describe(
        "front", host="239.1.2.3", syntax=HEVC, parameter_sets=[b"v", b"s", b"p"], **told
    )
    assert "c=IN IP4 239.1.2.3/1\r\n" in hevc
    assert "sprop-vps=dg==;sprop-sps=cw==;sprop-pps=cA==\r\n" in hevc


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"host": "192.168.1.5"}, "insecure: true"),
        ({"host": "drone.local"}, "not a numeric address"),
        ({"port": 5601}, "multiple of 2"),
        ({"width_px": 320}, "go together"),
        ({"width_px": 321, "height_px": 240}, "multiple of 2"),
        ({"width_px": 320, "height_px": 241}, "multiple of 2"),
        ({"cameras": ()}, "name the cameras"),
        ({"cameras": ("a", "b"), "port": 65534}, "above 65535"),
    ],
)
def test_refused_configurations(keys: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RtpConfig(**{"cameras": ("front",), **keys})


def test_ports_and_networks() -> None:
    assert RtpConfig(cameras=("front", "rear")).port_of("rear") == 5602
    assert RtpConfig(cameras=("front",), host="192.168.1.5", insecure=True).port == 5600


@pytest.mark.wire
def test_what_cannot_be_sent_is_said_at_the_start() -> None:
    config, clock = RtpConfig(cameras=("front",)), WallClock.read()
    with pytest.raises(SinkError, match="321x240 pixels: both must be even"):
        CameraVideo(camera_info(size_px=(321, 240)), config, Status("video"), clock)
    with pytest.raises(SinkError, match="has no rgb or gray pictures; it offers depth"):
        CameraVideo(camera_info(offers=("depth",)), config, Status("video"), clock)
    CameraVideo(
        camera_info(size_px=(321, 240)),
        config.model_copy(update={"width_px": 160, "height_px": 120}),
        Status("video"),
        clock,
    ).close()


def test_an_encoder_that_is_listed_and_does_not_open_is_told() -> None:
    encoder, instead = open_encoder(RtpConfig(cameras=("front",)), (64, 48), 30.0, full_range=False)
    assert encoder.name == "libx264" or not instead
    if encoder.name == "libx264":
        assert "h264_nvenc" in instead
    plain, instead = open_encoder(
        RtpConfig(cameras=("front",), hardware=False), (64, 48), 30.0, full_range=False
    )
    assert (plain.name, instead) == ("libx264", "")


def test_planes_of_pictures_upside_down_scaled_and_gray() -> None:
    gray = painted(5, gray=True)
    planes = i420(gray, (WIDTH_PX, HEIGHT_PX))
    assert np.array_equal(planes[:HEIGHT_PX], gray)
    assert np.all(planes[HEIGHT_PX:] == 128)
    turned = np.ascontiguousarray(gray[::-1])[::-1]
    assert np.array_equal(i420(turned, (WIDTH_PX, HEIGHT_PX)), planes)
    red = np.zeros((4, 4, 3), np.uint8)
    red[..., 0] = 255
    y, u, v = i420(red, (4, 4)).ravel()[[0, 16, 20]]
    assert np.abs(np.array([y, u, v]) - [82, 90, 240]).max() <= 1  # BT.601
    assert i420(red, (2, 2)).shape == (3, 2)


def test_one_in_one_out_and_parameter_sets_every_second() -> None:
    config = RtpConfig(cameras=("front",), hardware=False, bitrate_mbps=1.0)
    encoder, _ = open_encoder(config, (WIDTH_PX, HEIGHT_PX), 30.0, full_range=True)
    pictures = [
        encoder.encode(i420(painted(n, gray=True), (WIDTH_PX, HEIGHT_PX))) for n in range(61)
    ]
    kinds = [[H264.type_of(nal) for nal in units] for units in pictures]
    assert [i for i, found in enumerate(kinds) if 7 in found] == [0, 30, 60]
    assert all(1 in found or 5 in found for found in kinds)
    # Refreshed in stripes, no key frames.
    assert [i for i, found in enumerate(kinds) if 5 in found] == [0]
    sizes = [sum(map(len, units)) for units in pictures[2:]]
    assert max(sizes) < 4 * np.mean(sizes)
    for units in pictures:
        assert depacketized(list(payloads(units, H264, 500)), hevc=False) == units
