"""The text of a settings.json: its encoding and its JSON, with the cure in every error."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any, Final

from vil_bridge.core.errors import ConfigError

_UTF_16_AND_32: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""First bytes of a file; UTF-32 in little-endian order begins as UTF-16 does."""
_AN_OBJECT: Final = "Write {} for AirSim's defaults, or copy AirSim's settings.json"


def read_text(path: Path) -> str:
    """Return the text of a settings file; a byte order mark of UTF-8 is dropped.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8; says what to do, without the path.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            "there is no such file. Correct the path, or name no file for AirSim's defaults"
        ) from None
    except IsADirectoryError:
        raise ConfigError("is a folder. Name the settings.json in it") from None
    except OSError as exc:
        raise ConfigError(f"cannot be read: {exc.strerror}. Let this user read it") from None
    if data.startswith(_UTF_16_AND_32) or b"\0" in data[:2]:
        raise ConfigError(
            "is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8 (in an editor: save with encoding)"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        column = exc.start - data.rfind(b"\n", 0, exc.start)
        raise ConfigError(
            f"line {line}, column {column}: the byte 0x{data[exc.start]:02x} is not "
            "UTF-8. Save the file as UTF-8"
        ) from None


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a text.

    Raises:
        ConfigError: it is none; says where, and what to do.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ConfigError(f"is empty. {_AN_OBJECT}")
    try:
        root = json.loads(text)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise ConfigError(f"{where}: not JSON: {exc.msg}. {_cure(text, exc)}") from None
    except RecursionError:
        raise ConfigError(
            "not JSON that can be read: it is nested too deeply. Remove some of its brackets"
        ) from None
    except ValueError as exc:  # a number of thousands of digits
        raise ConfigError(f"not JSON that can be read: {exc}. Write a shorter number") from None
    if not isinstance(root, dict):
        raise ConfigError(f"must be a JSON object, not {type(root).__name__}. {_AN_OBJECT}")
    return root


def _cure(text: str, error: json.JSONDecodeError) -> str:
    """Return what to do about an error of JSON, from the characters around it."""
    rest = text[error.pos :].lstrip()
    before = text[: error.pos].rstrip()
    here = rest[:1]
    if not rest:
        return "The text ends too early: add the missing quotes and brackets"
    if error.msg.startswith(("Invalid \\", "Invalid control")):
        return "Write / or \\\\ for a backslash in a path, and \\n for a line break"
    if rest.startswith(("//", "/*", "#")):
        return "Remove the comment: JSON has none"
    if (here in "}]" and before.endswith(",")) or (
        here == "," and rest[1:].lstrip()[:1] in ("}", "]")
    ):
        return "Remove the comma before the closing bracket"
    if here == "'":
        return 'Write double quotes: "..."'
    if rest.startswith(("True", "False", "None")):
        return "Write true, false or null"
    if error.msg == "Extra data":
        return "Remove what follows the first object, or add the { at the start"
    if error.msg.startswith("Expecting ',' delimiter"):
        return "Put a comma between two entries, or close the bracket"
    return 'Write "key": value with double quotes, and a comma between two entries'
