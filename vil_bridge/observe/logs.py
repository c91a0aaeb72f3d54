"""Logging of the process: to stderr, as text for people or as JSON lines for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["setup_logging"]


def setup_logging(*, level: int = logging.INFO, json_lines: bool = False) -> None:
    """Send all logs to stderr; replaces what was set up before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonFormatter() if json_lines else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)


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
