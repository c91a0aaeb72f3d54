"""What ``vil-bridge renderer`` refuses before it draws."""

from __future__ import annotations

import logging

import pytest

from vil_renderer.embedded.servers.main import run


@pytest.mark.parametrize("address", ["localhost", "::1", "1.2.3", ""])
def test_an_address_that_is_none_is_named(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert run(address) == 3
    assert repr(address) in caplog.text and "127.0.0.1" in caplog.text
