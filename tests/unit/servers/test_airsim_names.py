"""Names that the server answers: AirSim's client has no other, and the guide lists them all."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import vil_bridge.servers.airsim as package
from tests.support.common import ROOT
from vil_bridge.servers.airsim.unserved import ACCEPTED, MISSING

GUIDE = ROOT / "docs" / "guides" / "airsim.md"
CLIENT = ROOT / ".venv" / "airsim-client" / "lib"


def served() -> set[str]:
    """Names of all methods that do something."""
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        content = importlib.import_module(f"{package.__name__}.{module.name}")
        for _, cls in inspect.getmembers(content, inspect.isclass):
            found |= {f.rpc_name for _, f in inspect.getmembers(cls, inspect.isfunction) if hasattr(f, "rpc_name")}
    return found


def listed(row: str) -> set[str]:
    found = re.search(rf"^\| {row} \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    assert found is not None
    return set(re.findall(r"`(\w+)`", found[1]))


def test_no_name_is_in_two_places() -> None:
    assert not served() & ACCEPTED.keys() and not served() & MISSING.keys() and not ACCEPTED.keys() & MISSING.keys()


def test_the_guide_lists_every_name() -> None:
    assert listed("as AirSim's") == served()
    assert listed("accepted, without an effect") == set(ACCEPTED)
    assert listed("an error that says why") == set(MISSING)


def test_every_call_of_the_client_is_answered() -> None:
    files = list(CLIENT.glob("*/site-packages/airsim/client.py"))
    if not files:
        pytest.skip("AirSim's client is missing: sh scripts/airsim_client.sh")
    called = set(re.findall(r"call(?:_async)?\(['\"](\w+)['\"]", files[0].read_text()))
    assert len(called) > 100 and called <= served() | ACCEPTED.keys() | MISSING.keys()
