"""Logging of the process: to stderr, as text for people or as JSON lines for machines."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def setup_logging(*, level: int = logging.INFO, json_lines: bool = False) -> None:
    """Send all logs to stderr; replaces what was set up before."""
    handler = logging.StreamHandler(sys.stderr)
    formatter: logging.Formatter
    if json_lines:
        formatter = _JsonFormatter()
    else:
        formatter = _TextFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)


def logging_words() -> tuple[str, ...]:
    """Return how this process logs, as a child of it takes that on its command line.

    None = as Python does.
    """
    root = logging.getLogger()
    formatter = next((handler.formatter for handler in root.handlers), None)
    if not isinstance(formatter, _TextFormatter | _JsonFormatter):
        return ()
    return str(root.level), "json" if isinstance(formatter, _JsonFormatter) else "text"


def setup_logging_as(words: Sequence[str]) -> None:
    """Log as the parent of this process does, which handed over its :func:`logging_words`."""
    if words:
        setup_logging(level=int(words[0]), json_lines=words[1] == "json")


class _TextFormatter(logging.Formatter):
    """Peers' words neither steer the terminal nor pass for lines of ours."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        text = _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], super().formatMessage(record))
        return text.replace("\n", "\n    ")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
