"""New CURVE key pairs, tokens and certificates, by which bridges and people are identified."""

from __future__ import annotations

import ipaddress
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import zmq

from vil_bridge.core.errors import ConfigError
from vil_bridge.runtime.access_tokens import new_token
from vil_bridge.runtime.network import http_url
from vil_bridge.runtime.secret_file import write_private

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
    """Write a new CURVE pair as ``NAME.key`` and ``NAME.key_secret`` (mode 0600).

    No file is ever overwritten.

    Raises:
        ConfigError: a file is there already, or cannot be written.
    """
    public, secret = (key.decode() for key in zmq.curve_keypair())
    paths = folder / f"{name}.key", folder / f"{name}.key_secret"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in paths:
            if path.exists():
                raise ConfigError(
                    f"{path} is there already; a key is not overwritten, choose another name"
                )
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
        write_private(
            path, _TOKENS_TEXT.format(control=new_token(), view=new_token(), metrics=new_token())
        )
    except FileExistsError:
        raise ConfigError(
            f"{path} is there already; tokens are not overwritten, choose another name"
        ) from None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be written: {exc.strerror}") from None


_DAYS: Final = "825"
"""The longest that all browsers accept."""
_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_PATIENCE_S: Final = 30.0
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_SERVER: Final = """\
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {names}
"""


def new_certificate(folder: Path, hosts: Sequence[str]) -> tuple[Path, Path, Path]:
    """Write ``server.pem`` (certificate and authority), ``server.key`` (mode 0600) and ``ca.pem``,
    to be trusted.

    Args:
        folder: made when absent; no file of it is ever overwritten.
        hosts: names and addresses of the server, at least one.

    Raises:
        ConfigError: a host is none, a file is there already or cannot be written, or openssl is
            missing or failed.
    """
    names = ", ".join(_alternative(host) for host in hosts)
    paths = folder / "server.pem", folder / "server.key", folder / "ca.pem"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in paths:
            if path.exists():
                raise ConfigError(
                    f"{path} is there already; a certificate is not overwritten, choose "
                    "another folder"
                )
        with tempfile.TemporaryDirectory() as scratch:
            chain, key, authority = _signed(Path(scratch), hosts[0], names)
        write_private(paths[1], key)
        write_private(paths[0], chain, 0o644)
        write_private(paths[2], authority, 0o644)
    except OSError as exc:
        raise ConfigError(f"{exc.filename or folder}: cannot be written: {exc.strerror}") from None
    return paths


def own_hosts() -> list[str]:
    """Return this machine's names and addresses, that of the default route first where there is
    one.
    """
    host = urlsplit(http_url("0.0.0.0", 0)).hostname or ""  # noqa: S104 - nothing is bound
    return list(dict.fromkeys([host, socket.gethostname(), "localhost", "127.0.0.1", "::1"]))


def _alternative(host: str) -> str:
    """Return a host as openssl's list of alternative names has it."""
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        pass
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ConfigError(f"{host!r} is neither a name nor an address of a computer")
    return f"DNS:{host}"


def _signed(scratch: Path, host: str, names: str) -> tuple[str, str, str]:
    """Return the chain, key and authority as PEM; all else is lost with the folder."""
    (scratch / "server.ext").write_text(_SERVER.format(names=names))
    authority = (
        "-x509",
        "-days",
        _DAYS,
        "-subj",
        f"/CN=VIL Bridge on {host[:40]}",
        "-config",
        "/dev/null",
    )
    purpose = (
        "-addext",
        "basicConstraints=critical,CA:TRUE,pathlen:0",
        "-addext",
        "keyUsage=critical,keyCertSign",
    )
    _openssl(scratch, "req", *_NEW_KEY, *authority, *purpose, "-keyout", "ca.key", "-out", "ca.pem")
    asked = (
        "-subj",
        f"/CN={host[:60]}",
        "-config",
        "/dev/null",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    )
    _openssl(scratch, "req", "-new", *_NEW_KEY, *asked)
    by = (
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        _DAYS,
        "-extfile",
        "server.ext",
    )
    _openssl(scratch, "x509", "-req", "-in", "server.csr", *by, "-out", "server.pem")
    server, key, ca = (
        (scratch / name).read_text() for name in ("server.pem", "server.key", "ca.pem")
    )
    return server + ca, key, ca


def _openssl(scratch: Path, *arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise ConfigError(
            "the program openssl is missing (Debian: apt-get install openssl); or bring "
            "your own files"
        )
    done = subprocess.run(  # noqa: S603 - hosts were checked above, and no shell reads them
        [program, *arguments],
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise ConfigError(f"openssl {arguments[0]} failed: {done.stderr.strip()[-400:]}")
