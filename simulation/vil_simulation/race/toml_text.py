"""Text of TOML documents: the standard library reads TOML and does not write it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def toml_text(document: Mapping[str, Any]) -> str:
    """Return the text of a document of tables, lists of tables, and values.

    Raises:
        TypeError: a value that TOML does not know.
    """
    return "\n".join(_table(document, ())) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    later: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, Mapping) or _is_list_of_tables(value):
            later.append((key, value))
        else:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in later:
        name = ".".join(_key(part) for part in (*path, key))
        several = not isinstance(value, Mapping)
        for entry in value if several else (value,):
            yield ""
            yield f"[[{name}]]" if several else f"[{name}]"
            yield from _table(entry, (*path, key))


def _is_list_of_tables(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and isinstance(value[0], Mapping)
    )


def _key(key: str) -> str:
    if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key):
        return key
    return json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(
        f"TOML has no value like {value!r}. Write text, numbers, booleans, lists or tables"
    )
