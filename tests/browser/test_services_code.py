"""Tables of services that have no panel of their own on the page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.in_node import in_node

pytestmark = pytest.mark.process

SCRIPT = """
import { tableOf } from "./panels/services.mjs";
const words = (cell) => (typeof cell === "string" ? cell : cell.text);
function answer(part) {
  const { columns, rows } = tableOf(part);
  return { columns, rows: rows.map((row) => row.map(words)) };
}
"""


def table(part: Any) -> tuple[list[list[str]], list[list[str]]]:
    found = in_node(SCRIPT, part)
    plain = [[text.replace("\u202f", " ") for text in row] for row in found["rows"]]
    return found["columns"], plain


def test_entries_by_name_are_rows_and_their_units_stand_behind_numbers() -> None:
    columns, rows = table(
        {
            "main": {"vehicle": "drone", "left_ratio": 0.25, "voltage_v": 15.2, "low": False},
            "spare": {"vehicle": "wand", "left_ratio": None, "voltage_v": 16, "low": True},
        }
    )
    assert columns == [
        ["name"],
        ["vehicle", ""],
        ["left", "number"],
        ["voltage", "number"],
        ["low", ""],
    ]
    assert rows == [
        ["main", "drone", "25 %", "15.20 V", "no"],
        ["spare", "wand", "–", "16 V", "yes"],
    ]


def test_two_fields_that_differ_in_their_unit_alone_have_different_titles() -> None:
    columns, _ = table({"main": {"low_ratio": 0.25, "low": True, "age_s": 1.0}})
    assert [title for title, *_ in columns] == ["name", "low ratio", "low", "age"]


def test_a_list_and_a_single_part_are_tables_too() -> None:
    assert table([{"kind": "leaving", "actors": ["a", "b"]}])[1] == [["1", "leaving", "a, b"]]
    assert table({"port": 41451, "programs": 2, "per_peer": {"x": 1}})[1] == [
        ["", "41,451", "2", '{"x":1}']
    ]


def test_a_service_without_entries_has_no_rows() -> None:
    parts: list[Any] = [{}, [], None]
    assert [table(part)[1] for part in parts] == [[], [], []]
