"""Arguments by which verbs find a running bridge.

Its address, the token, the certificate that it must show.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.options import load_config

if TYPE_CHECKING:
    from vil_bridge.cli.bridge_client import BridgeAddress

Where = Annotated[
    str,
    typer.Argument(
        metavar="[CONFIG|URL]",
        help="Configuration file of the bridge, or address of its status page.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with access tokens, mode 0600; none = the file that the configuration names.",
        show_default=False,
    ),
]


def reach(
    where: str,
    sets: list[str] | None = None,
    token_file: Path | None = None,
    *,
    role: str = "view",
    timeout_s: float = 10.0,
) -> BridgeAddress:
    """Return a client of the bridge that an argument means, a configuration file or an address.

    Args:
        where: the argument.
        sets: overrides of the file's keys.
        token_file: instead of the file's own.
        role: whose token is sent.
        timeout_s: for the next bytes of an answer.

    Raises:
        ConfigError: the configuration or the tokens cannot be read, or the file leaves the port
            open.
    """
    import re

    from vil_bridge.cli.bridge_client import BridgeAddress
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.runtime.access_tokens import Role, read_token
    from vil_bridge.runtime.network import http_url

    certificate = None
    if re.match(r"https?://", where):
        url = where
    elif re.fullmatch(r"[^/\s]+:\d+", where):
        url = f"http://{where}"
    else:
        http = load_config(Path(where), sets).http
        if http.port == 0:
            raise ConfigError(
                f"{where} leaves the choice of the port to the system: give the address "
                "that `run` printed"
            )
        url = http_url(http.bind, http.port, tls=http.tls_certificate is not None)
        certificate = http.tls_certificate
        token_file = token_file or http.token_file
    token = None if token_file is None else read_token(token_file, Role(role))
    return BridgeAddress(url, token, certificate, timeout_s)
