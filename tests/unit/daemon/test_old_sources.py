"""Sources of others that still have the signature without a context."""

from __future__ import annotations

import pytest

from vil_bridge.core.types import SourceEvent, SourceReset
from vil_bridge.daemon.sources import run_of
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status


class Old:
    name = "lab"

    async def run(self, emit: Emit, status: Status) -> None:
        status.running()
        emit(SourceReset(self.name, "old"))


class New:
    name = "lab"

    def __init__(self) -> None:
        self.given: SourceContext | None = None

    async def run(self, emit: Emit, _status: Status, context: SourceContext) -> None:
        self.given = context
        emit(SourceReset(self.name, "new"))


async def test_an_old_signature_works_and_the_log_names_the_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[SourceEvent] = []
    await run_of(Old())(events.append, Status("lab"), SourceContext())  # type: ignore[arg-type]
    assert [event.reason for event in events if isinstance(event, SourceReset)] == ["old"]
    assert "Change it to run(emit, status, context)" in caplog.text
    assert "source lab: Old.run" in caplog.text


async def test_a_new_signature_gets_the_context_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, context = New(), SourceContext()
    await run_of(source)(lambda _event: None, Status("lab"), context)
    assert source.given is context
    assert caplog.text == ""
