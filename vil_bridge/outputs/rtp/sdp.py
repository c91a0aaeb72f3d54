"""The session description (RFC 8866) with which a player opens one camera's video."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from typing import Final

from vil_bridge.outputs.rtp.packets import (
    CLOCK_HZ,
    EXTENSION_URI,
    H264,
    HEVC,
    PAYLOAD_TYPE,
    NalSyntax,
)

_MULTICAST_TTL: Final = 1
_NAMES: Final = {H264: "H264", HEVC: "H265"}


def describe(
    camera: str,
    *,
    host: str,
    port: int,
    syntax: NalSyntax,
    parameter_sets: Sequence[bytes],
    bitrate_bps: float,
    rate_hz: float,
    session: int,
) -> str:
    """Text of the description, lines ended as the RFC asks.

    Args:
        camera: name of the session.
        host: numeric address of the receiver.
        port: of the video there.
        syntax: of the codec.
        parameter_sets: NAL units, in the order of ``syntax.parameter_sets``.
        bitrate_bps: of the video.
        rate_hz: of its pictures.
        session: number that differs from run to run.
    """
    address = ipaddress.ip_address(host)
    family = f"IN IP{address.version}"
    scope = f"/{_MULTICAST_TTL}" if address.is_multicast and address.version == 4 else ""
    lines = [
        "v=0",
        f"o=- {session} 1 {family} {host}",
        f"s={camera}",
        f"c={family} {host}{scope}",
        "t=0 0",
        f"m=video {port} RTP/AVP {PAYLOAD_TYPE}",
        f"b=AS:{round(bitrate_bps / 1000)}",
        f"a=rtpmap:{PAYLOAD_TYPE} {_NAMES[syntax]}/{CLOCK_HZ}",
        f"a=fmtp:{PAYLOAD_TYPE} {_format(syntax, parameter_sets)}",
        f"a=framerate:{rate_hz:g}",
        f"a=extmap:1 {EXTENSION_URI}",
    ]
    return "\r\n".join(lines) + "\r\n"


def _format(syntax: NalSyntax, parameter_sets: Sequence[bytes]) -> str:
    texts = [base64.b64encode(nal).decode() for nal in parameter_sets]
    if syntax is HEVC:  # RFC 7798 section 7.1
        return ";".join(
            f"sprop-{kind}={text}" for kind, text in zip(("vps", "sps", "pps"), texts, strict=True)
        )
    level = parameter_sets[0][1:4].hex()  # RFC 6184 section 8.1
    return f"packetization-mode=1;profile-level-id={level};sprop-parameter-sets={','.join(texts)}"
