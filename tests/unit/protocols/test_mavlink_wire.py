"""MAVLink framing against pymavlink, in both directions, and against broken streams."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pymavlink.dialects.v10 import common as reference_1
from pymavlink.dialects.v20 import common as reference

from vil_bridge.protocols.mavlink import flight_messages as flight
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.messages import KINDS, Body

# Each body beside the same message as the reference builds it (floats that single precision holds
# exactly).
PAIRS: list[tuple[Body, Any]] = [
    (mavlink.Heartbeat(7, 18, 8, 129, 4), reference.MAVLink_heartbeat_message(18, 8, 129, 7, 4, 3)),
    (mavlink.TimeSync(-5, 2**61 + 3), reference.MAVLink_timesync_message(-5, 2**61 + 3)),
    (
        mavlink.HighresImu(
            2**40,
            0.5,
            -1.25,
            -9.75,
            0.125,
            -2.5,
            3.0,
            0.25,
            -0.5,
            0.75,
            1013.25,
            1.5,
            -2.0,
            21.5,
            0x3F,
            2,
        ),
        reference.MAVLink_highres_imu_message(
            2**40,
            0.5,
            -1.25,
            -9.75,
            0.125,
            -2.5,
            3.0,
            0.25,
            -0.5,
            0.75,
            1013.25,
            1.5,
            -2.0,
            21.5,
            0x3F,
            2,
        ),
    ),
    (
        mavlink.ScaledImu(123456, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 2150),
        reference.MAVLink_scaled_imu_message(123456, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 2150),
    ),
    (
        mavlink.ScaledImu2(123456, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 2150),
        reference.MAVLink_scaled_imu2_message(123456, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 2150),
    ),
    (
        mavlink.ScaledImu3(123456, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 2150),
        reference.MAVLink_scaled_imu3_message(123456, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 2150),
    ),
    (
        mavlink.MavlinkRawImu(2**41, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 1, 2150),
        reference.MAVLink_raw_imu_message(2**41, 10, -20, -1000, 1, -2, 3, 4, 5, 6, 1, 2150),
    ),
    (
        mavlink.CommandLong(105.0, 4000.0, 0.0, 0.0, 0.0, 0.0, 0.0, 511, 1, 1, 0),
        reference.MAVLink_command_long_message(
            1, 1, 511, 0, 105.0, 4000.0, 0.0, 0.0, 0.0, 0.0, 0.0
        ),
    ),
    (
        mavlink.AttitudeQuaternion(
            123456, 0.5, -0.5, 0.25, 0.75, 1.5, -2.5, 3.5, 1.0, 0.125, 0.25, 0.5
        ),
        reference.MAVLink_attitude_quaternion_message(
            123456, 0.5, -0.5, 0.25, 0.75, 1.5, -2.5, 3.5, [1.0, 0.125, 0.25, 0.5]
        ),
    ),
    (
        mavlink.LocalPositionNed(123456, 1.5, -2.5, 3.5, 0.25, -0.5, 0.75),
        reference.MAVLink_local_position_ned_message(123456, 1.5, -2.5, 3.5, 0.25, -0.5, 0.75),
    ),
    (
        mavlink.Odometry(
            *(2**40, 1.5, -2.5, 3.5, (0.5, -0.5, 0.25, 0.75), 0.1875, 0.25, 0.375, 1.0, 2.0, 3.0),
            *(
                tuple(k + 0.5 for k in range(21)),
                tuple(-k - 0.25 for k in range(21)),
                20,
                12,
                7,
                3,
                -1,
            ),
        ),
        reference.MAVLink_odometry_message(
            *(
                2**40,
                20,
                12,
                1.5,
                -2.5,
                3.5,
                [0.5, -0.5, 0.25, 0.75],
                0.1875,
                0.25,
                0.375,
                1.0,
                2.0,
                3.0,
            ),
            *([k + 0.5 for k in range(21)], [-k - 0.25 for k in range(21)], 7, 3, -1),
        ),
    ),
    (
        mavlink.EstimatorStatus(2**40, 0.5, 0.25, 0.125, 1.5, 2.5, 3.5, 0.75, 0.0625, 0x83F),
        reference.MAVLink_estimator_status_message(
            2**40, 0x83F, 0.5, 0.25, 0.125, 1.5, 2.5, 3.5, 0.75, 0.0625
        ),
    ),
    (
        hil.GpsInput(
            *(
                2**40,
                604_799_999,
                473977420,
                -85455940,
                488.5,
                0.5,
                0.75,
                1.5,
                -2.5,
                3.5,
                0.25,
                0.125,
                0.0625,
            ),
            *(9, 2400, 1, 3, 16, 36_000),
        ),
        reference.MAVLink_gps_input_message(
            *(
                2**40,
                1,
                9,
                604_799_999,
                2400,
                3,
                473977420,
                -85455940,
                488.5,
                0.5,
                0.75,
                1.5,
                -2.5,
                3.5,
            ),
            *(0.25, 0.125, 0.0625, 16, 36_000),
        ),
    ),
    (
        mavlink.VisionPositionEstimate(
            2**40,
            1.5,
            -2.5,
            3.5,
            0.25,
            -0.5,
            0.75,
            tuple(k + 0.5 for k in range(21)),
            reset_counter=3,
        ),
        reference.MAVLink_vision_position_estimate_message(
            2**40, 1.5, -2.5, 3.5, 0.25, -0.5, 0.75, [k + 0.5 for k in range(21)], 3
        ),
    ),
    (
        mavlink.AttPosMocap(
            2**40, (0.5, -0.5, 0.25, 0.75), 1.5, -2.5, 3.5, tuple(k + 0.5 for k in range(21))
        ),
        reference.MAVLink_att_pos_mocap_message(
            2**40, [0.5, -0.5, 0.25, 0.75], 1.5, -2.5, 3.5, [k + 0.5 for k in range(21)]
        ),
    ),
    (
        mavlink.SetGpsGlobalOrigin(473977420, -85455940, 488123, 1, 2**40),
        reference.MAVLink_set_gps_global_origin_message(1, 473977420, -85455940, 488123, 2**40),
    ),
    (
        mavlink.GpsGlobalOrigin(473977420, -85455940, 488123, 2**40),
        reference.MAVLink_gps_global_origin_message(473977420, -85455940, 488123, 2**40),
    ),
    (
        hil.HilSensor(
            *(
                2**40,
                0.5,
                -1.25,
                -9.75,
                0.125,
                -2.5,
                3.0,
                0.25,
                -0.5,
                0.75,
                1013.25,
                1.5,
                -2.0,
                21.5,
                0x1BFF,
                2,
            )
        ),
        reference.MAVLink_hil_sensor_message(
            *(
                2**40,
                0.5,
                -1.25,
                -9.75,
                0.125,
                -2.5,
                3.0,
                0.25,
                -0.5,
                0.75,
                1013.25,
                1.5,
                -2.0,
                21.5,
                0x1BFF,
                2,
            )
        ),
    ),
    (
        hil.HilGps(
            2**40, 473977420, -85455940, 488123, 30, 40, 500, -300, 400, -7, 9000, 3, 255, 1, 36000
        ),
        reference.MAVLink_hil_gps_message(
            *(
                2**40,
                3,
                473977420,
                -85455940,
                488123,
                30,
                40,
                500,
                -300,
                400,
                -7,
                9000,
                255,
                1,
                36000,
            )
        ),
    ),
    (
        hil.HilOpticalFlow(2**40, 50_000, 0.5, -1.25, 0.125, -2.5, 3.0, 7, -1.0, -40, 3, 255),
        reference.MAVLink_hil_optical_flow_message(
            *(2**40, 3, 50_000, 0.5, -1.25, 0.125, -2.5, 3.0, -40, 255, 7, -1.0)
        ),
    ),
    (
        hil.HilActuatorControls(2**40, 1, tuple(i / 16 for i in range(16)), 129),
        reference.MAVLink_hil_actuator_controls_message(2**40, [i / 16 for i in range(16)], 129, 1),
    ),
    (
        hil.DistanceSensor(
            123456, 20, 4000, 175, 0, 64, 100, 255, 0.25, 0.5, (0.5, -0.5, 0.25, 0.75), 100
        ),
        reference.MAVLink_distance_sensor_message(
            *(123456, 20, 4000, 175, 0, 64, 100, 255, 0.25, 0.5, [0.5, -0.5, 0.25, 0.75], 100)
        ),
    ),
    (
        mavlink.CommandAck(511, 4, 7, -9, 1, 191),
        reference.MAVLink_command_ack_message(511, 4, 7, -9, 1, 191),
    ),
    (
        flight.SysStatus(0x23, 0x22, 0x21, 500, 12600, -1, 1, 2, 3, 4, 5, 6, 87),
        reference.MAVLink_sys_status_message(
            0x23, 0x22, 0x21, 500, 12600, -1, 87, 1, 2, 3, 4, 5, 6
        ),
    ),
    (flight.SetMode(4, 1, 1), reference.MAVLink_set_mode_message(1, 1, 4)),
    (
        flight.ParamRequestRead(-1, 1, 191, b"MPC_XY_VEL_MAX\0\0"),
        reference.MAVLink_param_request_read_message(1, 191, b"MPC_XY_VEL_MAX", -1),
    ),
    (flight.ParamRequestList(1, 191), reference.MAVLink_param_request_list_message(1, 191)),
    (
        flight.ParamValue(2.5, 7, 3, b"EKF2_MULTI_IMU_X", 9),
        reference.MAVLink_param_value_message(b"EKF2_MULTI_IMU_X", 2.5, 9, 7, 3),
    ),
    (
        flight.ParamSet(0.25, 1, 191, b"MOT_THST_HOVER\0\0", 9),
        reference.MAVLink_param_set_message(1, 191, b"MOT_THST_HOVER", 0.25, 9),
    ),
    (
        flight.MavlinkAttitude(123456, 0.5, -0.25, 1.5, 0.125, -2.0, 3.0),
        reference.MAVLink_attitude_message(123456, 0.5, -0.25, 1.5, 0.125, -2.0, 3.0),
    ),
    (
        flight.GlobalPositionInt(123456, 473977420, -85455940, 488123, 1500, 10, -20, 30, 9000),
        reference.MAVLink_global_position_int_message(
            123456, 473977420, -85455940, 488123, 1500, 10, -20, 30, 9000
        ),
    ),
    (
        flight.RcChannels(123456, tuple(range(1000, 1018)), 18, 254),
        reference.MAVLink_rc_channels_message(123456, 18, *range(1000, 1018), 254),
    ),
    (
        flight.RcChannelsOverride(tuple(range(1000, 1008)), 1, 2, (0,) * 10),  # version 1 has eight
        reference.MAVLink_rc_channels_override_message(1, 2, *range(1000, 1008), *[0] * 10),
    ),
    (
        hil.HilStateQuaternion(
            2**40,
            (0.5, -0.5, 0.5, -0.5),
            0.125,
            -2.5,
            3.0,
            473977420,
            -85455940,
            488123,
            10,
            -20,
            30,
            1,
            2,
            3,
            -4,
            5,
        ),
        reference.MAVLink_hil_state_quaternion_message(
            2**40,
            [0.5, -0.5, 0.5, -0.5],
            0.125,
            -2.5,
            3.0,
            473977420,
            -85455940,
            488123,
            10,
            -20,
            30,
            1,
            2,
            3,
            -4,
            5,
        ),
    ),
    (
        flight.SetPositionTargetLocalNed(
            *(
                123456,
                1.5,
                -2.5,
                -3.5,
                0.25,
                0.5,
                0.75,
                0.125,
                2.0,
                4.0,
                -1.5,
                0.0625,
                0x9F8,
                2,
                1,
                1,
            )
        ),
        reference.MAVLink_set_position_target_local_ned_message(
            *(
                123456,
                2,
                1,
                1,
                0x9F8,
                1.5,
                -2.5,
                -3.5,
                0.25,
                0.5,
                0.75,
                0.125,
                2.0,
                4.0,
                -1.5,
                0.0625,
            )
        ),
    ),
    (
        flight.HomePosition(
            473977420, -85455940, 488123, 1.5, -2.5, 3.5, (1.0, 0.5, 0.25, 0.125), 4.0, 5.0, 6.0, 7
        ),
        reference.MAVLink_home_position_message(
            *(
                473977420,
                -85455940,
                488123,
                1.5,
                -2.5,
                3.5,
                [1.0, 0.5, 0.25, 0.125],
                4.0,
                5.0,
                6.0,
                7,
            )
        ),
    ),
    (
        flight.AutopilotVersion(
            0x4000, 12345, 0x01020300, 2, 3, 4, 5, 6, b"abcdefgh", b"ijklmnop", b"qrstuvwx"
        ),
        reference.MAVLink_autopilot_version_message(
            *(
                0x4000,
                0x01020300,
                2,
                3,
                4,
                list(b"abcdefgh"),
                list(b"ijklmnop"),
                list(b"qrstuvwx"),
                5,
                6,
                12345,
                [0] * 18,
            )
        ),
    ),
    (flight.ExtendedSysState(0, 2), reference.MAVLink_extended_sys_state_message(0, 2)),
]
IDS = [type(body).__name__ for body, _ in PAIRS]


class _Sink:
    def write(self, data: bytes) -> None:
        """The reference's packer wants a file."""


