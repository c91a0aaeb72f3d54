"""Access rules, TLS and login link of the HTTP server, from the configuration."""

from __future__ import annotations

import ssl
import sys

from vil_bridge.config.http import HttpConfig
from vil_bridge.runtime.access_tokens import Role, read_tokens
from vil_bridge.web.auth.access import Access, login_path
from vil_bridge.web.tls import tls_context


def make_access(http: HttpConfig) -> Access:
    """Make the access rules of the HTTP server.

    Raises:
        ConfigError: the token file cannot be read, or others may read it.
    """
    tokens = None if http.token_file is None else read_tokens(http.token_file)
    return Access(tokens, frozenset((*http.hosts, http.bind.lower())), http.is_open)


def show_login_link(access: Access, url: str) -> None:
    """Write a link for one browser to the terminal, where there is one: a log is not private."""
    if access.tokens is not None and sys.stdout.isatty():
        sys.stdout.write(
            f"log in, once and within ten minutes: {url}{login_path(access, Role.CONTROL)}\n"
        )
        sys.stdout.flush()


def make_tls(http: HttpConfig) -> ssl.SSLContext | None:
    """Make the TLS context for https; None when the configuration names no certificate.

    Raises:
        ConfigError: certificate or key cannot be used.
    """
    if http.tls_certificate is None or http.tls_key is None:
        return None
    return tls_context(http.tls_certificate, http.tls_key)
