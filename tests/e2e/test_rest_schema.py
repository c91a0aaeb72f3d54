"""Answers of the REST interface to what its description allows and to much that it forbids.

In `make test-all`; ``VIL_REST_EXAMPLES=1000`` tries that many requests of each operation.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from tests.support.guarded_bridge import guarded_bridge
from vil_bridge.runtime.access_tokens import Role

pytestmark = [pytest.mark.process, pytest.mark.long]


EXAMPLES: Final = int(os.environ.get("VIL_REST_EXAMPLES", "25"))
PATIENCE_S: Final = 180.0
NEVER_ENDS: Final = "/api/v1/updates"
SAID_503: Final = {"/readyz"}


@pytest.mark.timeout(0 if EXAMPLES > 100 else 900)
def test_no_request_makes_a_server_error(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    # Here, since every worker collects this file and few run it.
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.core.result import Ok

    begun_s = time.monotonic()
    with guarded_bridge(tmp_path) as bridge:
        headers = bridge.headers(Role.CONTROL)
        schema = schemathesis.openapi.from_url(
            f"{bridge.url}/api/v1/openapi.json", headers=headers, wait_for_schema=PATIENCE_S
        )
        tried: Counter[str] = Counter()
        statuses: Counter[int] = Counter()
        for found in schema.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            if operation.path != NEVER_ENDS:
                allowed, wrong = (
                    operation.as_strategy(generation_mode=mode)
                    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
                )
                _try(allowed, headers, operation.label, tried, statuses)
                with contextlib.suppress(Unsatisfiable):  # who asks for nothing cannot ask wrongly
                    _try(wrong, headers, operation.label, tried, statuses)
        report = {
            "operations": len(tried),
            "requests": sum(tried.values()),
            "statuses": dict(statuses),
        }
        report["seconds"] = round(time.monotonic() - begun_s, 1)
        record_property("rest", report)
        print(report)
        assert len(tried) > 30
        health = httpx.get(f"{bridge.url}/healthz", timeout=PATIENCE_S)
        assert health.json() == {"status": "ok"}
    assert "Traceback" not in bridge.log.read_text()


def _try(
    strategy: Any,
    headers: dict[str, str],
    label: str,
    tried: Counter[str],
    statuses: Counter[int],
) -> None:
    """Some requests of one operation."""

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=EXAMPLES < 100,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        answer = case.call(headers=headers, timeout=PATIENCE_S)
        tried[label] += 1
        statuses[answer.status_code] += 1
        told = f"{case.as_curl_command()}: {answer.status_code} {answer.text}"
        assert answer.status_code < 500 or case.operation.path in SAID_503, told
        assert str(answer.status_code) in case.operation.responses.status_codes, (
            f"not described: {told}"
        )

    ask()
