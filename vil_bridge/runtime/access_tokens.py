"""Tokens of the HTTP server: who holds one, and what it allows.

One file holds a line ``ROLE = TOKEN`` for each role that is given out; ``vil-bridge keys token``
writes it.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from vil_bridge.core.errors import ConfigError
from vil_bridge.runtime.secret_file import read_private

_LINE: Final = re.compile(r"(control|view|metrics)\s*=\s*(\S+)")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32,256}")
_WHAT: Final = "these tokens"


class Role(StrEnum):
    """Permission of a client; ``control`` includes ``view``, and ``view`` includes ``metrics``."""

    NONE = "none"
    METRICS = "metrics"
    VIEW = "view"
    CONTROL = "control"

    def covers(self, needed: Role) -> bool:
        """Return True when this role includes the needed one."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Tokens:
    """The tokens of one bridge, stored as digests, so that none shows in a log or a dump."""

    def __init__(self, by_role: Mapping[Role, str]) -> None:
        self._digests = {role: digest(token) for role, token in by_role.items()}

    def role_of(self, token: str) -> Role:
        """Return the role of a token, :attr:`Role.NONE` for a wrong one.

        The time is the same for either.
        """
        given = digest(token)
        found = Role.NONE
        for role, expected in self._digests.items():
            if hmac.compare_digest(given, expected):
                found = role
        return found


def digest(secret: str) -> bytes:
    """Return the digest by which a secret is recognised."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def new_token() -> str:
    """Return a fresh random one, 256 bits."""
    return secrets.token_urlsafe(32)


def read_tokens(path: Path) -> Tokens:
    """Return all tokens of a file.

    Raises:
        ConfigError: it cannot be read, others may read it, or a line of it is wrong; says how to
            make one.
    """
    return Tokens(_read(path))


def read_token(path: Path, role: Role) -> str:
    """Return the token with which a client does what a role may, ``control``'s where it has none of
    its own.

    Raises:
        ConfigError: as for :func:`read_tokens`, or the file holds no such token.
    """
    tokens = _read(path)
    token = tokens.get(role) or tokens.get(Role.CONTROL)
    if token is None:
        raise ConfigError(f"{path}: holds no token for {role}")
    return token


def _read(path: Path) -> dict[Role, str]:
    found: dict[Role, str] = {}
    for number, line in enumerate(read_private(path, _WHAT).splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = _LINE.fullmatch(entry)
        # The line itself is never shown: it may be a secret.
        if match is None or not _TOKEN.fullmatch(match[2]):
            raise ConfigError(
                f"{path}:{number}: write ROLE = TOKEN, with the role control, view or "
                "metrics and 32 to 256 of"
                " A-Z a-z 0-9 _ -; `vil-bridge keys token` makes such a file"
            )
        role = Role(match[1])
        if role in found or match[2] in found.values():
            raise ConfigError(f"{path}:{number}: each role once, and no token for two of them")
        found[role] = match[2]
    if not found:
        raise ConfigError(
            f"{path}: holds no token; `vil-bridge keys token` makes a file with one for each role"
        )
    return found
