"""Keys: made once, kept to their owner, never in a text."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq.auth
from typer.testing import CliRunner

from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_bridge.protocols.zmq.curve import read_public_key, read_public_keys, read_secret_key
from vil_bridge.setup.keys import new_keys


def test_a_pair_is_made_kept_private_and_read_by_zmqs_own_reader(tmp_path: Path) -> None:
    public, secret = new_keys(tmp_path / "keys", "hall")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    pair = read_secret_key(secret)
    assert zmq.auth.load_certificate(secret) == (pair.public, pair.secret)
    assert read_public_key(public) == pair.public
    assert read_public_keys(tmp_path / "keys") == {pair.public: "hall"}
    assert pair.secret.decode() not in repr(pair)
    assert pair.secret.decode() not in public.read_text()


def test_a_key_has_one_name(tmp_path: Path) -> None:
    public, _ = new_keys(tmp_path, "hall")
    (tmp_path / "annex.key").write_bytes(public.read_bytes())
    with pytest.raises(
        ConfigError, match=r"hall\.key: holds the same key as annex\.key\. Remove one"
    ):
        read_public_keys(tmp_path)


def test_the_verb_shows_no_key_and_overwrites_none(tmp_path: Path) -> None:
    words = ["keys", "new", str(tmp_path), "--name", "hall"]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    pair = read_secret_key(tmp_path / "hall.key_secret")
    for key in (pair.public, pair.secret):
        assert key.decode() not in made.output
    again = CliRunner().invoke(app, words)
    assert isinstance(again.exception, ConfigError)
    assert read_secret_key(tmp_path / "hall.key_secret") == pair


def test_files_that_are_no_keys_are_refused_with_a_cure(tmp_path: Path) -> None:
    public, secret = new_keys(tmp_path, "hall")
    secret.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret_key(secret)
    with pytest.raises(ConfigError, match="holds no secret key"):
        read_secret_key(public)
    with pytest.raises(ConfigError, match="No such file"):
        read_public_key(tmp_path / "absent.key")
    (tmp_path / "empty.key").write_text("")
    with pytest.raises(ConfigError, match=r"empty\.key: holds no public key"):
        read_public_keys(tmp_path)
    (tmp_path / "none").mkdir()

    with pytest.raises(
        ConfigError,
        match=r"holds no public key. Copy there .* of each reader or bridge that may connect",
    ):
        read_public_keys(tmp_path / "none")
    with pytest.raises(
        ConfigError,
        match=r"absent: cannot be read: No such file .*\. Copy there .*`vil-bridge keys new "
        r".*absent --name",
    ):
        read_public_keys(tmp_path / "absent")
