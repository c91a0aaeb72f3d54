"""Wires of motion-capture systems: NatNet, CGStream, Tracker's objects, VRPN, QTM."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.fuzz.target import Target, join, split
from tests.support.motions import Dance
from tests.support.optitrack import OLD_VERSIONS, VERSIONS, full_frame, full_models
from tests.support.vicon import Marked, golden
from vil_adapters.optitrack import convert as natnet_convert
from vil_adapters.optitrack.compiled_frame import read_frame
from vil_adapters.optitrack.diagnostics import latency_facts, server_facts, subject_facts
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.qualisys import codec as qtm
from vil_adapters.qualisys import convert as qtm_convert
from vil_adapters.qualisys.parameters import decode_parameters, encode_parameters
from vil_adapters.sessions.frame_order import FrameOrder, FrameVerdict
from vil_adapters.vicon import blocks, codec
from vil_adapters.vicon.compiled_objects import CompiledObjectTracker, read_objects
from vil_adapters.vicon.config import TrackerEmulatorConfig
from vil_adapters.vicon.convert import ViconConverter as ViconConverter
from vil_adapters.vicon.emulator_frames import BlockGenerator, EncodedFrame
from vil_adapters.vicon.receiver import ViconReceiver
from vil_adapters.vicon.segments import LIGHT_ROW, ROW, decode_segments
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.source import VrpnSession as VrpnSession
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet import codec as natnet
from vil_bridge.protocols.natnet.codec import NEWEST, Connect, EchoReply, MessageId, ServerInfo
from vil_bridge.protocols.natnet.frame_codec import decode_frame
from vil_bridge.protocols.natnet.model_codec import decode_models
from vil_bridge.protocols.vrpn import codec as vrpn
from vil_bridge.protocols.vrpn.id_mapping import Outgoing
from vil_bridge.runtime.supervisor import Status

__all__ = ["TARGETS"]

_VERSIONS: Final = OLD_VERSIONS + VERSIONS
_GOLDEN: Final = Path(__file__).parents[2] / "golden"


def _golden(folder: str) -> list[bytes]:
    return [bytes.fromhex(path.read_text()) for path in sorted((_GOLDEN / folder).glob("*.hex"))]


# --- NatNet --------------------------------------------------------------------------------------


def _of_version(read: Callable[[bytes, natnet.Version], object]) -> Callable[[bytes], object]:
    """A reader whose input's first byte chooses the version of the stream."""

    def chosen(data: bytes) -> object:
        return read(data[1:], _VERSIONS[data[0] % len(_VERSIONS)]) if data else None

    return chosen


def _versions_of(message: Callable[[natnet.Version], bytes]) -> Callable[[], Iterator[bytes]]:
    return lambda: (bytes((i,)) + message(version) for i, version in enumerate(_VERSIONS))


_DIALOGUE: Final[tuple[Callable[[bytes], object], ...]] = (
    natnet.message_id,
    natnet.decode_connect,
    lambda data: server_facts(natnet.decode_server_info(data), NEWEST),
    natnet.decode_echo_request,
    natnet.decode_echo_reply,
    natnet.decode_text,
    natnet.response_f32,
    natnet.response_i32,
    natnet.bitstream_reply,
)


def _each(readers: tuple[Callable[[bytes], object], ...], data: bytes) -> None:
    for read in readers:
        with contextlib.suppress(ProtocolError):
            read(data)


def _dialogue() -> Iterator[bytes]:
    yield natnet.encode_connect(Connect("test", natnet_version=NEWEST, bitstream=NEWEST))
    yield natnet.encode_server_info(ServerInfo("Motive", (3, 1, 0, 0), NEWEST, 10_000_000))
    yield natnet.encode_server_info(ServerInfo("Arena", (1, 7, 0, 0), (2, 7, 0, 0)))
    yield natnet.encode_echo_request(5)
    yield natnet.encode_echo_reply(EchoReply(1, 2))
    yield natnet.encode_text(MessageId.RESPONSE, "Bitstream,4.1")
    yield natnet.encode(MessageId.RESPONSE, b"\0\0\x80\x3f")


