"""CURVE keys: reading them from files, and letting in only those who hold an allowed one.

The files are those of ``zmq.auth`` (ZPL): ``NAME.key`` with the public key, ``NAME.key_secret``
with both. Secret keys are never logged.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import zmq
from zmq.utils import z85

from vil_bridge.core.errors import ConfigError
from vil_bridge.protocols.zmq.drain_socket import DrainSocket
from vil_bridge.runtime.secret_file import refuse_shared

logger = logging.getLogger(__name__)

_KEY_LINE: Final = re.compile(r'^\s*(public-key|secret-key)\s*=\s*"([^"]{40})"\s*$', re.MULTILINE)
_MAX_FILE_BYTES: Final = 65536
_FILL: Final = (
    "Copy there the public key (*.key) of each reader or bridge that may connect, and "
    "let the bridge's user read them; "
    "`vil-bridge keys new {} --name NAME` makes a pair"
)
_ZAP: Final = "inproc://zeromq.zap.01"
_LONGEST_NAME: Final = 64  # of a reader, as the stream's messages have it
_NAMED: Final = 32  # refused keys that are named in the log


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Z85 keys of one bridge; the secret one shows in no text."""

    public: bytes
    secret: bytes = field(repr=False)


def read_secret_key(path: Path) -> KeyPair:
    """Read the keys of a ``.key_secret`` file.

    Raises:
        ConfigError: the file cannot be read, holds no secret key, or others may read it.
    """
    keys = _read(path)
    if "secret-key" not in keys or "public-key" not in keys:
        raise ConfigError(
            f"{path}: holds no secret key; `vil-bridge keys new` makes one (the file *.key_secret)"
        )
    refuse_shared(path, "this secret key")
    return KeyPair(keys["public-key"], keys["secret-key"])


def read_public_key(path: Path) -> bytes:
    """Return the public key of a ``.key`` file.

    Raises:
        ConfigError: the file cannot be read or holds no public key.
    """
    keys = _read(path)
    if "public-key" not in keys:
        raise ConfigError(
            f"{path}: holds no public key; `vil-bridge keys new` makes one (the file *.key)"
        )
    return keys["public-key"]


def read_public_keys(folder: Path) -> dict[bytes, str]:
    """Return all public keys of a folder's ``*.key`` files, each with its holder's name.

    ``NAME`` of ``NAME.key``.

    Raises:
        ConfigError: there is none, one cannot be read, or two files hold the same.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".key")
    except OSError as exc:
        raise ConfigError(
            f"{folder}: cannot be read: {exc.strerror}. {_FILL.format(folder)}"
        ) from None
    if not files:
        raise ConfigError(f"{folder}: holds no public key. {_FILL.format(folder)}")
    names: dict[bytes, str] = {}
    for path in files:
        key = read_public_key(path)
        if key in names:
            raise ConfigError(
                f"{path}: holds the same key as {names[key]}.key. Remove one: a key has one name"
            )
        names[key] = path.stem[:_LONGEST_NAME]
    return names


def _read(path: Path) -> dict[str, bytes]:
    """Read the keys of a file by name. Raises ConfigError."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError(f"{path}: too large for a key file")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        cure = (
            "Copy it here from the host where `vil-bridge keys new` made it with --name "
            f"{path.stem}"
        )
        if path.suffix == ".key_secret":
            cure = f"Make it on this host: `vil-bridge keys new {path.parent} --name {path.stem}`"
        raise ConfigError(f"{path}: No such file. {cure}") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}"
        ) from None
    return {name: key.encode() for name, key in _KEY_LINE.findall(text)}


class CurveGuard:
    """Authenticator of a context (ZAP, RFC 27) by public keys that may connect, with their names.

    The name becomes the connection's ``User-Id``. One per context; opened before the guarded socket
    binds, closed after it. Refusals are counted as ``refused_key``; each key is named in the log
    once.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        allowed: Mapping[bytes, str],
        counters: Counter[str],
    ):
        self._allowed = {z85.decode(key): name for key, name in allowed.items()}
        self._counters = counters
        self._named: set[bytes] = set()
        socket = context.socket(zmq.ROUTER)
        socket.linger = 0
        socket.bind(_ZAP)
        self._drain = DrainSocket(socket, self._on_question)

    def close(self) -> None:
        """Answer no more; may be called twice."""
        self._drain.close()

    def _on_question(self, frames: list[bytes]) -> None:
        # identity, empty, version, request, domain, address, peer's identity, mechanism, public key
        known = (
            len(frames) == 9
            and frames[2] == b"1.0"
            and frames[7] == b"CURVE"
            and frames[8] in self._allowed
        )
        if not known:
            self._refuse(frames)
        request = frames[3] if len(frames) > 3 else b""
        verdict = (b"400", b"key not allowed", b"")
        if known:
            verdict = (b"200", b"OK", self._allowed[frames[8]].encode())
        self._drain.send((*frames[:2], b"1.0", request, *verdict, b""))

    def _refuse(self, frames: list[bytes]) -> None:
        self._counters["refused_key"] += 1
        key = frames[8] if len(frames) == 9 and len(frames[8]) == 32 else b""
        if key and key not in self._named and len(self._named) < _NAMED:
            self._named.add(key)
            logger.warning(
                "refused %s: its public key %s is not allowed",
                frames[5].decode(),
                z85.encode(key).decode(),
            )
