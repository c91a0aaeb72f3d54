"""The configuration loader: every problem at once, with its place and a cure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.common import ROOT
from vil_bridge.config.load import load
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.registry import resolve

GOLDEN = ROOT / "tests" / "golden" / "config"

GOOD = """\
version: 1
rooms: {lab: {}}
sources:
  motive-1: {type: optitrack, room: lab, server: 10.0.0.5}
  imu: {type: mavlink-imu, device: /dev/ttyACM0}
actors:
  drone: {kind: vehicle, source: motive-1, subject: Drone, imu: imu}
renderers:
  unity: {type: flightgoggles}
cameras:
  front: {actor: drone, renderer: unity, modalities: [rgb, depth]}
"""


def read(
    folder: Path,
    text: str | bytes,
    *,
    sets: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> BridgeConfig:
    path = folder / "test.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path, sets=sets, env=env or {}, resolve=resolve)


def problems(
    folder: Path,
    text: str | bytes,
    *,
    sets: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, sets=sets, env=env)
    return "\n".join(caught.value.problems).replace(f"{folder}/", "")


@pytest.mark.parametrize("name", ["many", "references", "syntax", "values"])
def test_all_problems_of_a_broken_file_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(ConfigError) as caught:
        load(Path(f"{name}.yaml"), env={}, resolve=resolve)
    assert caught.value.problems == (GOLDEN / f"{name}.txt").read_text().splitlines()


def test_a_good_file_is_read_with_the_plugins_own_models(tmp_path: Path) -> None:
    from vil_adapters.optitrack.config import OptitrackConfig

    config = read(tmp_path, GOOD)
    source = config.sources["motive-1"]
    assert isinstance(source, OptitrackConfig)
    assert (source.server, source.room) == ("10.0.0.5", "lab")
    assert config.actors["drone"].tracking.lost_after_ms == 1000.0
    assert config.cameras["front"].plane_depth_m == "auto"
    assert config.http.port == 8080


def test_what_is_written_out_reads_back_as_the_same(tmp_path: Path) -> None:
    import yaml

    config = read(tmp_path, GOOD + "record: {folder: flights}\n")
    assert read(tmp_path, yaml.safe_dump(config.model_dump(mode="json"))) == config


def test_options_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    env = {
        "VIL_HTTP__PORT": "9001",
        "VIL_SOURCES__MOTIVE_1__SERVER": "10.0.0.7",
        "VIL_CAMERAS__FRONT__T_BODY_CAMERA__P_M": "[1, 2, 3]",
        "VIL_TEST_DATA": "/somewhere",
        "PATH": "/bin",
    }
    config = read(
        tmp_path,
        GOOD + "http: {port: 9000}\n",
        env=env,
        sets=["http.port=9002", "actors.drone.imu=null"],
    )
    assert config.http.port == 9002
    assert config.sources["motive-1"].model_dump()["server"] == "10.0.0.7"
    assert config.cameras["front"].T_body_camera.p_m == (1.0, 2.0, 3.0)
    assert config.actors["drone"].imu is None


def test_problems_of_overrides_name_the_override(tmp_path: Path) -> None:
    text = problems(
        tmp_path,
        GOOD,
        env={"VIL_HTTP__PROT": "1"},
        sets=[
            "cameras.front.rate_hz=-1",
            "nonsense",
            "http.port=[1",
            "name.first=x",
            "http.host=\udcff",
        ],
    )
    assert text.splitlines() == [
        "--set cameras.front.rate_hz: cameras.front.rate_hz: should be greater than 0, got '-1'",
        "--set http.host: http.host: not readable as YAML: half of a character (character 0)",
        "--set http.port: http.port: not readable as YAML: while parsing a flow sequence "
        "begun at line 1:"
        " did not find expected ',' or ']'",
        "--set name.first: name: should be text: put quotes around it",
        "--set nonsense: must be written a.b=value",
        "VIL_HTTP__PROT: http.prot: unknown key (did you mean 'port'?)",
    ]


def test_an_override_of_a_wrong_value_mends_the_file(tmp_path: Path) -> None:
    broken = GOOD + "http: {port: none}\n"
    assert "test.yaml:12:8: http.port: should be a valid integer, got 'none'" in problems(
        tmp_path, broken
    )
    assert read(tmp_path, broken, sets=["http.port=0"]).http.port == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "test.yaml:1:1: the file is empty; `vil-bridge init` prints presets to start from"),
        ("just text", "test.yaml:1:1: the file must hold sections"),
        (b"version: 1\xff", "test.yaml:1:1: is not UTF-8 text (byte 10)"),
        ("#" * (1 << 20) + "\n", "test.yaml:1:1: larger than 1048576 bytes"),
        ("version: 1\n---\nversion: 1\n", "but found another document"),
        (
            "version: \x01",
            "test.yaml:1:1: not readable as YAML: control characters are not allowed (byte 9)",
        ),
        ("[" * 1200, "test.yaml:1:1: nested deeper than 32 levels"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper than 32 levels"),
        ("a: &a [*a]", "a.0: an alias of what it is in: nested deeper than 32 levels"),
        ("name: 2020-01-01", "YAML type timestamp is not used here"),
        ("<<: {version: 1}", "test.yaml:1:1: a key must be plain text"),
        ("name: *nobody", "found undefined alias 'nobody'"),
    ],
)
def test_what_is_no_configuration_is_refused_with_a_reason(
    tmp_path: Path, text: str | bytes, reason: str
) -> None:
    assert reason in problems(tmp_path, text)


def test_aliases_cannot_multiply_without_bound(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "the file expands to more than 20000 values" in problems(tmp_path, "\n".join(lines))


def test_a_short_file_cannot_make_a_long_list_of_problems(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "c: &c {ax: *c, y:: *c}\nm:").splitlines()) < 10
    listed = problems(tmp_path, "\n".join(f"key_{i:03d}: 0" for i in range(300))).splitlines()
    assert "key_000: unknown key" in listed[0] and listed[-1] == "and 101 problems more"
    assert len(listed) == 201


def test_an_absent_file_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load(tmp_path / "none.yaml", env={}, resolve=resolve)


@pytest.mark.parametrize(
    ("section", "good"),
    [
        ("http: {bind: 127.0.0.1}", True),
        ("http: {bind: localhost}", True),
        ("http: {bind: '::1'}", True),
        ("http: {bind: 0.0.0.0}", False),
        ("http: {bind: 192.168.1.4}", False),
        ("http: {bind: bridge.lan}", False),
        ("http: {bind: 0.0.0.0, insecure: true}", True),
        ("stream: {bind: 'tcp://127.0.0.9:0'}", True),
        ("stream: {bind: 'tcp://[::1]:5560'}", True),
        ("stream: {bind: 'tcp://*:5560'}", False),
        ("stream: {bind: 'tcp://10.0.0.5:5560'}", False),
        ("stream: {insecure: true, bind: 'tcp://10.0.0.5:5560'}", True),
        ("renderers: {unity: {type: flightgoggles, bind: 0.0.0.0}}", False),
        ("renderers: {unity: {type: flightmare, bind: 10.0.0.5}}", False),
        ("renderers: {unity: {type: flightgoggles, bind: 127.0.0.9}}", True),
        ("renderers: {unity: {type: flightgoggles, bind: 10.0.0.5, insecure: true}}", True),
    ],
)
def test_what_the_network_can_reach_must_be_asked_for(
    tmp_path: Path, section: str, good: bool
) -> None:
    text = f"version: 1\n{section}\n"
    if good:
        read(tmp_path, text)
    else:
        assert "can be reached from the network and nothing guards it yet" in problems(
            tmp_path, text
        )


def test_mistakes_beside_an_open_address_or_a_mistyped_type_are_told_as_well(
    tmp_path: Path,
) -> None:
    text = (
        "version: 1\nfederation:\n  zmq: {bind: 'tcp://0.0.0.0:1', secret_ky: x}\n"
        "  zenoh: {listen: 'tcp/0.0.0.0:1', usrs: x}\nsources:\n  lab: {tpye: optitrack}\n"
    )
    told = problems(tmp_path, text)
    assert "test.yaml:3:" in told and "test.yaml:4:" in told
    assert told.count("can be reached from the network and nothing guards it yet") == 2
    assert "'secret_key'?" in told and "'users'?" in told
    assert "sources.lab.type: required key is missing" in told
    assert "sources.lab.tpye: unknown key (did you mean 'type'?)" in told
    empty = problems(tmp_path, "version: 1\nsources: {lab: {type: }}\n")
    assert "sources.lab.type" in empty and "did you mean" not in empty


def test_depth_is_needed_to_reproject(tmp_path: Path) -> None:
    text = GOOD.replace("[rgb, depth]", "[rgb], latency_compensation: depth")
    assert (
        "test.yaml:11:3: cameras.front: latency_compensation: depth needs depth or "
        "depth32 among the modalities" in problems(tmp_path, text)
    )


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("http=", "http: should hold keys (`name: value`)"),
        ("http.hosts=bridge.lan", "http.hosts: should be a list: [a, b]"),
        ("http.bind=::", "http.bind: should be text: put quotes around it"),
        ("name=12", "name: should be text: put quotes around it"),
        ("name=", "name: should be text"),
        ("record.folder=", "record.folder: should be the path of a file"),
        ("rooms=[lab]", "rooms: should hold keys (`name: value`)"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_what_to_write(
    override: str, reason: str, tmp_path: Path
) -> None:
    assert (
        f"--set {override.partition('=')[0]}: {reason}"
        in problems(tmp_path, GOOD, sets=[override]).splitlines()
    )