def _natnet_convert(data: bytes) -> None:
    """Descriptions and a frame that need not fit them, as far as the room's frame."""
    version = _VERSIONS[data[0] % len(_VERSIONS)] if data else NEWEST
    models, *frames = split(data[1:])
    info = ServerInfo("Motive", (3, 1, 0, 0), version, 10_000_000 if version >= (3,) else 0)
    described = decode_models(models, version)
    subject_facts(described)
    whole, poses = (
        natnet_convert.NatNetConverter(
            "lab", described, info, scale_m=1e-3, up_axis="y", coordinates="auto", markers=markers
        )
        for markers in ("all", "none")
    )
    for datagram in frames[:3]:
        poses.frame(read_frame(datagram, version), 10**15)
        frame = decode_frame(datagram, version)
        whole.frame(frame, 10**15)
        latency_facts(frame.suffix, info)


def _natnet_pairs() -> Iterator[bytes]:
    for i, version in enumerate(_VERSIONS):
        yield bytes((i,)) + join(full_models(version), full_frame(version), full_frame(version))


# --- Vicon ---------------------------------------------------------------------------------------

_BLOCKS: Final[tuple[codec.Block[Any], ...]] = tuple(
    value
    for module in (codec, blocks)
    for value in vars(module).values()
    if isinstance(value, codec.Block)
)
_VICON_READERS: Final[tuple[Callable[[bytes], object], ...]] = (
    *(block.decode for block in _BLOCKS),
    codec.split_datagram,
    codec.split_packet,
    lambda data: decode_segments([data, data[:20]], ROW),
    lambda data: decode_segments([data], LIGHT_ROW),
)


def _vicon_stream(data: bytes) -> None:
    """A TCP stream in pieces, followed to the frames that it brings."""
    status = Status("lab")
    receiver = ViconReceiver(
        "lab", ViconConverter("lab", segments=True, markers="all"), (), lambda _: None, status
    )
    deframer = codec.Deframer()
    for t_ns, piece in enumerate(split(data)):
        deframer.feed(piece)
        for content in deframer.packets():
            with contextlib.suppress(ProtocolError):
                receiver.handle(codec.split_packet(content), t_ns)
                receiver.deliver()


def _vicon_convert(data: bytes) -> None:
    """The same from blocks without a packet around them, so that lengths need not fit each
    other.
    """
    receiver = ViconReceiver(
        "lab", ViconConverter("lab", markers="labeled"), ("drone",), lambda _: None, Status("lab")
    )
    for t_ns, piece in enumerate(split(data)):
        with contextlib.suppress(ProtocolError):
            receiver.handle(codec.split_packet(piece), t_ns)
            receiver.deliver()


def _vicon_bodies() -> Iterator[bytes]:
    for datagram in _vicon_packets():
        with contextlib.suppress(ProtocolError):
            for bodies in codec.split_datagram(datagram).values():
                yield from bodies


def _vicon_packets() -> list[bytes]:
    """What our emulator sends of a dance, descriptions first, and the golden ones."""
    motion, config = Marked(), TrackerEmulatorConfig(lightweight=True)
    film = BlockGenerator(motion, config, 0)
    packets = []
    for number in (5, 6):
        exposure = EncodedFrame(film, number, motion.at(number * 10**7), 0)
        kinds = [block.type for block in _BLOCKS if block.type not in film.statics]
        statics = [encoded for _, encoded in film.statics.values()] if number == 5 else []
        packets.append(codec.encode_packet(*statics, *(exposure.block(kind)[1] for kind in kinds)))
    return [*_golden("vicon"), *packets]


def _tracker(data: bytes) -> None:
    tracker, order = CompiledObjectTracker("lab", 100.0), FrameOrder()
    for t_ns, datagram in enumerate(split(data)):
        with contextlib.suppress(ProtocolError):
            block = read_objects(datagram)
            if order.judge(block.frame_number, t_ns) is FrameVerdict.RESTARTED:
                tracker.restart()
            tracker.next_frame(block, t_ns)


# --- VRPN ----------------------------------------------------------------------------------------

_VRPN_READERS: Final[tuple[Callable[[bytes], object], ...]] = (
    vrpn.decode_cookie,
    vrpn.decode_message,
    vrpn.decode_name,
    vrpn.decode_pose,
    vrpn.decode_velocity,
    vrpn.decode_connect_request,
    vrpn.message_bytes,
)


