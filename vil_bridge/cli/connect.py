"""How verbs reach a running bridge: its address, the token they show it, the certificate they expect."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vil_bridge.cli.options import load_config

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPResponse

__all__ = ["BridgeAddress", "ConnectionRejected", "TokenFile", "Where", "reach"]

Where = Annotated[
    str, typer.Argument(metavar="[CONFIG|URL]", help="The bridge's file, or the address of its status page.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help="Tokens to show it, mode 0600; none = those that its file names.", show_default=False
    ),
]


_LONGEST_REFUSAL: Final = 1 << 16


class ConnectionRejected(OSError):  # noqa: N818 - the bridge's own decision rather than a fault
    """What answers does not do it.

    Attributes:
        status: of HTTP.
        reason: in the bridge's words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class BridgeAddress:
    """A running bridge, seen from a verb.

    Attributes:
        url: of its status page, without a slash at the end.
        headers: with the token, where there is one.
        certificate: the one that it must show; None = any that this machine trusts.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    certificate: Path | None = None

    def tls(self) -> ssl.SSLContext:
        """What checks its certificate.

        Raises:
            OSError: the certificate cannot be read.
        """
        import ssl

        if self.certificate is None:
            return ssl.create_default_context()
        # Exactly this certificate will do, whatever names it has: its file lies on this machine.
        end = "-----END CERTIFICATE-----"
        own = self.certificate.read_text(encoding="ascii").partition(end)[0] + end
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=own)
        return context

    def open(self, path: str, timeout_s: float, body: bytes | None = None, method: str | None = None) -> HTTPResponse:
        """Ask, by POST where there is a body and no other method, and without any proxy.

        Raises:
            Refused: it answers by a failure.
            OSError: nobody answers, or not well. ValueError: the address is none.
            ConfigError: it shows a certificate that is not trusted here.
        """
        import ssl
        import urllib.request
        from urllib.error import HTTPError, URLError

        from vil_bridge.core.errors import ConfigError

        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=self.tls()))
        address = f"{self.url}/{path}"
        request = urllib.request.Request(address, body, self.headers, method=method)  # noqa: S310 - http(s), as given
        try:
            answer: Any = urllib.request.build_opener(*handlers).open(request, timeout=timeout_s)
        except HTTPError as exc:
            from vil_bridge.web.client.connection import reason_of

            with exc:
                raise ConnectionRejected(exc.code, reason_of(exc.read(_LONGEST_REFUSAL), exc.reason)) from None
        except URLError as exc:
            if isinstance(exc.reason, ssl.SSLCertVerificationError):
                raise ConfigError(f"{self.url}: {self._untrusted(exc.reason.verify_message)}") from None
            raise
        return answer  # type: ignore[no-any-return]  # of HTTP, since the address is

    def _untrusted(self, reason: str) -> str:
        if self.certificate is not None:
            return f"CERTIFICATE_VERIFY_FAILED ({reason}): what answers there does not show {self.certificate}"
        cure = (
            "give the bridge's configuration file in place of its address, "
            "or trust its ca.pem (docs/guides/security.md)"
        )
        return f"CERTIFICATE_VERIFY_FAILED ({reason}): it is not trusted on this computer; {cure}"


def reach(
    where: str, sets: list[str] | None = None, token_file: Path | None = None, *, role: str = "view"
) -> BridgeAddress:
    """The bridge that an argument means, a configuration file or an address.

    Args:
        where: the argument.
        sets: overrides of the file's keys.
        token_file: instead of the file's own.
        role: as which to come in.

    Raises:
        ConfigError: the configuration or the tokens cannot be read, or the file leaves the port open.
    """
    import re

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.core.network import http_url

    certificate = None
    if re.match(r"https?://", where):
        url = where
    elif re.fullmatch(r"[^/\s]+:\d+", where):
        url = f"http://{where}"
    else:
        http = load_config(Path(where), sets).http
        if http.port == 0:
            raise ConfigError(
                f"{where} leaves the choice of the port to the system: give the address that `run` printed"
            )
        url = http_url(http.bind, http.port, tls=http.tls_certificate is not None)
        certificate, token_file = http.tls_certificate, token_file or http.token_file
    return BridgeAddress(url.rstrip("/"), _headers(token_file, role), certificate)


def _headers(token_file: Path | None, role: str) -> dict[str, str]:
    if token_file is None:
        return {}
    from vil_bridge.core.access_tokens import Role, read_token

    return {"Authorization": f"Bearer {read_token(token_file, Role(role))}"}
