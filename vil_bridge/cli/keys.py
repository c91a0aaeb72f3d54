"""``vil-bridge keys``."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.cli.connect import TokenFile, Where, reach
from vil_bridge.cli.options import Sets

_TIMEOUT_S = 5.0

keys = typer.Typer(no_args_is_help=True, help="Create keys, tokens and certificates.")


@keys.callback()
def _keys() -> None:
    """Create keys, tokens and certificates."""


@keys.command()
def new(
    folder: Annotated[Path, typer.Argument(help="Folder for the two files; created if absent.")],
    name: Annotated[str, typer.Option(help="Name of the files; empty = this machine's name.")] = "",
) -> None:
    """Create a key pair: NAME.key to give away, NAME.key_secret (mode 0600) to store."""
    from vil_bridge.setup.keys import new_keys

    public, secret = new_keys(folder, name or socket.gethostname().partition(".")[0])
    print(
        f"public key: {public}. Copy it into the folder {folder} of every other bridge: "
        "one folder for all keys,"
    )
    print(
        "            named by `federation.zmq.allowed_keys`, and by `server_key` as the "
        "file of the other bridge."
    )
    print("            A reader's goes into the folder `stream.allowed_keys`.")
    print(
        f"secret key: {secret}. It stays here: `secret_key` of `federation.zmq`, of the "
        "federation source, of `stream`."
    )
    print("            A reader's goes to the vehicle.")


@keys.command()
def token(
    file: Annotated[Path, typer.Argument(help="The file to write, mode 0600.")] = Path(
        "vil-bridge.tokens"
    ),
) -> None:
    """Create tokens for the status page, REST and metrics.

    One each for control, view and metrics.
    """
    from vil_bridge.setup.keys import new_tokens

    new_tokens(file)
    print(
        f"{file}: tokens for control, view and metrics; name it as `http.token_file` and "
        "restart the bridge."
    )
    print(
        "Programs send `Authorization: Bearer TOKEN`; `vil-bridge keys link CONFIG` lets "
        "a browser in."
    )


@keys.command()
def link(
    where: Where = "http://127.0.0.1:8080",
    control: Annotated[
        bool, typer.Option("--control", help="Let its user change things, not only look.")
    ] = False,
    sets: Sets = None,
    token_file: TokenFile = None,
) -> None:
    """Print a link that lets one browser into a running bridge, once, within ten minutes."""
    from vil_bridge.web.client.connection import path_of
    from vil_bridge.web.schemas.login import LinkOut

    bridge = reach(where, sets, token_file, role="control", timeout_s=_TIMEOUT_S)
    with bridge.explained():
        body = {"role": "control" if control else "view"}
        print(f"{bridge.url}{bridge.put(LinkOut, path_of('login-links'), body, 'POST').path}")


@keys.command()
def tls(
    folder: Annotated[Path, typer.Argument(help="Folder for the three files; created if absent.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Further name or address of this machine; may be repeated.", show_default=False
        ),
    ] = None,
) -> None:
    """Create a certificate for https, and the authority for browsers and headsets to trust."""
    from vil_bridge.setup.keys import new_certificate, own_hosts

    hosts = list(dict.fromkeys([*(host or ()), *own_hosts()]))
    certificate, key, authority = new_certificate(folder, hosts)
    print(f"certificate: {certificate} (`http.tls_certificate`), for {', '.join(hosts)}")
    print(f"private key: {key} (`http.tls_key`; stays here)")
    print(f"authority:   {authority} (to be trusted by browsers and headsets; its own key is gone)")
