"""Presets, their copies in configs/, the schema, and the registry of plug-ins."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.common import ROOT
from tests.support.events import until
from tests.support.programs import output
from vil_adapters.lab.servers import ServerSpec
from vil_adapters.motions.drone import DroneMotion
from vil_bridge import registry
from vil_bridge.config.base import PluginConfig, StrictModel
from vil_bridge.config.load import load
from vil_bridge.config.presets import preset_names, preset_text
from vil_bridge.config.root import BridgeConfig
from vil_bridge.config.schema import json_schema
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import SourceEvent, SourceFrame
from vil_bridge.daemon.source_session import listening
from vil_bridge.daemon.subject_check import SubjectCheck

FILES = sorted((ROOT / "configs").glob("*.yaml"))


def models() -> dict[str, list[type[PluginConfig]]]:
    return {
        section: [registry.resolve(section)[name]() for name in registry.plugin_names(section)]
        for section in ("sources", "renderers", "outputs")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_in_configs_is_valid(path: Path) -> None:
    config = load(path, env={}, resolve=registry.resolve)
    assert config.version == 1
    assert written_and_read(config) == config


def written_and_read(config: BridgeConfig) -> BridgeConfig:
    """As `--effective` and recordings write it, and reloads and replays read it."""
    return BridgeConfig.model_validate(
        config.model_dump(mode="json"), context={"resolve": registry.resolve}
    )


def test_a_calibrated_lens_is_written_as_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "bridge.yaml"
    lens = "lens: {pinhole_px: [400, 410, 319.5, 239.5]}"
    path.write_text(
        f"version: 1\nrenderers: {{unity: {{type: flightgoggles}}}}\n"
        f"cameras: {{front: {{renderer: unity, {lens}, stereo_baseline_m: 0.1}}}}\n"
    )
    config = load(path, env={}, resolve=registry.resolve)
    assert written_and_read(config).every_camera() == config.every_camera()


def test_presets_and_files_of_the_same_name_are_identical() -> None:
    names = preset_names()
    assert {"two_rooms", "lab_optitrack"} <= set(names)
    for name in names:
        assert (ROOT / "configs" / f"{name}.yaml").read_text(encoding="utf-8") == preset_text(
            name
        ), name


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_a_camera_and_its_renderer_or_says_that_it_has_none(name: str) -> None:
    config = load(ROOT / "configs" / f"{name}.yaml", env={}, resolve=registry.resolve)
    assert (config.cameras and config.renderers) or not config.require_cameras


@pytest.mark.wire
@pytest.mark.parametrize(
    ("name", "kind", "source"),
    [
        ("lab_vicon", "tracker", "vicon"),
        ("lab_vrpn", "vrpn", "vrpn"),
        ("lab_qualisys", "qtm", "qtm"),
    ],
)
async def test_a_labs_preset_hears_the_emulated_server(name: str, kind: str, source: str) -> None:
    if name == "lab_qualisys":
        pytest.importorskip("qtm_rt", reason="the package is not installed (extra qualisys)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = load(
        ROOT / "configs" / f"{name}.yaml",
        sets=[f"sources.{source}.port={port}"],
        env={},
        resolve=registry.resolve,
    )
    server = ServerSpec.parse(kind, str(port)).open(DroneMotion(), 100.0, now_ns())
    watch = SubjectCheck(config.actors, {source: getattr(config.sources[source], "up_axis", "z")})
    heard: list[bool] = []

    def take(event: SourceEvent) -> None:
        watch.record(event)
        if isinstance(event, SourceFrame) and "drone" in event.subjects:
            heard.append(bool(event.tracked[event.subjects.index("drone")]))

    emulating = asyncio.create_task(server.run())
    try:
        async with listening(config, [source], take) as statuses:
            await until(lambda: sum(heard) > 20)
            watch.check(statuses)
    finally:
        emulating.cancel()
        await asyncio.gather(emulating, return_exceptions=True)
    assert watch.problems == {}


def test_two_rooms_shows_every_key() -> None:
    data = yaml.safe_load(preset_text("two_rooms"))
    flight, drone, front = (
        data["rooms"]["flight"],
        data["actors"]["drone"],
        data["cameras"]["front"],
    )
    written: dict[str, tuple[dict[str, object], type[StrictModel]]] = {
        "root": (data, BridgeConfig),
        **{
            name: (data[name], type(getattr(BridgeConfig(version=1), name)))
            for name in ("stream", "http", "realtime")
        },
    }
    root = load(ROOT / "configs" / "two_rooms.yaml", env={}, resolve=registry.resolve)
    written |= {
        "room": (flight, type(root.rooms["flight"])),
        "source": (data["sources"]["motive-flight"], type(root.sources["motive-flight"])),
        "imu": (data["sources"]["imu"], type(root.sources["imu"])),
        "actor": (drone, type(root.actors["drone"])),
        "tracking": (drone["tracking"], type(root.actors["drone"].tracking)),
        "renderer": (data["renderers"]["unity"], type(root.renderers["unity"])),
        "camera": (front, type(root.cameras["front"])),
    }
    for name, (section, model) in written.items():
        missing = set(model.model_fields) - set(section)
        of_poses = {"room", "marker_template"} if name == "imu" else set()
        assert missing <= of_poses, f"{name}: {sorted(missing)}"


def test_two_rooms_explains_every_key_where_it_first_stands() -> None:
    explained: set[str] = set()
    for line in preset_text("two_rooms").splitlines():
        code, comment, _ = line.partition("#")
        key = code.strip().partition(":")[0]
        if comment:
            explained.add(key)
        elif code.strip() and not code.rstrip().endswith(":"):
            assert key in explained, line


def test_the_schema_knows_every_section_and_plugin() -> None:
    schema = json_schema(models())
    definitions = schema["$defs"]
    assert set(schema["properties"]) == set(BridgeConfig.model_fields)
    assert schema["additionalProperties"] is False
    (sources,) = schema["properties"]["sources"]["patternProperties"].values()
    types = {
        definitions[ref["$ref"].rpartition("/")[2]]["properties"]["type"]["const"]
        for ref in sources["oneOf"]
    }
    assert types == set(registry.plugin_names("sources"))
    for definition in definitions.values():
        for key, value in definition.get("properties", {}).items():
            assert key == "type" or value.get("description"), key


@pytest.mark.process
def test_listing_plugins_imports_none_of_them() -> None:
    code = (
        "import sys; from vil_bridge.registry import plugin_names, resolve;"
        "print(sorted(resolve('sources')) == plugin_names('sources'), plugin_names('renderers'));"
        "others = 'vil_adapters', 'vil_renderer', 'vil_simulation';"
        "print([m for m in sys.modules if m.startswith(others)])"
    )
    assert output(sys.executable, "-c", code).splitlines() == [
        "True ['flightgoggles', 'flightmare']",
        "[]",
    ]


def test_every_built_in_can_be_imported_and_constructed() -> None:
    for section, table in registry.BUILT_IN.items():
        for name, plugin in table.items():
            assert registry.resolve(section)[name]().model_fields["type"].default == name
            module, _, attribute = plugin.implementation.partition(":")
            assert isinstance(getattr(__import__(module, fromlist=[attribute]), attribute), type)
    config = registry.resolve("sources")["optitrack"]().model_validate({"type": "optitrack"})
    assert registry.create("sources", "motive", config).name == "motive"


THIRD_PARTY = """
from typing import Literal
from pydantic import Field
from vil_bridge.config.base import PluginConfig
from vil_bridge.registry import Plugin

