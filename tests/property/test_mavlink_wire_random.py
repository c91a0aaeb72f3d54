"""Random bytes and random values through the MAVLink parser."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vil_adapters.mavlink_imu.codec import from_message, to_message
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.messages import MavlinkRawImu, ScaledImu, TimeSync

vectors = st.lists(st.floats(-30, 30), min_size=3, max_size=3)


@given(st.lists(st.binary(max_size=600), max_size=6))
def test_random_bytes_never_raise(chunks: list[bytes]) -> None:
    parser = MavlinkParser()
    for chunk in chunks:
        parser.feed(chunk)
    assert len(parser._pending) <= 281


@given(
    st.binary(max_size=40),
    st.binary(max_size=40),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**62),
)
def test_frames_between_random_bytes_are_found(
    before: bytes, after: bytes, tc1: int, ts1: int
) -> None:
    body = TimeSync(tc1, ts1)
    frame = encode(body, 7, system=1, component=1)
    # A stray magic byte may claim up to 281 bytes; zeros beyond let it go.
    got = MavlinkParser().feed(
        before.replace(b"\xfd", b"").replace(b"\xfe", b"") + frame + after + bytes(300)
    )
    assert body in [m.body for m in got]


@given(st.sampled_from(["highres", "scaled", "raw"]), st.integers(0, 2**31), vectors, vectors)
def test_inertial_values_survive_the_wire(
    kind: str, t_ms: int, w: list[float], f: list[float]
) -> None:
    message = to_message(kind, t_ms * 1_000_000, np.array(w), np.array(f))  # type: ignore[arg-type]
    ((_, _, _, got),) = MavlinkParser().feed(encode(message, 0, system=1, component=1))
    assert type(got) is type(message)
    t_ns, w_radps, f_mps2 = from_message(got)
    assert t_ns == t_ms * 1_000_000
    quantised = isinstance(got, ScaledImu | MavlinkRawImu)
    np.testing.assert_allclose(w_radps, w, atol=5.1e-4 if quantised else 2e-6)
    np.testing.assert_allclose(f_mps2, f, atol=5e-3 if quantised else 2e-6)
