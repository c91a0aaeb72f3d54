"""What is deployed is checked by the tools of those who deploy it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"


def tool(name: str) -> str:
    """A program of this machine or of the environment; skips without it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_every_alert_fires_on_what_it_is_meant_for() -> None:
    folder = DEPLOY / "prometheus"
    run(tool("promtool"), "check", "config", "prometheus.yml", cwd=folder)
    run(tool("promtool"), "test", "rules", "vil_rules_test.yml", cwd=folder)
    rules = yaml.safe_load((folder / "vil_rules.yml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((folder / "vil_rules_test.yml").read_text())["tests"]
    fired = {c["alertname"] for t in tests for c in t["alert_rule_test"] if c["exp_alerts"]}
    assert fired == {rule["alert"] for rule in rules}
    assert all(rule["annotations"].keys() == {"summary", "cure"} for rule in rules)


def test_whoever_is_turned_away_counts_as_unwanted() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "vil_rules.yml").read_text())["groups"][0]["rules"]
    expression = next(rule["expr"] for rule in rules if rule["alert"] == "VilUnwantedInput")
    wanted = re.search(r'reason=~"([^"]+)"', expression)
    assert wanted is not None
    guard = (ROOT / "vil_bridge" / "dashboard" / "guard.py").read_text()
    reasons = set(re.findall(r'_Refusal\(\s*\d+,\s*"([a-z_]+)"', guard))
    assert {"unauthorized", "foreign_host", "foreign_origin", "too_often"} <= reasons
    unseen = {reason for reason in {*reasons, "refused_key", "bad_handshake"} if not re.fullmatch(wanted[1], reason)}
    assert unseen == {"too_many"}, "that is people's own pages"


@pytest.mark.parametrize("unit", ["vil-bridge", "vil-renderer"])
def test_units_are_valid_and_hardened(unit: str, tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    text = (DEPLOY / "systemd" / f"{unit}.service").read_text()
    # The program is not installed where the test runs; any that is will do.
    (tmp_path / f"{unit}.service").write_text(text.replace("/opt/vil-bridge/bin/vil-bridge", "/bin/true"))
    told = run(analyze, "verify", "--recursive-errors=no", tmp_path / f"{unit}.service")
    assert unit not in told.stderr, told.stderr
    level = run(analyze, "security", "--offline=true", tmp_path / f"{unit}.service").stdout
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", level)
    assert exposure is not None
    assert float(exposure[1]) < 3.0


def test_drop_ins_are_read(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    text = (DEPLOY / "systemd" / "vil-bridge.service").read_text()
    (tmp_path / "vil-bridge.service").write_text(text.replace("/opt/vil-bridge/bin/vil-bridge", "/bin/true"))
    folder = tmp_path / "vil-bridge.service.d"
    folder.mkdir()
    for path in (DEPLOY / "systemd" / "vil-bridge.service.d").iterdir():
        (folder / path.name.removesuffix(".example")).write_text(path.read_text())
    told = run(analyze, "verify", "--recursive-errors=no", tmp_path / "vil-bridge.service")
    assert "vil-bridge" not in told.stderr, told.stderr


def test_the_dockerfile_is_clean_and_calls_scripts_only() -> None:
    run(tool("hadolint"), DOCKERFILE)
    lines = [line.removeprefix("RUN ") for line in DOCKERFILE.read_text().splitlines() if line.startswith("RUN ")]
    commands = [command for line in lines for command in line.split(" && ")]
    for command in commands:
        called = re.fullmatch(r"sh (?:/tmp|/src/deploy/docker)/(\w+\.sh)(?: \S+)*", command)
        assert called is not None, command
        run("sh", "-n", DOCKERFILE.with_name(called[1]))
    assert DOCKERFILE.read_text().count("USER 10001") == 2, "nobody runs as root"


def test_the_composition_is_valid() -> None:
    done = run(tool("docker-compose"), "-f", DEPLOY / "docker" / "compose.yaml", "config")
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
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
