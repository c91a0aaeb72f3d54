"""NatNet messages with pseudonyms instead of the names of subjects, cameras, devices and takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vil_adapters.sessions.pseudonyms import Pseudonyms
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.codec import MessageId, Version, encode, message_id
from vil_bridge.protocols.natnet.frame import NatNetFrame
from vil_bridge.protocols.natnet.frame_codec import decode_frame, encode_frame
from vil_bridge.protocols.natnet.model import (
    AssetDescription,
    BodyDescription,
    CameraDescription,
    Description,
    DeviceDescription,
    ForcePlateDescription,
    MarkerSetDescription,
    Models,
    SkeletonDescription,
)
from vil_bridge.protocols.natnet.model_codec import decode_models, encode_models
from vil_bridge.protocols.natnet.reader import HEADER_BYTES

_VERSIONS: Final[tuple[Version, ...]] = tuple(
    (major, minor, 0, 0)
    for major, minor in (
        (4, 2),
        (4, 1),
        (4, 0),
        (3, 1),
        (3, 0),
        (2, 10),
        (2, 9),
        (2, 7),
        (2, 6),
        (2, 5),
    )
)
_NAME_BYTES: Final = 256
_ALL: Final = "all"
_PLAIN: Final = re.compile(
    r"-?[\d.]*|all|none|RigidBody|Skeleton|ForcePlate|Device|(Labeled|Markerset|"
    r"LegacyUnlabeled)Markers|AllTypes"
)
_COMMAND: Final = re.compile(r"\w*")
_NUMBER_BYTES: Final = 4
_SHORT_TEXT: Final = re.compile(rb"[A-Za-z]\w+\0*")
_WITHOUT_TEXT: Final = {
    MessageId.REQUEST_MODELDEF: 4,
    MessageId.REQUEST_FRAMEOFDATA: 0,
    MessageId.DISCONNECT: 0,
    MessageId.KEEPALIVE: 0,
    MessageId.DISCONNECTBYTIMEOUT: 0,
    MessageId.ECHOREQUEST: 8,
    MessageId.ECHORESPONSE: 16,
}


class NatNetAnonymizer:
    """Rewriting of messages.

    Bones and markers keep their names, except for subjects' names in them.
    """

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._names = pseudonyms
        self._version = _VERSIONS[0]

    def rewrite(self, datagram: bytes) -> bytes | None:
        """Return a message without names, of the same size.

        None when it cannot be read to its last byte.
        """
        try:
            identity = message_id(datagram)
            payload = datagram[HEADER_BYTES:]
        except ProtocolError:
            return None
        if identity == MessageId.FRAMEOFDATA:
            return self._rebuilt(datagram, self._frame)
        if identity == MessageId.MODELDEF:
            return self._rebuilt(datagram, self._models)
        if identity in (MessageId.CONNECT, MessageId.DISCOVERY, MessageId.SERVERINFO):
            # Of the program; what stands behind it is left over.
            field = payload[:_NAME_BYTES].split(b"\0")[0]
            return (
                datagram[:HEADER_BYTES]
                + field.ljust(min(_NAME_BYTES, len(payload)), b"\0")
                + payload[_NAME_BYTES:]
            )
        if identity in (MessageId.REQUEST, MessageId.RESPONSE, MessageId.MESSAGESTRING):
            return encode(MessageId(identity), self._text(MessageId(identity), payload))
        if identity == MessageId.UNRECOGNIZED_REQUEST:
            return encode(MessageId.UNRECOGNIZED_REQUEST, bytes(len(payload)))
        if identity not in _WITHOUT_TEXT or len(payload) > _WITHOUT_TEXT[MessageId(identity)]:
            return None
        return datagram

    def _rebuilt(
        self, datagram: bytes, build: Callable[[bytes, Version, bool], bytes]
    ) -> bytes | None:
        """Return the rewritten message, by the first version of the layout that reproduces the
        original bytes.
        """
        for version in (self._version, *_VERSIONS):
            try:
                if build(datagram, version, False) == datagram:
                    self._version = version
                    return build(datagram, version, True)
            except (ProtocolError, ValueError):
                continue
        return None

    def _frame(self, datagram: bytes, version: Version, rename: bool) -> bytes:
        frame = decode_frame(datagram, version)
        if rename:
            frame = self._renamed_sets(frame)
        return encode_frame(frame, version)

    def _renamed_sets(self, frame: NatNetFrame) -> NatNetFrame:
        sets = tuple(replace(s, name=self._name(s.name)) for s in frame.marker_sets)
        return replace(frame, marker_sets=sets, tail=bytes(len(frame.tail)))

    def _models(self, datagram: bytes, version: Version, rename: bool) -> bytes:
        models = decode_models(datagram, version)
        if rename:
            models = Models(tuple(map(self._described, models.items)))
        return encode_models(models, version)

    def _described(self, item: Description) -> Description:
        match item:
            case MarkerSetDescription():
                return replace(
                    item,
                    name=self._name(item.name),
                    markers=tuple(map(self._names.within, item.markers)),
                )
            case BodyDescription():
                return replace(self._part(item), name=self._name(item.name))
            case SkeletonDescription():
                return replace(
                    item, name=self._name(item.name), bones=tuple(map(self._part, item.bones))
                )
            case AssetDescription():
                bodies = tuple(replace(self._part(b), name=self._name(b.name)) for b in item.bodies)
                markers = tuple(replace(m, name=self._names.within(m.name)) for m in item.markers)
                return replace(item, name=self._name(item.name), bodies=bodies, markers=markers)
            case DeviceDescription():
                return replace(item, name=self._name(item.name), serial=self._name(item.serial))
            case ForcePlateDescription():
                return replace(item, serial=self._name(item.serial))
            case CameraDescription():
                return replace(item, name=self._name(item.name))
        return replace(item, content=bytes(len(item.content)))

    def _part(self, body: BodyDescription) -> BodyDescription:
        markers = tuple(replace(m, name=self._names.within(m.name)) for m in body.markers)
        return replace(body, name=self._names.within(body.name), markers=markers)

    def _name(self, text: str) -> str:
        return text if text == _ALL else self._names.name(text)

    def _text(self, identity: MessageId, payload: bytes) -> bytes:
        """Return the text of a command, an answer or a message, its parameters renamed."""
        if (
            identity is MessageId.RESPONSE
            and len(payload) <= _NUMBER_BYTES
            and not _SHORT_TEXT.fullmatch(payload)
        ):
            return payload
        text, _, _ = payload.partition(b"\0")
        parts = text.decode("utf-8", "replace").split(",")
        command = identity is MessageId.REQUEST and _COMMAND.fullmatch(parts[0])
        unchanged = parts[:1] if command or parts[0] == "Bitstream" else []
        renamed = [
            part if _PLAIN.fullmatch(part) else self._names.name(part)
            for part in parts[len(unchanged) :]
        ]
        new = ",".join([*unchanged, *renamed]).encode()
        return new[: len(text)].ljust(len(text), b"x") + bytes(len(payload) - len(text))
