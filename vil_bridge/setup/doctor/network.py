"""Interfaces, routes, multicast, ports and serial lines."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from vil_bridge.setup.discovery import serial_devices
from vil_bridge.setup.doctor.finding import Finding, fail, ok, warn

_SIOCGIFADDR: Final = 0x8915
_IFREQ: Final = Struct("16s24x")
_ADDRESS_AT: Final = 20


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface with its (first) IPv4 address."""

    index: int
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Route:
    """Route of datagrams to a host.

    Attributes:
        host_ip: its address, empty when the name is unknown. local_ip: own address of the route.
        interface: its name. problem: why there is none, empty when there is.
    """

    host_ip: str
    local_ip: str = ""
    interface: str = ""
    problem: str = ""


def interfaces() -> list[Interface]:
    """Return the interfaces that have an IPv4 address, loopback first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for index, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock, _SIOCGIFADDR, _IFREQ.pack(name.encode()[:15]))
            except OSError:
                continue  # it has no address
            found.append(
                Interface(index, name, socket.inet_ntoa(answer[_ADDRESS_AT : _ADDRESS_AT + 4]))
            )
    return found


def route_to(host: str, port: int = 9) -> Route:
    """Return the route to a host; nothing is sent."""
    try:
        info = socket.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM)
    except OSError as exc:
        return Route("", problem=f"the name {host!r} is unknown ({exc.strerror or exc})")
    host_ip = str(info[0][4][0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((host_ip, port))
        except OSError as exc:
            text = os.strerror(exc.errno or 0)
            if exc.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
                text = "no route to it"
            return Route(host_ip, problem=text)
        local_ip = str(sock.getsockname()[0])
    name = next((i.name for i in interfaces() if i.address == local_ip), "")
    return Route(host_ip, local_ip, name or ("lo" if local_ip.startswith("127.") else "?"))


MOCAP_GROUP: Final = "239.255.42.99"
"""Motive's default multicast group."""
_ROOT: Final = Path("/")
_LISTEN: Final = "0A"
_COMMAND_LIMIT: Final = 60


def check_interfaces(own: Sequence[Interface]) -> Finding:
    """Check that there is a network."""
    listed = ", ".join(f"{i.name} {i.address}" for i in own)
    if any(not i.address.startswith("127.") for i in own):
        return ok("interfaces", listed)
    return warn(
        "interfaces",
        f"only {listed or 'none'}: no network",
        "plug in the cable of the mocap network",
    )


def check_route(what: str, host: str, interface: str, own: Sequence[Interface]) -> Finding:
    """Check that the interface to a server is the configured one.

    Args:
        what: name of the section, for the reader.
        host: address or name of the server.
        interface: configured local address, ``auto`` = by route.
        own: interfaces of this computer.
    """
    name = f"route of {what}"
    known = {i.address for i in own}
    if interface != "auto" and interface not in known:
        listed = ", ".join(f"{i.address} ({i.name})" for i in own)
        return fail(
            name,
            f"interface {interface} is none of this computer's: {listed}",
            "`interface: auto`, or one of these",
        )
    route = route_to(host)
    if route.problem:
        cure = (
            "is the network cable of the mocap network plugged in, and its address "
            "configured (same subnet)?"
        )
        return fail(name, f"{host}: {route.problem}", cure)
    if interface not in ("auto", route.local_ip):
        return warn(
            name,
            f"{host} is reached from {route.local_ip} ({route.interface}), but the source "
            f"listens on {interface}: "
            "frames will not arrive there",
            "`interface: auto`, or move the server to that network",
        )
    return ok(name, f"{host} by {route.interface} ({route.local_ip})")


