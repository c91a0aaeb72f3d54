"""Roles of AirSim's programs.

With ``view`` they read, and every method that changes anything is refused in words.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.servers.test_airsim_names import served
from vil_bridge.config.root import BridgeConfig
from vil_bridge.runtime.access_tokens import Role
from vil_simulation.airsim.methods import MethodTable, method
from vil_simulation.airsim.msgpack_rpc import RpcError
from vil_simulation.airsim.needed_roles import READINGS, needed_role

CHANGES = (
    "armDisarm",
    "simSetVehiclePose",
    "simPause",
    "simEnableWeather",
    "startRecording",
    "simCreateVoxelGrid",
)


class Methods:
    @method("armDisarm")
    def arm(self) -> str:
        return "armed"

    @method("simGetVehiclePose")
    def pose(self) -> str:
        return "seen"


class Caller:
    host = "127.0.0.1"


def methods(role: Role) -> MethodTable:
    return MethodTable([Methods()], {}, role)


def test_a_reader_reads_and_changes_nothing() -> None:
    table = methods(Role.VIEW)
    assert table.call(Caller(), "simGetVehiclePose", ()) == "seen"
    with pytest.raises(
        RpcError,
        match=r"'armDisarm' .* programs may only read here. Set `airsim: \{role: control\}`",
    ):
        table.call(Caller(), "armDisarm", ())
    assert methods(Role.CONTROL).call(Caller(), "armDisarm", ()) == "armed"


def test_the_table_names_served_methods_and_what_is_not_listed_needs_control() -> None:
    assert served() >= READINGS
    for name in (*CHANGES, "a method of tomorrow"):
        assert needed_role(name) is Role.CONTROL
    assert not {
        name
        for name in READINGS
        if name.startswith(("simSet", "set", "move", "simPlot", "start", "stop"))
    }


def bridge(**sections: Any) -> BridgeConfig:
    return BridgeConfig.model_validate({"version": 1, "require_cameras": False, **sections})


@pytest.mark.parametrize("role", ["view", "control"])
def test_a_bridge_with_tokens_serves_where_it_says_who_may(role: str) -> None:
    config = bridge(http={"token_file": "t"}, airsim={"role": role})
    assert config.section("airsim").role == role


def test_a_bridge_with_tokens_and_no_role_does_not_start() -> None:
    with pytest.raises(
        ValidationError, match=r"airsim.role[\s\S]*AirSim's protocol knows none.*`role: view`"
    ):
        bridge(http={"token_file": "t"}, airsim={})
    assert (
        bridge(airsim={}).section("airsim") is not None
        and bridge(http={"token_file": "t"}).section("airsim") is None
    )


def test_an_address_of_the_network_needs_insecure_whatever_the_tokens_are() -> None:
    for sections in ({}, {"http": {"token_file": "t"}}):
        with pytest.raises(
            ValidationError, match="can be reached from the network and nothing guards it yet"
        ):
            bridge(**sections, airsim={"bind": "0.0.0.0", "role": "view"})
    assert bridge(airsim={"bind": "0.0.0.0", "insecure": True}).section("airsim") is not None
