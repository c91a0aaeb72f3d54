"""``vil-bridge keys``."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["keys"]

keys = typer.Typer(
    no_args_is_help=True, help="Keys with which bridges, and the readers of their streams, know each other."
)


@keys.callback()
def _keys() -> None:
    """Keys with which bridges, and the readers of their streams, know each other."""


@keys.command()
def new(
    folder: Annotated[Path, typer.Argument(help="Folder for the two files; made when absent.")],
    name: Annotated[str, typer.Option(help="Name of the files; this machine's unless told.")] = "",
) -> None:
    """Make a key pair: NAME.key to give away, NAME.key_secret (mode 0600) to keep."""
    from vil_bridge.keys import new_keys

    public, secret = new_keys(folder, name or socket.gethostname().partition(".")[0])
    print(f"public key: {public} (copy it to the other bridges: into the folder `publish.zmq.allowed_keys` names,")
    print("            or as `server_key` of their remote sources; a reader's into `stream.allowed_keys`)")
    print(f"secret key: {secret} (stays here: `publish.zmq.secret_key`, `stream.secret_key`, or `secret_key` of a")
    print("            remote source; a reader's goes to the vehicle)")