def check_multicast(interface: Interface, group: str = MOCAP_GROUP, root: Path = _ROOT) -> Finding:
    """Check that a group can be joined on an interface, as ``/proc/net/igmp`` confirms."""
    name = f"multicast on {interface.name}"
    membership = socket.inet_aton(group) + socket.inet_aton(interface.address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError as exc:
            cure = (
                f"sudo ip link set {interface.name} multicast on; or switch the mocap system "
                "to unicast"
            )
            return warn(name, f"cannot join {group}: {exc.strerror}", cure)
        joined = _joined(group, root)
    if interface.name not in joined:
        where = ", ".join(sorted(joined)) or "nowhere"
        return warn(
            name,
            f"joined {group}, but the kernel lists it on {where}",
            "give `interface:` in the configuration",
        )
    return ok(name, f"{group} can be joined")


def _joined(group: str, root: Path) -> set[str]:
    """Return the names of the interfaces on which the kernel is a member of a group."""
    try:
        lines = (root / "proc/net/igmp").read_text().splitlines()[1:]
    except OSError:
        return set()
    wanted = socket.inet_aton(group)[::-1].hex().upper()
    interface = ""
    found = set()
    for line in lines:
        words = line.split()
        if not line.startswith("\t") and len(words) > 1:
            interface = words[1].rstrip(":")
        elif words and words[0] == wanted:
            found.add(interface)
    return found


def check_port(what: str, address: str, port: int) -> Finding:
    """Check that a TCP port that the bridge will listen on is free.

    Name the program that has it.
    """
    name = f"port of {what}"
    if port == 0:
        return ok(name, "any free one")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.create_server(("" if address == "*" else address, port), family=family):
            return ok(name, f"{address}:{port} is free")
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            cure = "an address of this computer is wanted; `127.0.0.1` always is one"
            return fail(
                name, f"{address}:{port} cannot be listened on: {exc.strerror or exc}", cure
            )
    holder = port_holder(port)
    who = f"by {holder}" if holder else "by a program of another user"
    return fail(
        name,
        f"{address}:{port} is taken {who}",
        "end that program (another bridge?), or configure another port",
    )


def port_holder(port: int, root: Path = _ROOT) -> str:
    """Return the program that listens on a TCP port.

    ``command (pid 123)``, empty where that is unknown.
    """
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (root / "proc/net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{words[9]}]")
    for pid, target in open_files(root):
        if target in inodes:
            return process_name(pid, root)
    return ""


def open_files(root: Path = _ROOT) -> Iterator[tuple[int, str]]:
    """Yield (pid, open file) of all processes that may be looked into."""
    for folder in (root / "proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for fd in folder.iterdir():
                with contextlib.suppress(OSError):
                    yield int(folder.parent.name), str(fd.readlink())


def process_name(pid: int, root: Path = _ROOT) -> str:
    """Return ``command (pid 123)``."""
    try:
        command = (
            (root / "proc" / str(pid) / "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
        )
    except OSError:
        command = ""
    return f"{command[:_COMMAND_LIMIT].strip() or 'a program'} (pid {pid})"


def check_serial(what: str, device: str) -> Finding:
    """Check that a configured serial line exists, may be opened, and is not used by another
    program.
    """
    name = f"serial line of {what}"
    path = Path(device)
    if not path.exists():
        here = ", ".join(serial_devices()) or "none"
        cure = f"plug the autopilot in and wait for its boot; serial lines here: {here}"
        if path.is_symlink():
            return fail(name, f"{device} points to {path.readlink()}, which is not there", cure)
        return fail(name, f"{device} does not exist", cure)
    if not stat.S_ISCHR(path.stat().st_mode):
        return fail(
            name, f"{device} is not a serial line", "give the device, best one of /dev/serial/by-id"
        )
    if not os.access(path, os.R_OK | os.W_OK):
        return fail(
            name,
            f"no permission to open {device}",
            "sudo usermod -aG dialout $USER, then log in again",
        )
    real = str(path.resolve())
    others = sorted({pid for pid, target in open_files() if target == real and pid != os.getpid()})
    if others:
        who = ", ".join(process_name(pid) for pid in others)
        cure = (
            "end it (ModemManager, a ground station, another bridge?): two readers steal "
            "each other's bytes"
        )
        return warn(name, f"{device} is also open in {who}", cure)
    return ok(name, f"{device} can be opened")
