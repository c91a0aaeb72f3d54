"""The certificate authorities that httpx trusts, read once in a process of the tests.

Each client would read them.
"""

from __future__ import annotations

import functools
import os
import ssl
from typing import Any, Final

from httpx import create_ssl_context
from httpx._transports import default

__all__ = ["share_trust"]

_PLACES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name other authorities."""


def share_trust() -> None:
    """Let all clients of httpx that ask for nothing special share a context."""
    setattr(default, "create_ssl_context", _shared_context)  # noqa: B010 - a name that the module does not export


def _shared_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    """Return what httpx would make."""
    if verify is True and cert is None:
        return _common(trust_env, *map(os.environ.get, _PLACES))
    return create_ssl_context(verify, cert, trust_env)


@functools.cache
def _common(trust_env: bool, *_places: str | None) -> ssl.SSLContext:
    return create_ssl_context(trust_env=trust_env)
