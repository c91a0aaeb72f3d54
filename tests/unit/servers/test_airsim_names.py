"""Names that the server answers: AirSim's client has no other, and the guide lists them all."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import vil_simulation.airsim as package
from tests.support.airsim_calls import calls
from tests.support.airsim_server import CLIENT
from tests.support.common import ROOT
from vil_simulation.airsim.unserved import MISSING

GUIDE = ROOT / "docs" / "guides" / "airsim.md"


def served(*, effect: bool = True) -> set[str]:
    """Names of all methods, with an effect or without."""
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        content = importlib.import_module(f"{package.__name__}.{module.name}")
        for _, cls in inspect.getmembers(content, inspect.isclass):
            marked = [
                vars(f)
                for _, f in inspect.getmembers(cls, inspect.isfunction)
                if hasattr(f, "rpc_name")
            ]
            found |= {f["rpc_name"] for f in marked if f["rpc_effect"] is effect}
    return found


def listed(row: str) -> set[str]:
    found = re.search(rf"^\| {row} \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    assert found is not None
    return set(re.findall(r"`(\w+)`", found[1]))


def test_no_name_is_in_two_places() -> None:
    accepted = served(effect=False)
    assert (
        not served() & accepted and not served() & MISSING.keys() and not accepted & MISSING.keys()
    )


def test_the_guide_lists_every_name() -> None:
    assert listed("as AirSim's") == served()
    assert listed("accepted, without an effect") == served(effect=False)
    assert listed("an error that says why") == set(MISSING)


def test_the_calls_of_the_tests_are_all_of_them() -> None:
    named = [one.name for one in calls()]
    assert sorted(named) == sorted(served() | served(effect=False) | MISSING.keys())


def test_every_call_of_the_client_is_answered() -> None:
    files = list(CLIENT.glob("lib/*/site-packages/airsim/client.py"))
    if not files:
        pytest.skip("AirSim's client is missing: sh scripts/airsim_client.sh")
    called = set(re.findall(r"call(?:_async)?\(['\"](\w+)['\"]", files[0].read_text()))
    assert len(called) > 100 and called <= served() | served(effect=False) | MISSING.keys()
