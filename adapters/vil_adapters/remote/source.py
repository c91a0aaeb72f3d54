"""The source: connects to another bridge, and again when nothing comes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Final

from vil_adapters.remote.config import RemoteConfig
from vil_adapters.remote.session import FederationSession
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError, SourceUnavailable
from vil_bridge.core.installation import install_command
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.protocols.federation.zmq_link import (
    OnMessage,
    Refusal,
    SubscriberLink,
    ZmqSubscriberLink,
)
from vil_bridge.protocols.zmq.curve import read_public_key, read_secret_key
from vil_bridge.runtime.supervisor import Status

_PATIENCE_S: Final = 1.0
_CURES: Final = {
    errno.ECONNREFUSED: "refused the connection: does the other bridge run, with `federation:` at "
    "this port?",
    errno.ENETUNREACH: "cannot be reached, no route leads there: check the network and the address",
    errno.EHOSTUNREACH: "cannot be reached, no machine answers there: check the network and the "
    "address",
}


def refused(config: RemoteConfig, refusal: Refusal) -> str:
    """Say what to copy where after the other bridge refused this one's keys."""
    if config.secret_key is None or config.server_key is None:
        return (
            "It wants keys: make a pair with `vil-bridge keys new` and set secret_key "
            "and server_key "
            "(docs/guides/rooms.md)"
        )
    own = config.secret_key.with_suffix(".key").name
    if refusal is Refusal.KEY_NOT_ALLOWED:
        return f"Copy {own} from here into its folder `federation.zmq.allowed_keys`, and restart it"
    return (
        f"{config.server_key} is not its key, or it has none: copy the *.key there that "
        "belongs to its"
        " `federation.zmq.secret_key`"
    )


async def reached(host: str, port: int) -> str:
    """Return the result of a connection to the port, the local address and what to check.

    Takes 1 s at most.
    """
    place = f"{host}:{port}"
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return (
            f"{place} does not answer within {_PATIENCE_S:.0f} s{_route(host)}: check cable, "
            "firewall and address"
        )
    except socket.gaierror as exc:
        return f"the name {host!r} is unknown ({exc.strerror}): check `address`"
    except OSError as exc:
        known = [cure for number, cure in _CURES.items() if f"[Errno {number}]" in str(exc)]
        return f"{place} {known[0] if known else f'failed ({exc})'}{_route(host)}"
    local = writer.get_extra_info("sockname")[0]
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return (
        f"{place} accepts connections from {local} and says nothing: is a bridge behind "
        "it, are the keys or the login"
        " the right ones, and is this bridge's key among those that it allows?"
    )


def _route(host: str) -> str:
    """Return the local address of the route in words, empty without a route."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return f" (tried from {probe.getsockname()[0]})"
    return ""


def make_link(config: RemoteConfig, on_message: OnMessage) -> SubscriberLink:
    """Return a link that is not open yet.

    Raises:
        SourceUnavailable: a key cannot be read, or zenoh is not installed.
    """
    try:
        if config.zenoh:
            return _zenoh_link(config, on_message)
        keys = None if config.secret_key is None else read_secret_key(config.secret_key)
        server_key = None if config.server_key is None else read_public_key(config.server_key)
    except ConfigError as exc:
        raise SourceUnavailable(str(exc)) from exc
    return ZmqSubscriberLink(config.address, on_message, keys, server_key)


def _zenoh_link(config: RemoteConfig, on_message: OnMessage) -> SubscriberLink:
    try:
        from vil_bridge.protocols.federation.zenoh_link import ZenohSubscriberLink, read_login
    except ModuleNotFoundError as exc:
        raise SourceUnavailable(
            f"zenoh is not installed. Run: {install_command('federation')}"
        ) from exc
    login = None if config.login is None else read_login(config.login)
    return ZenohSubscriberLink(
        config.address, config.site, on_message, login, config.ca_certificate
    )


_HOUSEKEEPING_S: Final = 0.02
_SILENCE_NS: Final = 800 * NS_PER_MS
_WAITING_NS: Final = 3 * NS_PER_S


class RemoteSource:
    """The actors of another bridge (implements ``PoseSource``).

    A connection that brought nothing for 0.8 s is given up for a new one: after a cut, TCP itself
    would wait up to twice as long as the cut lasted.
    """

    def __init__(self, name: str, config: RemoteConfig) -> None:
        self.name = name
        self._config = config
        self._refusal: Refusal | None = None

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: a key cannot be read, or the transport is not installed.
        """
        status.facts["address"] = self._config.address
        session = FederationSession(self.name, self._config.site, emit, status, now_ns())
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_message(data: bytes, t_arrival_ns: int) -> None:
            try:
                session.handle(data, t_arrival_ns)
            except Exception as exc:
                if not failed.done():
                    failed.set_exception(exc)

        explaining = asyncio.create_task(self._explain(session, status))
        self._refusal = None
        ends: tuple[asyncio.Future[None], ...] = (failed, explaining)
        try:
            while True:
                link = make_link(self._config, on_message)
                try:
                    t_open_ns = now_ns()
                    if await link.open():
                        t_open_ns = now_ns()
                    session.connected()
                    while now_ns() - max(t_open_ns, session.t_received_ns) < _SILENCE_NS:
                        session.ask(link, now_ns())
                        ended, _ = await asyncio.wait(
                            ends, timeout=_HOUSEKEEPING_S, return_when="FIRST_COMPLETED"
                        )
                        for end in ended:
                            end.result()
                        self._refusal = link.refusal() or self._refusal
                finally:
                    link.close()
                status.counters["connections_given_up"] += 1
        finally:
            explaining.cancel()

    async def _explain(self, session: FederationSession, status: Status) -> None:
        """Report why nothing is emitted, as long as nothing is."""
        config = self._config
        while True:
            await asyncio.sleep(1.0)
            t_ns = now_ns()
            if t_ns - session.t_frame_ns < _WAITING_NS:
                continue
            if t_ns - session.t_received_ns > _WAITING_NS and self._refusal is not None:
                status.waiting(
                    f"{config.address} refuses this bridge. {refused(config, self._refusal)}"
                )
            elif t_ns - session.t_received_ns > _WAITING_NS:
                status.waiting(await reached(config.host, config.port))
            elif session.other_site is not None:
                status.waiting(
                    f"{config.address} is the site {session.other_site!r}, not "
                    f"{config.site!r}: check `site`"
                )
            elif session.described is not None and not session.described.actors:
                status.waiting(
                    f"site {config.site!r} answers and publishes no actor: check its "
                    "`federation.actors`"
                )
            else:
                status.waiting(
                    f"site {config.site!r} answers and sends no frames: do its own sources run?"
                )
