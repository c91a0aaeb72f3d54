"""Expressions and wildcards of clients for the names of objects, by RE2.

Their time is linear in a name's length.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final, Protocol

import re2

_LONGEST: Final = 256
_MOST_BYTES: Final = 1 << 17
"""Of a compiled expression.

As large a one is compiled, and matched with a name, within a millisecond.
"""
_AT_ONCE: Final = 16
"""Names that are matched without other clients' turns between."""
_REFUSED: Final = re.compile(r"\\[pPC]")
"""Classes of Unicode and bytes, which AirSim's grammar (ECMAScript) lacks: tables of megabytes."""


class Pattern(Protocol):
    """An expression that is compiled."""

    def fullmatch(self, text: str) -> object | None:
        """Return a match of a whole text; None = it does not match."""
        ...


def compiled(expression: str, *, ignore_case: bool = False) -> Pattern:
    """Return an expression that matches names as a whole.

    Raises:
        ValueError: the expression is too long, invalid, or needs what takes more than linear time.
    """
    if len(expression) > _LONGEST:
        raise ValueError(
            f"an expression must have at most {_LONGEST} characters, not {len(expression)}"
        )
    if _REFUSED.search(expression):
        raise ValueError(
            f"the expression {expression!r:.80} has a class that AirSim lacks: write "
            "letters in brackets"
        )
    return _pattern(expression, ignore_case=ignore_case)


def _pattern(expression: str, *, ignore_case: bool) -> Pattern:
    options = re2.Options()
    options.max_mem = _MOST_BYTES
    options.never_capture = True
    options.dot_nl = True
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        pattern: Pattern = re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as exc:
        reason = (
            exc.args[0].decode(errors="replace") if isinstance(exc.args[0], bytes) else str(exc)
        )
        raise ValueError(
            f"the expression {expression!r:.80} is invalid: {reason}. Back references and "
            "look-around are not supported"
        ) from None
    return pattern


def wildcards(name: str) -> Pattern:
    """Return the expression of a name in which * and ? stand for others; case does not matter."""
    expression = "".join({"*": ".*", "?": "."}.get(letter) or re2.escape(letter) for letter in name)
    return _pattern(expression, ignore_case=True)


async def matching(
    names: Sequence[str], expression: str, *, ignore_case: bool = False
) -> list[str]:
    """Return the names that match an expression as a whole.

    Raises:
        ValueError: the expression is too long, invalid, or needs what takes more than linear time.
    """
    pattern = compiled(expression, ignore_case=ignore_case)
    found = []
    for begin in range(0, len(names), _AT_ONCE):
        found += [name for name in names[begin : begin + _AT_ONCE] if pattern.fullmatch(name)]
        await asyncio.sleep(0)
    return found
