"""Two bridges over zenoh (extra ``federation``): for networks where a lab's routers already run it.

Keys: ``vil/SITE/frame`` is published, ``vil/SITE/ask`` answers, ``vil/SITE/alive`` shows presence.
Nothing is searched for (no scouting, no gossip), and a client may read this site and nothing
else: putting is denied.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from pathlib import Path
from typing import Any, Final

import zenoh

from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError, ProtocolError, SinkError
from vil_bridge.protocols.federation.messages import MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES
from vil_bridge.protocols.federation.zmq_link import Answer, OnMessage
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.secret_file import read_private, refuse_shared

_CONNECT_MS: Final = 800
_LEASE_MS: Final = 2000
_ANSWER_S: Final = 2.0
_WAITING_MESSAGES: Final = 256
_WHAT: Final = "these passwords"


def read_login(path: Path) -> tuple[str, str]:
    """Read user and password from a file with one line USER:PASSWORD.

    Raises:
        ConfigError: it cannot be read, others may read it, or it holds no such line.
    """
    user, colon, password = read_private(path, _WHAT).strip().partition(":")
    if not (user and colon and password) or "\n" in password:
        raise ConfigError(f"{path}: write one line USER:PASSWORD")
    return user, password


def _config(settings: dict[str, Any]) -> zenoh.Config:
    config = zenoh.Config()
    common = {
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/link/tx/lease": _LEASE_MS,
        "transport/link/rx/max_message_size": MAX_MESSAGE_BYTES,
    }
    for key, value in (common | settings).items():
        config.insert_json5(key, json.dumps(value))
    return config


def _access(site: str, named: list[str]) -> dict[str, Any]:
    """Return the access rules: known users (all when none is named) read this site."""
    reads = ["declare_subscriber", "query", "declare_liveliness_subscriber", "liveliness_query"]
    answers = ["put", "reply", "liveliness_token", "declare_queryable"]
    rules = [
        {
            "id": flow,
            "messages": messages,
            "flows": [flow],
            "permission": "allow",
            "key_exprs": [f"vil/{site}/**"],
        }
        for flow, messages in (("ingress", reads), ("egress", answers))
    ]
    subject: dict[str, Any] = {"id": "readers"} | ({"usernames": named} if named else {})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [subject],
        "policies": [{"id": "read", "rules": ["ingress", "egress"], "subjects": ["readers"]}],
    }


class ZenohPublisherLink:
    """Server of one zenoh endpoint.

    Args:
        listen: ``tcp/ADDRESS:PORT``, ``tls/...`` or ``quic/...``.
        site: prefix of the keys.
        answer: answers requests, in zenoh's threads.
        users: file of lines USER:PASSWORD; None = anybody.
        certificate, private_key: files of this bridge for TLS.
    """

    def __init__(
        self,
        listen: str,
        site: str,
        answer: Answer,
        users: Path | None = None,
        certificate: Path | None = None,
        private_key: Path | None = None,
    ) -> None:
        self.endpoint = listen
        self.counters: Counter[str] = Counter()
        self.peer_faults = PeerFaults("publish")  # stays empty: zenoh does not name senders
        self._site = site
        self._answer = answer
        self._users = users
        self._certificate = certificate
        self._private_key = private_key
        self._session: Any = None
        self._publisher: Any = None  # the package's stubs know neither matching_status nor close()
        self._declared: list[object] = []

    def open(self) -> None:
        """Listen and serve; takes up to half a second.

        Raises:
            SinkError: the address, a certificate or the file of users cannot be had.
        """
        try:
            session = self._session = zenoh.open(_config(self._settings()))
        except (zenoh.ZError, ConfigError) as exc:
            raise SinkError(
                f"cannot publish at {self.endpoint}: {str(exc).partition(' at /')[0]}"
            ) from exc
        prefix = f"vil/{self._site}"
        self._publisher = session.declare_publisher(
            f"{prefix}/frame",
            congestion_control=zenoh.CongestionControl.DROP,
            priority=zenoh.Priority.REAL_TIME,
            express=True,
        )
        self._declared = [
            session.declare_queryable(f"{prefix}/ask", self._on_query),
            session.liveliness().declare_token(f"{prefix}/alive"),
        ]

    @property
    def subscribers(self) -> int:
        """1 while anybody listens, else 0: zenoh does not count them."""
        return int(self._publisher is not None and self._publisher.matching_status.matching)

    def housekeep(self) -> None:
        """Do nothing: zenoh has its own threads."""

    def publish(self, frame: bytes) -> None:
        """Send to all subscribers; zenoh drops what a connection cannot take."""
        if self._publisher is not None:
            self._publisher.put(frame)
            self.counters["sent"] += 1

    def close(self) -> None:
        """Release the address; may be called twice."""
        if self._session is not None:
            self._session.close()
        self._session = self._publisher = None
        self._declared = []

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"mode": "router", "listen/endpoints": [self.endpoint]}
        named: list[str] = []
        if self._users is not None:
            named = [
                line.partition(":")[0]
                for line in read_private(self._users, _WHAT).splitlines()
                if line.strip()
            ]
            settings["transport/auth/usrpwd"] = {"dictionary_file": str(self._users)}
        if self._certificate is not None and self._private_key is not None:
            try:
                refuse_shared(self._private_key, "this private key")
            except OSError as exc:
                raise ConfigError(f"{self._private_key}: cannot be read: {exc.strerror}") from None
            settings["transport/link/tls/listen_certificate"] = str(self._certificate)
            settings["transport/link/tls/listen_private_key"] = str(self._private_key)
        return settings | {"access_control": _access(self._site, named)}

    def _on_query(self, query: zenoh.Query) -> None:
        with query:
            payload = query.payload
            try:
                if payload is None or len(payload) > MAX_REQUEST_BYTES:
                    raise ProtocolError("a question without words, or too long")
                answer = self._answer(payload.to_bytes())
            except ProtocolError:
                self.counters["malformed"] += 1
                return
            if answer is not None:
                query.reply(query.key_expr, answer)


class ZenohSubscriberLink:
    """A client of one zenoh endpoint.

    Args:
        address: ``tcp/HOST:PORT``, ``tls/...`` or ``quic/...``.
        site: prefix of the keys.
        on_message: called in the loop's thread with each message and its arrival time.
        login: user and password.
        ca_certificate: file to check the other end's certificate with.
    """

    def __init__(
        self,
        address: str,
        site: str,
        on_message: OnMessage,
        login: tuple[str, str] | None = None,
        ca_certificate: Path | None = None,
    ) -> None:
        self._address = address
        self._site = site
        self._on_message = on_message
        self._login = login
        self._ca_certificate = ca_certificate
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bytes, int]] = deque(maxlen=_WAITING_MESSAGES)
        self._woken = False
        self._session: Any = None

    def refusal(self) -> None:
        """Return None: zenoh reports no refusal."""

    async def open(self) -> bool:
        """Connect, in a thread of its own since zenoh waits.

        Like TCP it cannot distinguish silence from refusal.
        """
        settings: dict[str, Any] = {
            "mode": "client",
            "connect/endpoints": [self._address],
            "connect/timeout_ms": _CONNECT_MS,
        }
        if self._login is not None:
            settings["transport/auth/usrpwd"] = dict(
                zip(("user", "password"), self._login, strict=True)
            )
        if self._ca_certificate is not None:
            settings["transport/link/tls/root_ca_certificate"] = str(self._ca_certificate)
        with contextlib.suppress(zenoh.ZError):
            self._session = await asyncio.to_thread(zenoh.open, _config(settings))
            self._session.declare_subscriber(f"vil/{self._site}/frame", self._on_sample)
        return self._session is not None

    def ask(self, request: bytes) -> bool:
        """Ask; the answer comes as a message."""
        if self._session is None:
            return False
        try:
            self._session.get(
                f"vil/{self._site}/ask", self._on_reply, payload=request, timeout=_ANSWER_S
            )
        except zenoh.ZError:
            return False
        return True

    def close(self) -> None:
        """Leave; may be called twice."""
        session = self._session
        self._session = None
        if session is not None:
            session.close()

    # --- called in zenoh's threads ---------------------------------------------------------------

    def _on_sample(self, sample: zenoh.Sample) -> None:
        self._hand_over(sample.payload.to_bytes())

    def _on_reply(self, reply: zenoh.Reply) -> None:
        if reply.ok is not None:
            self._hand_over(reply.ok.payload.to_bytes())

    def _hand_over(self, message: bytes) -> None:
        """Let the loop take it; beyond a bound the oldest messages are overwritten."""
        self._waiting.append((message, now_ns()))
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop has ended
                self._waiting.clear()

    def _drain(self) -> None:
        self._woken = False
        while self._waiting and self._session is not None:
            self._on_message(*self._waiting.popleft())
