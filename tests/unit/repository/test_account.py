"""The account of cases: what it finds, and that docs/develop/cases.md names cases that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.attacks.run import ATTACKS
from tests.support.account import PAGE, Row, collected, rows, unaccounted
from tests.support.common import ROOT

TEXT = PAGE.read_text(encoding="utf-8")
TABLE = """
Cases `tests/a.py::test_named_in_text` are no row.

| former case | shown by | mutants |
| --- | --- | --- |
| `tests/a.py::test_one`, `tests/a.py::test_two[x-y]` | `tests/b.py::test_one` | a line removed |
| `tests/a.py::test_three[old-*` | the rule is gone | |

| attack | cases |
| --- | --- |
| flood | `tests/b.py::test_flood` |
"""


def test_a_row_has_former_cases_and_those_of_now() -> None:
    assert rows(TABLE) == [
        Row(("tests/a.py::test_one", "tests/a.py::test_two[x-y]"), ("tests/b.py::test_one",)),
        Row(("tests/a.py::test_three[old-*",), ()),
        Row((), ("tests/b.py::test_flood",)),
    ]


def test_a_case_that_neither_the_tree_nor_the_table_has_is_found() -> None:
    names = [
        "one",
        "one[1]",
        "one_more",
        "two[x-y]",
        "two[x]",
        "three[old-1]",
        "three[new-1]",
        "four",
        "five",
    ]
    before = {f"tests/a.py::test_{name}": ["process"] for name in names}
    now = {"tests/a.py::test_four": ["process"], "tests/a.py::test_five": ["long", "process"]}
    found = unaccounted(before, now, rows(TABLE))
    assert found == [
        f"tests/a.py::test_{name}" for name in ("five", "one_more", "three[new-1]", "two[x]")
    ]


@pytest.mark.process
@pytest.mark.long
def test_cases_are_collected_with_their_marks(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_a.py").write_text(
        "import pytest\n@pytest.mark.long\n@pytest.mark.parametrize('n', [1, 2])\ndef "
        "test_a(n): pass\n"
    )
    (folder / "test_b.py").write_text("import absent_module\ndef test_b(): pass\n")
    assert collected(tmp_path) == {f"tests/test_a.py::test_a[{n}]": ["long"] for n in (1, 2)}


def test_the_page_names_cases_that_exist() -> None:
    absent = []
    for case in (case for row in rows(TEXT) for case in row.now):
        file, _, name = case.partition("::")
        if not re.search(rf"^(?:async )?def {re.escape(name)}\(", (ROOT / file).read_text(), re.M):
            absent.append(case)
    assert absent == []


def test_attacks_and_foreign_clients_have_cases_on_real_sockets() -> None:
    attacks, _, clients = TEXT.partition("### Attacks")[2].partition("### ")
    assert set(re.findall(r"^\| ([a-z_]+) \| `", attacks, re.M)) == {
        name.partition(".")[0] for name in ATTACKS
    }
    for row in rows(attacks) + rows(clients):
        for case in row.now:
            text = (ROOT / case.partition("::")[0]).read_text()
            assert re.search(r"\bmark\.(?:wire|process|browser)\b", text), case