def peer(**options: Any) -> Any:
    return reference.MAVLink(_Sink(), srcSystem=3, srcComponent=4, **options)


def stream() -> bytes:
    return b"".join(encode(body, i, system=1, component=191) for i, (body, _) in enumerate(PAIRS))


@pytest.mark.parametrize(("body", "expected"), PAIRS, ids=IDS)
def test_reference_reads_what_we_write(body: Body, expected: Any) -> None:
    frame = encode(body, 260, system=1, component=191)
    (message,) = peer().parse_buffer(frame)
    assert message.get_msgId() == expected.get_msgId() == mavlink.message_id(type(body))
    assert (message.get_srcSystem(), message.get_srcComponent(), message.get_seq()) == (
        1,
        191,
        260 % 256,
    )
    for name in expected.get_fieldnames():
        assert getattr(message, name) == getattr(expected, name), name


@pytest.mark.parametrize(("body", "message"), PAIRS, ids=IDS)
def test_we_read_what_the_reference_writes(body: Body, message: Any) -> None:
    parser = MavlinkParser()
    (got,) = parser.feed(bytes(message.pack(peer())))
    assert type(got.body) is type(body)
    assert got.body == body
    assert (got.system, got.component) == (3, 4)
    assert (parser.bad_crc, parser.garbage, parser.unknown) == (0, 0, 0)


