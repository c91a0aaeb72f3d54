"""UDP datagrams in captured packets: link layers, IPv4 and its fragments (RFC 791, RFC 768)."""

from __future__ import annotations

import socket
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.protocols.pcap.packet_files import Packet
from vil_bridge.runtime.datagrams import Datagram

_IPV4: Final = Struct("!BBHHHBBH4s4s")
_UDP: Final = Struct("!HHHH")
_ETHERTYPE_IPV4: Final = b"\x08\x00"
_ETHERTYPES_VLAN: Final = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_MAX_VLAN_TAGS: Final = 4
_FAMILIES_IPV4: Final = (b"\x02\x00\x00\x00", b"\x00\x00\x00\x02")
_LINKS_RAW: Final = (12, 14, 101, 228)
_LINKS_LOOPBACK: Final = (0, 108)
_LINK_ETHERNET = 1
_LINK_COOKED = 113
_LINK_COOKED_2 = 276
_OUTGOING: Final = 4
_MORE_FRAGMENTS: Final = 0x2000
_OFFSET_MASK: Final = 0x1FFF
_MAX_PARTIAL: Final = 64
_MAX_FRAGMENTS: Final = 8192
_MAX_DATAGRAM_BYTES: Final = 65535
_PARTIAL_NS: Final = 30 * NS_PER_S
_REMEMBERED: Final = 64


@dataclass(slots=True)
class _Partial:
    """Fragments of one IP datagram, by offset."""

    t_ns: int
    parts: dict[int, bytes] = field(default_factory=dict)
    end: int | None = None

    def whole(self) -> bytes | None:
        """Return all bytes; None while some are missing."""
        if self.end is None or sum(map(len, self.parts.values())) < self.end:
            return None
        data = b"".join(self.parts[at] for at in sorted(self.parts))
        return data if len(data) == self.end else None


class UdpReader:
    """Turns packets of one capture into datagrams; remembers at most 64 incomplete ones, for 30 s.

    Attributes:
        cut: packets that the capturing program stored in part only.
        unknown_links: link types that are not read.
    """

    def __init__(self) -> None:
        self.cut = 0
        self.unknown_links: set[int] = set()
        self._partial: OrderedDict[tuple[bytes, bytes, int], _Partial] = OrderedDict()
        self._outgoing: deque[bytes] = deque(maxlen=_REMEMBERED)

    def read(self, packet: Packet) -> Datagram | None:
        """Return the datagram that a packet completes; None for everything else."""
        ip = self._ip_of(packet)
        if ip is None or len(ip) < _IPV4.size:
            return None
        first, _, size, identity, fragment, _, protocol, _, sender, receiver = _IPV4.unpack_from(ip)
        begin = 4 * (first & 0x0F)
        if first >> 4 != 4 or protocol != socket.IPPROTO_UDP or not _IPV4.size <= begin <= size:
            return None
        if size > len(ip):
            self.cut += not packet.whole
            return None
        content: bytes | None = ip[begin:size]
        if fragment & (_MORE_FRAGMENTS | _OFFSET_MASK):
            content = self._joined(
                (sender, receiver, identity), fragment, ip[begin:size], packet.t_ns
            )
        return None if content is None else _datagram(packet.t_ns, sender, receiver, content)

    def _ip_of(self, packet: Packet) -> bytes | None:
        """Return the IPv4 packet in a packet of a link."""
        data = packet.data
        if packet.link in _LINKS_RAW:
            return data
        if packet.link in _LINKS_LOOPBACK:
            return data[4:] if data[:4] in _FAMILIES_IPV4 else None
        if packet.link == _LINK_ETHERNET:
            return _behind_vlan(data, 12)
        if packet.link == _LINK_COOKED:
            return self._once(data[:2], _behind_vlan(data, 14))
        if packet.link == _LINK_COOKED_2:
            return self._once(data[10:11], _ipv4_if(data[:2], data[20:]))
        self.unknown_links.add(packet.link)
        return None

    def _once(self, direction: bytes, ip: bytes | None) -> bytes | None:
        """Return a packet of the `any` device unless it is the received copy of one that this
        host sent.
        """
        if ip is None:
            return None
        if int.from_bytes(direction, "big") == _OUTGOING:
            self._outgoing.append(ip)
        elif ip in self._outgoing:
            self._outgoing.remove(ip)
            return None
        return ip

    def _joined(
        self, key: tuple[bytes, bytes, int], fragment: int, part: bytes, t_ns: int
    ) -> bytes | None:
        """Record a fragment; return the content once it is whole."""
        partial = self._partial.get(key)
        if partial is None or t_ns - partial.t_ns > _PARTIAL_NS:
            partial = self._partial[key] = _Partial(t_ns)
            self._partial.move_to_end(key)
            while len(self._partial) > _MAX_PARTIAL:
                self._partial.popitem(last=False)
        at = 8 * (fragment & _OFFSET_MASK)
        if at + len(part) > _MAX_DATAGRAM_BYTES or len(partial.parts) >= _MAX_FRAGMENTS:
            del self._partial[key]
            return None
        partial.parts.setdefault(at, part)
        if not fragment & _MORE_FRAGMENTS:
            partial.end = at + len(part)
        content = partial.whole()
        if content is not None:
            del self._partial[key]
        return content


def _behind_vlan(data: bytes, at: int) -> bytes | None:
    """Return what follows an Ethernet type at an offset, behind up to four VLAN tags, if it is
    IPv4.
    """
    for _ in range(_MAX_VLAN_TAGS):
        if data[at : at + 2] not in _ETHERTYPES_VLAN:
            break
        at += 4
    return _ipv4_if(data[at : at + 2], data[at + 2 :])


def _ipv4_if(ethertype: bytes, data: bytes) -> bytes | None:
    return data if ethertype == _ETHERTYPE_IPV4 else None


def _datagram(t_ns: int, sender: bytes, receiver: bytes, content: bytes) -> Datagram | None:
    if len(content) < _UDP.size:
        return None
    sender_port, receiver_port, size, _ = _UDP.unpack_from(content)
    if not _UDP.size <= size <= len(content):
        return None
    return Datagram(
        t_ns,
        (socket.inet_ntoa(sender), sender_port),
        (socket.inet_ntoa(receiver), receiver_port),
        content[_UDP.size : size],
    )
