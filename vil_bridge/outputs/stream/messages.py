"""Messages of the control channel.

JSON objects, distinguished by ``type`` (docs/reference/stream.md).

Pure: bytes in, values out. Unknown keys are ignored, so that a newer client can talk to an older
bridge; unknown types, wrong types and texts beyond their bounds are errors.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.motion import ImuWindow

PROTOCOL_VERSION: Final = 1
MAX_IMU_SAMPLES: Final = 512
_SHOWN: Final = ("rgb", "gray")
_DEPTHS: Final = ("depth", "depth32")

_Name = Annotated[str, msgspec.Meta(max_length=64)]
_Vector = tuple[float, float, float]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Register(msgspec.Struct, tag="register", frozen=True):
    """Ask for one camera's stream.

    Attributes:
        color: matters to RGB images only.
        encoding: ``events`` = what an event camera makes of the pictures as rendered; ``points`` =
            those that depth as rendered shows.
        quality: of JPEG; ``adaptive`` lowers it while the link is too slow.
        rate_hz: pictures per second at most, evenly; None = all.
    """

    v: int
    camera: _Name
    modality: _Name = "rgb"
    variant: Literal["compensated", "raw"] = "compensated"
    encoding: Literal["raw", "jpeg", "events", "points"] = "jpeg"
    color: Literal["gray", "rgb"] = "gray"
    quality: Annotated[int, msgspec.Meta(ge=1, le=100)] = 90
    adaptive: bool = False
    transport: Literal["tcp", "shm", "udp"] = "tcp"
    rate_hz: Annotated[float, msgspec.Meta(gt=0.01, le=10_000)] | None = None
    name: _Name = ""

    def encoding_problem(self) -> str | None:
        """Return why its pictures cannot have this encoding; None = they can."""
        if self.encoding == "points" and self.modality not in _DEPTHS:
            return f"points come from depth: ask for modality {' or '.join(map(repr, _DEPTHS))}"
        if self.encoding not in ("raw", "points") and self.modality not in _SHOWN:
            also = " or 'points'" if self.modality in _DEPTHS else ""
            return (
                f"{self.modality} is sent as encoding 'raw'{also} only: JPEG would change its "
                "values"
            )
        if self.encoding in ("events", "points") and self.variant != "raw":
            return (
                f"{self.encoding} come from pictures as they were rendered: ask for variant 'raw'"
            )
        return None


class Ping(msgspec.Struct, tag="ping", frozen=True):
    """Sign of life and first half of a clock exchange.

    Attributes:
        t1: now, in the client's clock, ns.
        too_old: pictures so far that it did not hand over, since they were older than
            ``max_age_ms``.
    """

    t1: _Int64
    token: _Name = ""
    too_old: _Count = 0


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
    """Ask for the daemon's status; answered to registered readers."""

    id: _Int64
    token: _Name = ""


class Command(msgspec.Struct, tag="command", frozen=True):
    """Ask for an action by name.

    Attributes:
        token: of the registration, where there is one.
        access: token of the role that the action wants (``http.token_file``).
    """

    id: _Int64
    name: _Name
    args: dict[str, Any] = {}
    token: _Name = ""
    access: Annotated[str, msgspec.Meta(max_length=256)] = ""


class ImuReport(msgspec.Struct, tag="imu", frozen=True):
    """Inertial samples of the reader's vehicle.

    Attributes:
        t_ns: instants, bridge time; as many as there are samples.
        w_radps, f_mps2: angular rate and specific force in the IMU's axes.
    """

    token: _Name
    t_ns: Annotated[list[_Int64], msgspec.Meta(max_length=MAX_IMU_SAMPLES)]
    w_radps: Annotated[list[_Vector], msgspec.Meta(max_length=MAX_IMU_SAMPLES)]
    f_mps2: Annotated[list[_Vector], msgspec.Meta(max_length=MAX_IMU_SAMPLES)]

    def window(self) -> ImuWindow:
        """Return the samples as arrays.

        Raises:
            ProtocolError: their numbers differ, or time does not increase.
        """
        n = len(self.t_ns)
        t_ns = np.array(self.t_ns, np.int64)
        if not n == len(self.w_radps) == len(self.f_mps2) or (np.diff(t_ns) <= 0).any():
            raise ProtocolError(
                "inertial samples need as many instants, in order, as rates and forces", length=n
            )
        vectors = np.array((self.w_radps, self.f_mps2), np.float64).reshape(2, n, 3)
        return ImuWindow(t_ns, vectors[0], vectors[1])


class Unregister(msgspec.Struct, tag="unregister", frozen=True):
    """End a stream."""

    token: _Name


Request = Register | Ping | Credit | StatusRequest | Command | ImuReport | Unregister

_decoder = msgspec.json.Decoder(Request)
_encoder = msgspec.json.Encoder()


def decode_request(payload: bytes | None) -> Request:
    """Parse a client's message; None = it was not one frame.

    Raises:
        ProtocolError: it is not one of ours.
    """
    if payload is None:
        raise ProtocolError("A message is one frame")
    try:
        request: Request = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(str(exc), length=len(payload)) from exc
    return request


def encode(value: Any) -> bytes:
    """Encode a part of a reply that is sent more than once."""
    return _encoder.encode(value)


def encoded(part: bytes) -> msgspec.Raw:
    """Return an encoded part as a value of a reply."""
    return msgspec.Raw(part)


def encode_reply(kind: str, **fields: Any) -> bytes:
    """Return a reply of the given type."""
    return _encoder.encode({"type": kind, **fields})