def _vrpn(data: bytes) -> None:
    _each(_VRPN_READERS, data)
    session = VrpnSession("lab", VrpnConfig(server="127.0.0.1"), lambda _: None, Status("lab"))
    with contextlib.suppress(ProtocolError):
        for piece in split(data):
            session.on_data(piece, 10**15)


def _vrpn_talk() -> Iterator[bytes]:
    out = Outgoing()
    pose = vrpn.encode_pose(vrpn.TrackerPose(0, (1.0, 2.0, 1.5), (0.0, 0.0, 0.0, 1.0)))
    velocity = vrpn.encode_velocity(vrpn.Velocity(0, (1.0, 2.0, 1.5), (0.0, 0.0, 0.0, 1.0), 0.1))
    head = vrpn.COOKIE + out.describe(("cf7",), (vrpn.POSE, vrpn.VELOCITY, vrpn.PONG))
    yield join(
        head,
        out.message("cf7", vrpn.POSE, 10**15, pose),
        out.message("cf7", vrpn.VELOCITY, 10**15, velocity),
    )
    yield head + out.message("cf7", vrpn.PONG, 10**15)
    yield from _golden("vrpn")
    yield from (
        pose,
        velocity,
        vrpn.encode_name("drone"),
        vrpn.encode_connect_request("127.0.0.1", 3883),
    )


# --- QTM -----------------------------------------------------------------------------------------

_DANCE: Final = Dance()
_DESCRIBED: Final = qtm_convert.describe(_DANCE.subjects, _DANCE.skeleton_models, "z")


def _qtm_data(data: bytes) -> None:
    converter = qtm_convert.QualisysConverter("lab", _DESCRIBED, "z")
    framing = qtm.Framing()
    _each((qtm.decode_discovery_request, qtm.decode_discovery_reply), data)
    with contextlib.suppress(ProtocolError):
        converter.frame(qtm.decode_data(data), 0)
    for piece in split(data):
        for _kind, packet in framing.feed(piece):
            converter.frame(qtm.decode_data(packet[8:]), 0)


def _qtm_frames() -> Iterator[bytes]:
    body = qtm.encode_data(qtm_convert.generate(_DANCE.at(10**9), 1, 10**9, "z", ()))
    yield body
    yield qtm.encode_packet(qtm.PacketType.DATA, body)
    yield qtm.encode_discovery_request(4545)
    yield qtm.encode_discovery_reply("lab, QTM 2023.1, 12 cameras", 22222)


def _qtm_parameters(data: bytes) -> None:
    parameters = decode_parameters(data)
    qtm_convert.QualisysConverter("lab", parameters, qtm_convert.up_axis(parameters, "auto"))


TARGETS: Final = (
    Target("natnet-frame", _of_version(decode_frame), (ProtocolError,), _versions_of(full_frame)),
    Target("natnet-lean", _of_version(decode_poses), (ProtocolError,), _versions_of(full_frame)),
    Target(
        "natnet-models", _of_version(decode_models), (ProtocolError,), _versions_of(full_models)
    ),
    Target("natnet-dialogue", lambda data: _each(_DIALOGUE, data), (), _dialogue, 512),
    Target("natnet-convert", _natnet_convert, (ProtocolError,), _natnet_pairs),
    Target(
        "vicon-stream",
        _vicon_stream,
        (ProtocolError,),
        lambda: [join(*_vicon_packets()[4:]), *_vicon_packets()],
        8192,
    ),
    Target("vicon-blocks", lambda data: _each(_VICON_READERS, data), (), _vicon_bodies, 1024),
    Target(
        "vicon-convert",
        _vicon_convert,
        (),
        lambda: [join(*(p[8:] for p in _vicon_packets()))],
        8192,
    ),
    Target("tracker-udp", _tracker, (), lambda: [join(*[golden("object_stream")] * 3)], 2048),
    Target("vrpn", _vrpn, (), _vrpn_talk, 2048),
    Target("qualisys-data", _qtm_data, (ProtocolError,), _qtm_frames),
    Target(
        "qualisys-parameters",
        _qtm_parameters,
        (ProtocolError,),
        lambda: [encode_parameters(_DESCRIBED, "1.23", {"3d", "6d", "skeleton"}).encode()],
    ),
)
