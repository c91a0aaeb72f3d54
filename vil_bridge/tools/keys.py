"""New CURVE key pairs and tokens, by which bridges and people are identified."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import zmq

from vil_bridge.core.access_tokens import new_token
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.secret_file import write_private

__all__ = ["new_keys", "new_tokens"]

_PUBLIC_TEXT = """\
# Public key of a bridge (ZeroMQ CURVE). Give it to the bridges that it shall talk to.
metadata
curve
    public-key = "{public}"
"""
_PAIR_TEXT = """\
# SECRET key of a bridge (ZeroMQ CURVE). It stays on this machine, readable by its owner only.
metadata
curve
    public-key = "{public}"
    secret-key = "{secret}"
"""
_TOKENS_TEXT: Final = """\
# SECRET tokens of a bridge's HTTP server (`http.token_file`), for `Authorization: Bearer TOKEN`.
# Remove the line of a role that is not given out. After a change, restart the bridge.
control = {control}
view = {view}
metrics = {metrics}
"""


def new_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a new CURVE pair as ``NAME.key`` and ``NAME.key_secret`` (mode 0600); no file is ever overwritten.

    Raises:
        ConfigError: a file is there already, or cannot be written.
    """
    public, secret = (key.decode() for key in zmq.curve_keypair())
    paths = folder / f"{name}.key", folder / f"{name}.key_secret"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in paths:
            if path.exists():
                raise ConfigError(f"{path} is there already; a key is not overwritten, choose another name")
        write_private(paths[1], _PAIR_TEXT.format(public=public, secret=secret))
        write_private(paths[0], _PUBLIC_TEXT.format(public=public), 0o644)
    except OSError as exc:
        raise ConfigError(f"{exc.filename}: cannot be written: {exc.strerror}") from None
    return paths


def new_tokens(path: Path) -> None:
    """Write a file with a fresh token for each role (mode 0600); no file is ever overwritten.

    Raises:
        ConfigError: a file is there already, or cannot be written.
    """
    try:
        write_private(path, _TOKENS_TEXT.format(control=new_token(), view=new_token(), metrics=new_token()))
    except FileExistsError:
        raise ConfigError(f"{path} is there already; tokens are not overwritten, choose another name") from None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be written: {exc.strerror}") from None
