"""A real Prometheus scrapes a running lab.

Every query of the board and every rule finds what it asks for.
"""

from __future__ import annotations

import json
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.common import ROOT, needs_program, wait_until
from tests.support.harness import Rig
from tests.support.programs import Program
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process


DEPLOY = ROOT / "deploy"
BOARD = json.loads((DEPLOY / "grafana" / "vil_bridge.json").read_text())
QUERIES = [
    (panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel["targets"]
]


@contextmanager
def prometheus(folder: Path, bridge_port: int) -> Iterator[str]:
    """Debian's program with our configuration, faster; yields its address."""
    program = needs_program("prometheus", "prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "prometheus" / "vil_rules.yml")]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{bridge_port}"]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    (port,) = free_ports(1, socket.SOCK_STREAM)
    options = (f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}")
    with Program(program, *options, f"--web.listen-address=127.0.0.1:{port}"):
        yield f"http://127.0.0.1:{port}/api/v1"


def ask(address: str, **question: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{address}?{urllib.parse.urlencode(question)}", timeout=60.0) as answer:
        return json.load(answer)["data"]


@pytest.mark.long
def test_every_query_has_an_answer(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig, prometheus(tmp_path, rig.http_port) as api:
        rig.start_all()

        def silent() -> list[str]:
            """Panels without a series yet."""
            try:
                return [
                    title
                    for title, query in QUERIES
                    if not ask(f"{api}/query", query=query.replace("$__rate_interval", "10s"))[
                        "result"
                    ]
                ]
            except OSError as exc:
                return [str(exc)]

        wait_until(lambda: not silent(), 60.0, silent)
        rules = ask(f"{api}/rules")["groups"][0]["rules"]
        assert [r["lastError"] for r in rules if r.get("lastError")] == []
        asked = {name for rule in rules for name in re.findall(r"\bvil_\w+", rule["query"])}
        unknown = {name for name in asked if not ask(f"{api}/query", query=name)["result"]}
        # Nothing is dropped in a good run, so that no sample of it exists yet.
        assert unknown <= {"vil_stream_dropped_total"}
        assert "VilBridgeGone" in {rule["name"] for rule in rules}
        assert not [r["name"] for r in rules if r["state"] == "firing"]
