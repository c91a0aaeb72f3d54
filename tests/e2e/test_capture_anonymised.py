"""Captures that are given away: no name and no address is left, and they still play."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import data_dir
from tests.support.events import receiving
from tests.support.optitrack import SpinMotion, client, datagram, emulated, full_frame, full_models
from tests.support.playback import (
    HeldClock,
    begin_ns,
    capture_in,
    frame_datagrams,
    in_common,
    replayed,
)
from vil_adapters.lab.anonymised import anonymize
from vil_adapters.lab.captures import CaptureSpec
from vil_adapters.optitrack.anonymised import NatNetAnonymizer
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.sessions.pseudonyms import Pseudonyms
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, decode_objects, encode_objects
from vil_bridge.cli.main import main
from vil_bridge.core.errors import RecordingError
from vil_bridge.protocols.natnet.codec import MessageId, encode, encode_text, message_id
from vil_bridge.protocols.pcap.pcap import PREAMBLE, encode_datagram, read_capture
from vil_bridge.protocols.sockets import udp_socket
from vil_bridge.recording.packet_capture import capturing
from vil_bridge.runtime.datagrams import Datagram
from vil_bridge.runtime.supervisor import Status

SERVER, CLIENT = ("192.168.7.31", 1510), ("192.168.7.44", 40123)


def written(folder: Path, payloads: list[bytes]) -> Path:
    path = folder / "secret.pcap"
    datagrams = [
        Datagram(10**18 + i, SERVER, CLIENT, payload) for i, payload in enumerate(payloads)
    ]
    path.write_bytes(PREAMBLE + b"".join(map(encode_datagram, datagrams)))
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HeldClock:
    return HeldClock(monkeypatch)


@pytest.mark.wire
async def test_an_anonymised_session_plays_again_under_other_names(
    tmp_path: Path, clock: HeldClock
) -> None:
    source_of = SpinMotion(("secret_drone", "gate"))
    async with emulated(source_of) as motive:
        source = OptitrackSource("lab", client(motive, subjects=("secret_drone",), subscribe=True))
        with capturing(tmp_path, [(source, Status("lab"))]):
            async with receiving(source) as first:
                await first.until(lambda: "subscribed" in first.status.facts)
                await first.more_frames(40)
    path = capture_in(tmp_path)
    result = anonymize(path, tmp_path / "report.pcap")
    assert result.left_out == 0
    data = (tmp_path / "report.pcap").read_bytes()
    assert len(data) == path.stat().st_size
    assert {"secret_drone", "gate", "Actor"} <= result.pseudonyms.names.keys()
    for name in (b"secret", b"gate\0", b"Actor"):
        assert name in path.read_bytes()
        assert name not in data
    report = tmp_path / "report.pcap"
    async with replayed(report) as again:
        await clock.play(frame_datagrams(report), begin_ns(report), again)
    subjects = again.frames[-1].subjects
    pairs = in_common(first.frames, again.frames)
    assert subjects == tuple(result.pseudonyms.names[name] for name in first.frames[-1].subjects)
    assert len(pairs) >= 30
    assert all(np.array_equal(a.p_m, b.p_m) for a, b in pairs)


@pytest.mark.parametrize("version", [(2, 10, 0, 0), (3, 0, 0, 0), (4, 1, 0, 0), (4, 2, 0, 0)])
def test_descriptions_of_every_kind_lose_their_names(
    tmp_path: Path, version: tuple[int, int, int, int]
) -> None:
    result = anonymize(
        written(tmp_path, [full_models(version), full_frame(version)]), tmp_path / "out.pcap"
    )
    models, frame = (d.payload for d in read_capture(tmp_path / "out.pcap"))
    assert (len(models), len(frame)) == (len(full_models(version)), len(full_frame(version)))
    for name in (b"cf7", b"Actor", b"serial", b"NI\0", b"Prime 13", b"Flag", b"from the future"):
        assert name not in models
    assert b"Hip\0" in models, "bones tell what the skeleton is"
    assert b"all\0" in frame
    assert frame == full_frame(version)
    assert result.left_out == 0


def test_texts_addresses_and_what_stands_behind_names_are_replaced(tmp_path: Path) -> None:
    hello = b"Motive".ljust(20, b"\0") + b"D:\\Sessions\\Miller".ljust(236, b"\0") + bytes(8)
    payloads = [
        encode_text(MessageId.REQUEST, "SetRecordTakeName,Miller 7"),
        encode_text(MessageId.REQUEST, "SubscribeToData,RigidBody,Miller"),
        encode(MessageId.RESPONSE, b"D:\\Sessions\\Miller\0"),
        encode(MessageId.RESPONSE, struct.pack("<f", 1000.0)),
        encode(MessageId.MESSAGESTRING, b"Hello Miller\0"),
        encode(MessageId.UNRECOGNIZED_REQUEST, b"Miller"),
        encode(MessageId.SERVERINFO, hello),
        datagram(7, b"\x01\x00\x00\x00Miller"),
        b"Miller",
        encode(MessageId.KEEPALIVE, b"Miller"),
    ]
    result = anonymize(written(tmp_path, payloads), tmp_path / "out.pcap")
    kept = list(read_capture(tmp_path / "out.pcap"))
    assert (len(kept), result.left_out) == (7, 3)
    assert [len(d.payload) for d in kept] == list(map(len, payloads[:7]))
    assert [message_id(d.payload) for d in kept] == [message_id(p) for p in payloads[:7]]
    data = (tmp_path / "out.pcap").read_bytes()
    assert b"Miller" not in data
    assert b"Sessions" not in data
    assert b"SubscribeToData,RigidBody," in data
    assert kept[3].payload == payloads[3]
    assert {(d.sender, d.receiver) for d in kept} == {(("10.0.0.1", 1510), ("10.0.0.2", 40123))}


@pytest.mark.parametrize(
    "message",
    [
        encode(MessageId.RESPONSE, b"Bob\0"),
        encode_text(MessageId.REQUEST, "SetPlaybackTakeName Bob 3"),
        encode_text(MessageId.REQUEST, "SubscribeToData,RigidBody,BobMarkers"),
        encode(MessageId.MESSAGESTRING, b"BobMarkers\0"),
    ],
)
def test_short_names_and_names_that_look_like_commands_are_replaced(message: bytes) -> None:
    found = NatNetAnonymizer(Pseudonyms()).rewrite(message)
    assert found is not None
    assert len(found) == len(message)
    assert b"Bob" not in found


@pytest.mark.parametrize(
    ("name", "text"), [("John", "john_Hips"), ("John", "JOHN:Hips"), ("Al", "Al_Hips")]
)
def test_names_inside_of_bones_and_markers_are_replaced(name: str, text: str) -> None:
    names = Pseudonyms()
    assert names.within("Alpha_Hips") == "Alpha_Hips"
    new = names.name(name)
    assert names.within(text) == new + text[len(name) :]
    assert names.within("Alpha_Hips") == "Alpha_Hips", "a short name is replaced as a word only"


def test_a_capture_without_mocap_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RecordingError, match=r"no datagram is NatNet or .* objects\. Capture whole packets"
    ):
        anonymize(written(tmp_path, [b"nothing known"]), tmp_path / "out.pcap")
    assert not (tmp_path / "out.pcap").exists()


def test_tracker_s_objects_lose_their_names(tmp_path: Path) -> None:
    items = np.array(
        [(b"Miller", (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)), (b"wand", (0, 0, 0), (0, 0, 0))], dtype=ITEM
    )
    anonymize(
        written(tmp_path, [encode_objects(ObjectBlock(5, items), 1024)]), tmp_path / "out.pcap"
    )
    (found,) = read_capture(tmp_path / "out.pcap")
    block = decode_objects(found.payload)
    assert block.items["p"].tolist() == items["p"].tolist()
    assert [len(name) for name in block.names] == [6, 4]
    assert b"Miller" not in found.payload


@pytest.mark.wire
async def test_other_traffic_before_the_mocap_does_not_hide_it(tmp_path: Path) -> None:
    items = np.array([(b"wand", (1.0, 2.0, 3.0), (0.1, 0.2, 0.3))], dtype=ITEM)
    objects = encode_objects(ObjectBlock(5, items), 1024)
    noise = Datagram(10**18, SERVER, ("192.168.7.50", 5004), b"video of a conference")
    path = tmp_path / "busy.pcap"
    datagrams = [noise] * 2500 + [Datagram(10**18, SERVER, CLIENT, objects)]
    path.write_bytes(PREAMBLE + b"".join(map(encode_datagram, datagrams)))
    with udp_socket("127.0.0.1") as sock:
        await CaptureSpec(path, port=sock.getsockname()[1]).open().run()
        assert sock.recv(2048) == objects


def test_a_real_session_s_packets(tmp_path: Path) -> None:
    packets = data_dir("natnet_v3_packets")
    payloads = [path.read_bytes() for path in sorted(packets.glob("*.bin"))]
    result = anonymize(written(tmp_path, payloads), tmp_path / "out.pcap")
    assert result.left_out == 0
    found = [d.payload for d in read_capture(tmp_path / "out.pcap")]
    assert [len(p) for p in found] == [len(p) for p in payloads]
    for name in result.pseudonyms.names:
        assert all(name.encode() + b"\0" not in payload for payload in found)


def test_the_verb_says_what_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, [full_models((3, 0, 0, 0)), b"nothing known"])
    out = tmp_path / "report.pcap"
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "capture", str(path), "-o", str(out)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    said = capsys.readouterr().out
    assert f"{out}: 1 datagrams, 1 left out because they cannot be read" in said
    assert "'192.168.7.31' is '10.0.0.1'" in said
    assert "'cf7' is '" in said
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "File exists" in capsys.readouterr().err
