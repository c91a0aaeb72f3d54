"""REST client of the verbs, which explains on the terminal why a bridge gives no answer."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from vil_bridge.core.errors import ConfigError
from vil_bridge.runtime.exit_codes import Exit
from vil_bridge.web.client.connection import HttpConnection
from vil_bridge.web.client.errors import BridgeUnreachable, RestError


class BridgeAddress(HttpConnection):
    """Running bridge, as a verb asks it.

    Args:
        url: of its status page.
        token: None = send none.
        certificate: the one that it must show; None = any that this machine trusts.
        timeout_s: for the next bytes of an answer.

    Raises:
        OSError: the certificate cannot be read.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        certificate: Path | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        tls: ssl.SSLContext | None = None
        if url.startswith("https:"):
            tls = _tls(certificate)
        super().__init__(url, token, tls, timeout_s)
        self._certificate = certificate

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Print why the bridge gives no answer, and end the verb.

        Raises:
            ConfigError: the bridge shows a certificate that is not trusted here.
            typer.Exit: for every other reason.
        """
        try:
            yield
        except RestError as exc:
            typer.echo(self.problem(exc), err=True)
            raise typer.Exit(Exit.CHECK_FAILED) from None

    def problem(self, exc: RestError) -> str:
        """Return the text of an error.

        Raises:
            ConfigError: the bridge shows a certificate that is not trusted here.
        """
        reason = getattr(exc.__cause__, "reason", None)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise ConfigError(
                f"{self.site}: CERTIFICATE_VERIFY_FAILED ({reason.verify_message}): {self._cure()}"
            )
        if isinstance(exc, BridgeUnreachable):
            return (
                f"no bridge answers at {self.site} ({exc.__cause__ or exc}): is `vil-bridge "
                "run` up?"
            )
        if exc.status < 400:
            return f"what answers at {self.site} is not a bridge, or broke off ({exc})"
        return f"the bridge at {self.site} refuses: {exc.status}: {exc}"

    def _cure(self) -> str:
        if self._certificate is not None:
            return f"what answers there does not show {self._certificate}"
        cure = "give the bridge's configuration file in place of its address, or trust its ca.pem"
        return f"it is not trusted on this computer; {cure} (docs/guides/security.md)"


def _tls(certificate: Path | None) -> ssl.SSLContext:
    """Return a context that accepts exactly one certificate, whatever names it has.

    None = those of the system.
    """
    if certificate is None:
        return ssl.create_default_context()
    end = "-----END CERTIFICATE-----"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(
        cadata=certificate.read_text(encoding="ascii").partition(end)[0] + end
    )
    return context
