"""What is deployed is checked by the tools of those who deploy it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.common import ROOT, needs_program
from vil_bridge.registry import EXTRA_OF_MODULE

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.process
def test_every_alert_fires_on_what_it_is_meant_for() -> None:
    folder = DEPLOY / "prometheus"
    run(needs_program("promtool", "prometheus"), "check", "config", "prometheus.yml", cwd=folder)
    run(needs_program("promtool", "prometheus"), "test", "rules", "vil_rules_test.yml", cwd=folder)
    rules = yaml.safe_load((folder / "vil_rules.yml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((folder / "vil_rules_test.yml").read_text())["tests"]
    fired = {c["alertname"] for t in tests for c in t["alert_rule_test"] if c["exp_alerts"]}
    assert fired == {rule["alert"] for rule in rules}
    assert all(rule["annotations"].keys() == {"summary", "cure"} for rule in rules)


def test_whoever_is_turned_away_counts_as_unwanted() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "vil_rules.yml").read_text())["groups"][0][
        "rules"
    ]
    expression = next(rule["expr"] for rule in rules if rule["alert"] == "VilUnwantedInput")
    wanted = re.search(r'reason=~"([^"]+)"', expression)
    assert wanted is not None
    guard = (ROOT / "vil_bridge" / "web" / "auth" / "middleware.py").read_text()
    reasons = set(re.findall(r'_Refusal\(\s*\d+,\s*"([a-z_]+)"', guard))
    assert {"unauthorized", "foreign_host", "foreign_origin", "too_often"} <= reasons
    unseen = {
        reason
        for reason in {*reasons, "refused_key", "bad_handshake"}
        if not re.fullmatch(wanted[1], reason)
    }
    assert unseen == {"too_many"}, "that is people's own pages"


@pytest.mark.process
@pytest.mark.parametrize("unit", ["vil-bridge", "vil-renderer"])
def test_units_are_valid_and_hardened(unit: str, tmp_path: Path) -> None:
    analyze = needs_program("systemd-analyze", "systemd")
    text = (DEPLOY / "systemd" / f"{unit}.service").read_text()
    # The program is not installed where the test runs; any that is will do.
    (tmp_path / f"{unit}.service").write_text(
        text.replace("/opt/vil-bridge/bin/vil-bridge", "/bin/true")
    )
    told = run(analyze, "verify", "--recursive-errors=no", tmp_path / f"{unit}.service")
    assert unit not in told.stderr, told.stderr
    level = run(analyze, "security", "--offline=true", tmp_path / f"{unit}.service").stdout
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", level)
    assert exposure is not None
    assert float(exposure[1]) < 3.0


@pytest.mark.process
def test_drop_ins_are_read(tmp_path: Path) -> None:
    analyze = needs_program("systemd-analyze", "systemd")
    text = (DEPLOY / "systemd" / "vil-bridge.service").read_text()
    (tmp_path / "vil-bridge.service").write_text(
        text.replace("/opt/vil-bridge/bin/vil-bridge", "/bin/true")
    )
    folder = tmp_path / "vil-bridge.service.d"
    folder.mkdir()
    for path in (DEPLOY / "systemd" / "vil-bridge.service.d").iterdir():
        (folder / path.name.removesuffix(".example")).write_text(path.read_text())
    told = run(analyze, "verify", "--recursive-errors=no", tmp_path / "vil-bridge.service")
    assert "vil-bridge" not in told.stderr, told.stderr


@pytest.mark.process
def test_the_dockerfile_is_clean_and_calls_scripts_only() -> None:
    run(needs_program("hadolint", "hadolint"), DOCKERFILE)
    lines = [
        line.removeprefix("RUN ")
        for line in DOCKERFILE.read_text().splitlines()
        if line.startswith("RUN ")
    ]
    commands = [command for line in lines for command in line.split(" && ")]
    for command in commands:
        called = re.fullmatch(r"sh (?:/tmp|/src/deploy/docker)/(\w+\.sh)(?: \S+)*", command)
        assert called is not None, command
        run("sh", "-n", DOCKERFILE.with_name(called[1]))
    assert DOCKERFILE.read_text().count("USER 10001") == 2, "nobody runs as root"


def test_what_images_copy_and_containers_mount_exists() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    composition = yaml.safe_load((DOCKERFILE.with_name("compose.yaml")).read_text())
    mounted = [
        mount
        for service in composition["services"].values()
        for mount in service.get("volumes", ())
    ]
    sources = [
        mount["source"] if isinstance(mount, dict) else mount.rsplit(":", 2)[0] for mount in mounted
    ]
    paths = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", source) for source in sources]
    here = [DOCKERFILE.parent / path for path in paths if path not in composition["volumes"]]
    needed = [ROOT / path for line in copied for path in line.split()] + here
    assert len(copied) >= 4 and len(here) >= 4
    assert [path for path in needed if not path.exists()] == []


def test_the_bridges_image_has_every_extra_of_the_daemon_and_its_page_names_them() -> None:
    text = DOCKERFILE.read_text()
    bridge, renderer = (
        set(found.split(",")) for found in re.findall(r"install\.sh /wheels (\S+)", text)
    )
    offline = {"learn", "train", "ray", "plan", "sfm"}
    assert bridge == set(EXTRA_OF_MODULE.values()) - renderer - offline
    page = (ROOT / "docs" / "guides" / "deploy" / "docker.md").read_text()
    assert [extra for extra in sorted(bridge | renderer) if f"`{extra}`" not in page] == []


@pytest.mark.process
def test_the_composition_is_valid() -> None:
    done = run(
        needs_program("docker-compose", "docker-compose"),
        "-f",
        DEPLOY / "docker" / "compose.yaml",
        "config",
    )
    services = yaml.safe_load(done.stdout)["services"]
    assert services.keys() == {"bridge", "renderer", "prometheus", "grafana"}
    assert all(service["network_mode"] == "host" for service in services.values())


def test_the_board_is_whole() -> None:
    board = json.loads((DEPLOY / "grafana" / "vil_bridge.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
