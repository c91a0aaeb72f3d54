"""Messages of the control channel: JSON objects told apart by ``type`` (docs/stream.md).

Pure: bytes in, values out. Unknown keys are ignored, so that a newer client can talk to an older
bridge; unknown types, wrong types and texts beyond their bounds are errors.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from vil_bridge.core.errors import ProtocolError

__all__ = [
    "PROTOCOL_VERSION",
    "Command",
    "Credit",
    "Ping",
    "Register",
    "Request",
    "StatusRequest",
    "Unregister",
    "decode_request",
    "encode_reply",
]

PROTOCOL_VERSION: Final = 1

_Name = Annotated[str, msgspec.Meta(max_length=64)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Register(msgspec.Struct, tag="register", frozen=True):
    """Ask for one camera's stream. ``quality`` matters to JPEG only, ``color`` to RGB images only."""

    v: int
    camera: _Name
    modality: _Name = "rgb"
    variant: Literal["compensated", "raw"] = "compensated"
    encoding: Literal["raw", "jpeg"] = "jpeg"
    color: Literal["gray", "rgb"] = "gray"
    quality: Annotated[int, msgspec.Meta(ge=1, le=100)] = 90
    name: _Name = ""


class Ping(msgspec.Struct, tag="ping", frozen=True):
    """Sign of life and first half of a clock exchange; ``t1`` is in the client's clock, ns."""

    t1: _Int64
    token: _Name = ""


class Credit(msgspec.Struct, tag="credit", frozen=True):
    """A frame has been received whole.

    Attributes:
        t_received_ns: when, in bridge time as far as the client knows it.
        uncertainty_ns: of that clock mapping.
    """

    token: _Name
    frame_id: _Int64
    t_received_ns: _Int64 | None = None
    uncertainty_ns: _Int64 | None = None


class StatusRequest(msgspec.Struct, tag="status", frozen=True):
    """Ask for the daemon's status."""

    id: _Int64
    token: _Name = ""


class Command(msgspec.Struct, tag="command", frozen=True):
    """Ask for an action by name."""

    id: _Int64
    name: _Name
    args: dict[str, Any] = {}
    token: _Name = ""


class Unregister(msgspec.Struct, tag="unregister", frozen=True):
    """End a stream."""

    token: _Name


Request = Register | Ping | Credit | StatusRequest | Command | Unregister

_decoder = msgspec.json.Decoder(Request)
_encoder = msgspec.json.Encoder()


def decode_request(payload: bytes) -> Request:
    """Parse a client's message.

    Raises:
        ProtocolError: it is not one of ours.
    """
    try:
        request: Request = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(str(exc), length=len(payload)) from exc
    return request


def encode_reply(kind: str, **fields: Any) -> bytes:
    """A reply of the given type."""
    return _encoder.encode({"type": kind, **fields})