class Config(PluginConfig):
    type: Literal["brand"] = "brand"
    level: int = Field(default=3, description="A number.")

class Source:
    def __init__(self, name, config):
        self.name, self.level = name, config.level

plugin = Plugin("brand_plugin:Config", "brand_plugin:Source")
"""


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, *entries: tuple[str, str]) -> None:
    """Make entry points known as an installed distribution would."""
    (folder / "brand_plugin.py").write_text(THIRD_PARTY)
    info = folder / "brand_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brand-plugin\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries)
    (info / "entry_points.txt").write_text(f"[vil_bridge.sources]\n{lines}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "brand_plugin", raising=False)


def test_a_third_partys_plugin_is_found_read_and_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, ("brand", "brand_plugin:plugin"))
    assert "brand" in registry.plugin_names("sources")
    assert "brand_plugin" not in sys.modules
    path = tmp_path / "c.yaml"
    path.write_text("version: 1\nsources: {mine: {type: brand, level: 7}}\n")
    config = load(path, env={}, resolve=registry.resolve)
    assert registry.create("sources", "mine", config.sources["mine"]).level == 7
    path.write_text("version: 1\nsources: {mine: {type: brand, levle: 7}}\n")
    with pytest.raises(
        ConfigError, match=r"2:31: sources\.mine\.levle: unknown key \(did you mean 'level'\?\)"
    ):
        load(path, env={}, resolve=registry.resolve)


def test_the_same_name_twice_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, ("optitrack", "brand_plugin:plugin"))
    with pytest.raises(
        ConfigError, match="two sources are named 'optitrack': the bridge itself and brand_plugin"
    ):
        registry.plugin_names("sources")


def test_a_missing_module_is_named_where_the_type_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, ("brand", "absent_brand:plugin"))
    path = tmp_path / "c.yaml"
    path.write_text("version: 1\ncolour: red\nsources:\n  mine: {type: brand}\n")
    with pytest.raises(ConfigError) as caught:
        load(path, env={}, resolve=registry.resolve)
    assert [problem.replace(str(path), "c.yaml") for problem in caught.value.problems] == [
        f"c.yaml:2:1: colour: unknown key; known: {', '.join(BridgeConfig.model_fields)}",
        "c.yaml:4:10: sources.mine.type: type 'brand': the Python module 'absent_brand' "
        "is not installed:"
        " install the package that provides 'absent_brand'",
    ]


def test_a_missing_module_of_an_extra_names_the_extra() -> None:
    error = ModuleNotFoundError("No module named 'moderngl'", name="moderngl")
    assert registry.explain_missing(error).endswith("pip install '.[gl]' in the source folder")