IN_VERSION_1 = [pair for pair in PAIRS if mavlink.message_id(type(pair[0])) < 256]


@pytest.mark.parametrize(
    ("body", "message"), IN_VERSION_1, ids=[type(body).__name__ for body, _ in IN_VERSION_1]
)
def test_we_read_version_1(body: Body, message: Any) -> None:
    old_class = getattr(reference_1, type(message).__name__)
    values = (getattr(message, name) for name in old_class.fieldnames)
    old = old_class(*(value.encode() if isinstance(value, str) else value for value in values))
    frame = bytes(old.pack(reference_1.MAVLink(_Sink(), srcSystem=3, srcComponent=4)))
    (got,) = MavlinkParser().feed(frame)
    assert frame[0] == 0xFE
    assert type(got.body) is type(body)
    # The extension fields, which version 1 does not have, come out as zeros.
    known = min(len(old_class.fieldnames), len(body))
    assert got.body[:known] == body[:known]
    assert not np.hstack((0.0, *got.body[known:])).any()
    assert (got.system, got.component, got.sequence) == (3, 4, 0)


@pytest.mark.parametrize(("body", "message"), PAIRS, ids=IDS)
def test_every_frame_equals_the_references_byte_for_byte(body: Body, message: Any) -> None:
    assert encode(body, 0, system=3, component=4) == bytes(message.pack(peer()))


