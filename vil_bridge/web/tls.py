"""TLS context of the HTTP server."""

from __future__ import annotations

import ssl
from pathlib import Path

from vil_bridge.core.errors import ConfigError
from vil_bridge.runtime.secret_file import refuse_shared


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of a server that shows a certificate.

    Args:
        certificate: PEM, the server's own first, then those that vouch for it.
        key: PEM, not encrypted.

    Raises:
        ConfigError: one cannot be read, others may read the key, or the two do not belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path in (certificate, key):
        try:
            path.open("rb").close()
        except OSError as exc:
            raise ConfigError(
                f"{path}: cannot be read: {exc.strerror}; `vil-bridge keys tls` creates both files"
            ) from None
    refuse_shared(key, "this private key")
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as exc:
        reason = getattr(exc, "reason", None) or exc
        raise ConfigError(
            f"{certificate}, {key}: not a certificate and its key in PEM without a "
            f"password: {reason}"
        ) from None
    return context


def _no_password() -> str:
    """Return an empty password: a daemon cannot ask for the one of an encrypted key."""
    return ""
