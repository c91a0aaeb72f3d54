"""Makes CURVE key pairs, in the files that :mod:`vil_bridge.core.wire.curve` reads."""

from __future__ import annotations

import os
from pathlib import Path

import zmq

from vil_bridge.core.errors import ConfigError

__all__ = ["new_keys"]

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


def new_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a new pair as ``NAME.key`` and ``NAME.key_secret`` (mode 0600); no file is ever overwritten.

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
        _write(paths[1], _PAIR_TEXT.format(public=public, secret=secret), 0o600)
        _write(paths[0], _PUBLIC_TEXT.format(public=public), 0o644)
    except OSError as exc:
        raise ConfigError(f"{exc.filename}: cannot be written: {exc.strerror}") from None
    return paths


def _write(path: Path, text: str, mode: int) -> None:
    """Create a file that is never readable by more than ``mode`` says."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