def test_no_message_of_ours_is_left_out_here() -> None:
    assert {type(body) for body, _ in PAIRS} == set(KINDS)


def test_fields_that_are_not_given_are_zero() -> None:
    """As MAVLink 2 reads extension fields that a sender leaves out.

    But for these, which have a meaning.
    """
    given = {
        (kind.__name__, name): default
        for kind in KINDS
        for name, default in kind._field_defaults.items()
        if not name.endswith("covariance") and default
    }
    assert given == {
        ("Heartbeat", "mavlink_version"): 3,
        ("HighresImu", "fields_updated"): 0x3F,
        ("Odometry", "frame_id"): mavlink.FRAME_LOCAL_NED,
        ("Odometry", "child_frame_id"): mavlink.FRAME_BODY_FRD,
    }


def test_the_short_form_of_a_vision_estimate_is_short() -> None:
    """What a slow link can bear: without a covariance (NaN first) it ends there."""
    frame = encode(mavlink.VisionPositionEstimate(1, 1, 2, 3, 0, 0, 1), 0, system=1, component=197)
    assert len(frame) == 48


def test_signed_frames_are_read_without_their_signature() -> None:
    sender = peer()
    sender.signing.secret_key = bytes(32)
    sender.signing.sign_outgoing = True
    signed = bytes(PAIRS[3][1].pack(sender))
    plain = encode(PAIRS[0][0], 1, system=1, component=1)
    parser = MavlinkParser()
    assert [type(m.body) for m in parser.feed(signed + plain)] == [
        mavlink.ScaledImu,
        mavlink.Heartbeat,
    ]
    assert parser.garbage == 0


