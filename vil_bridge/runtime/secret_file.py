"""Files with secrets: read only while their owner alone may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from vil_bridge.core.errors import ConfigError

_MAX_BYTES: Final = 65536
_CREDENTIALS: Final = Path("/run/credentials")
"""Of systemd's services, for root and the service only."""


def read_private(path: Path, what: str) -> str:
    """Read the text of a file with a secret.

    Args:
        path: the file, at most 64 KiB.
        what: is in it, for people: "these passwords".

    Raises:
        ConfigError: it cannot be read, is too large, or others may read it.
    """
    try:
        with path.open("rb") as file:
            refuse_shared(path, what, file.fileno())
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ConfigError(
                f"{path}: larger than {_MAX_BYTES} bytes, which is too large for {what}"
            )
        return raw.decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}"
        ) from None


def refuse_shared(path: Path, what: str, descriptor: int | None = None) -> None:
    """Check that only its owner may read a file, opened or by its path.

    Raises:
        ConfigError: others may. OSError: it is not there.
    """
    # An open file has no path.
    mode = os.stat(path if descriptor is None else descriptor).st_mode  # noqa: PTH116
    allowed = stat.S_IRWXU
    if (
        str(path.parent) == os.environ.get("CREDENTIALS_DIRECTORY")
        or path.parent.parent == _CREDENTIALS
    ):
        # Systemd hands credentials over by an ACL, which shows in the group's bits.
        allowed |= stat.S_IRGRP
    if stat.S_IMODE(mode) & 0o777 & ~allowed:
        raise ConfigError(f"{path}: others may read {what}; chmod 600 {path}")


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Create a file that is never readable by more than ``mode`` says, whole or not at all.

    Raises:
        FileExistsError: it is there already. OSError: it cannot be written; names it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(text)
    except OSError as exc:
        path.unlink(missing_ok=True)
        raise OSError(exc.errno, exc.strerror, str(path)) from exc
