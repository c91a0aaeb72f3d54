"""What several adapters ask of the network, and what they say of missing subjects."""

from __future__ import annotations

import logging

import pytest

from vil_adapters.wanted import Wanted
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.network import host_and_port, local_address, resolve
from vil_bridge.registry import search_of, searchable_sources


def test_a_target_is_a_host_with_or_without_a_port() -> None:
    assert host_and_port("lab-pc", 801) == ("lab-pc", 801)
    assert host_and_port("192.168.1.10:65535", 801) == ("192.168.1.10", 65535)


@pytest.mark.parametrize(
    "target", ["", ":801", "lab-pc:", "lab-pc:0", "lab-pc:65536", "lab-pc:-1", "lab-pc:x", "a:1:2"]
)
async def test_what_is_no_target_is_refused_by_every_search(target: str) -> None:
    """A slip of the pen is told; it neither ends the program nor searches elsewhere."""
    asked = [search_of(name) for name in searchable_sources()]
    assert len(asked) >= 5
    for search in asked:
        with pytest.raises(ConfigError, match="HOST:PORT"):
            await search((target,), 0.2)


async def test_names_become_addresses_and_bad_ones_an_oserror() -> None:
    assert await resolve("127.0.0.1", 801) == "127.0.0.1"
    for name in ("no-such-computer.invalid", "a..b", "x" * 64 + ".lab"):
        with pytest.raises(OSError, match=r"name|Name|host|service"):
            await resolve(name, 801)
    assert local_address("127.0.0.1", 801) == "127.0.0.1"


def test_a_missing_subject_is_named_once_for_each_time_that_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    wanted = Wanted("lab", ("cf1", "wand"))
    with caplog.at_level(logging.WARNING):
        for seen in (("CF1", "wand"), ("CF1", "wand"), (), ("cf1", "wand"), ("wand",)):
            wanted.compare(seen)
    assert [record.getMessage() for record in caplog.records] == [
        "lab: config wants 'cf1'; stream has 'CF1', 'wand'",
        "lab: config wants 'cf1', 'wand'; stream has no subjects",
        "lab: config wants 'cf1'; stream has 'wand'",
    ]