def test_any_split_of_the_stream_gives_the_same_messages() -> None:
    data = stream()
    whole = [m.body for m in MavlinkParser().feed(data)]
    assert whole == [body for body, _ in PAIRS]
    for cut in range(len(data)):
        parser = MavlinkParser()
        assert [m.body for m in parser.feed(data[:cut]) + parser.feed(data[cut:])] == whole
    parser = MavlinkParser()
    assert [m.body for i in range(len(data)) for m in parser.feed(data[i : i + 1])] == whole


def test_truncation_at_every_offset_loses_one_message_at_most() -> None:
    good = encode(PAIRS[2][0], 1, system=1, component=1)
    for cut in range(len(good)):
        parser = MavlinkParser()
        got = parser.feed(good[:cut] + good + good + bytes(300))
        assert [m.body for m in got] == [PAIRS[2][0]] * 2
        assert parser.garbage >= cut


def test_every_flipped_bit_is_noticed() -> None:
    good = encode(PAIRS[4][0], 1, system=1, component=1)
    for bit in range(8 * len(good)):
        broken = bytearray(good)
        broken[bit // 8] ^= 1 << bit % 8
        assert not [
            m for m in MavlinkParser().feed(bytes(broken) + bytes(300)) if m.body == PAIRS[4][0]
        ]


def test_messages_of_other_kinds_are_skipped_whole() -> None:
    # A foreign payload that contains one of our frames must not be mistaken for it.
    inner = encode(PAIRS[0][0], 0, system=1, component=1)
    text = reference.MAVLink_encapsulated_data_message(0, list(inner.ljust(253, b"\1")))
    foreign = bytes(text.pack(peer()))
    parser = MavlinkParser()
    assert [
        m.body for m in parser.feed(foreign + encode(PAIRS[1][0], 0, system=1, component=1))
    ] == [PAIRS[1][0]]
    assert (parser.unknown, parser.garbage) == (1, 0)


def test_fields_newer_than_our_tables_are_left_out() -> None:
    payload = bytes(range(1, 21))  # TIMESYNC of today has two more fields than ours
    head = bytes((len(payload), 0, 0, 0, 1, 1)) + (111).to_bytes(3, "little")
    crc = reference.x25crc(head + payload + b"\x22").crc
    (got,) = MavlinkParser().feed(b"\xfd" + head + payload + crc.to_bytes(2, "little"))
    assert got.body == mavlink.TimeSync(
        *(int.from_bytes(payload[i : i + 8], "little") for i in (0, 8))
    )


def test_memory_stays_bounded_on_endless_garbage() -> None:
    parser = MavlinkParser()
    for filler in (b"\xfd", b"\xfe", b"\x00", b"\xfd\x09\x00"):
        parser.feed(filler * (1 << 17))
    assert len(parser._pending) <= 281
    resynchronised = parser.feed(bytes(300) + stream())
    assert [m.body for m in resynchronised] == [body for body, _ in PAIRS]
    assert not math.isnan(parser.garbage)


def test_a_datagram_is_judged_by_itself() -> None:
    good = encode(PAIRS[0][0], 0, system=1, component=1)
    foreign = bytes(reference.MAVLink_encapsulated_data_message(0, [1] * 253).pack(peer()))
    parser = MavlinkParser()
    for datagram, counts in (
        (good, (0, 0)),
        (foreign, (0, 1)),
        (good + foreign, (0, 2)),
        (good[:-1], (len(good) - 1, 2)),
        (foreign[:50], (len(good) + 49, 2)),
    ):
        parser.feed(datagram)
        parser.end()
        assert (parser.garbage, parser.unknown) == counts
    assert [m.body for m in parser.feed(good)] == [PAIRS[0][0]], "nothing of the cut ones is left"
