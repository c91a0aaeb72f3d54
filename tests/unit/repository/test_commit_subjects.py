"""The check of commit subjects: ``area: imperative summary``."""

from __future__ import annotations

import runpy

import pytest

from tests.support.common import ROOT

problem = runpy.run_path(str(ROOT / "scripts" / "commit_subjects.py"))["problem"]


@pytest.mark.parametrize(
    "subject",
    [
        "outputs: close those created during shutdown",
        "config: apply nothing when any change is rejected",
        "web, simulated, recording: split definitions into schemas and plain data",
        "embedded: speed up the shadow pass",
        "Merge branch 'main' of elsewhere",
    ],
)
def test_good_subjects(subject: str) -> None:
    assert problem(subject) == ""


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("Outputs: close those created during shutdown", "lower-case area"),
        ("close the outputs", "lower-case area"),
        ("outputs: closed those created during shutdown", "imperative"),
        ("docs: adds a page", "imperative"),
        ("docs: the new page", "imperative"),
        ("docs: add a page.", "full stop"),
        ("docs: " + "x" * 70, "76 characters"),
    ],
)
def test_bad_subjects(subject: str, reason: str) -> None:
    assert reason in problem(subject)
