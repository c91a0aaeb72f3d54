"""Check the subjects of new commits: ``area: imperative summary``, at most 72 characters.

python scripts/commit_subjects.py            # all commits after the rule was made
python scripts/commit_subjects.py HEAD~3..   # these

A shallow history without the first commit is not checked.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

FIRST: Final = "f8fdcd7"
"""Last commit before the rule."""
LONGEST: Final = 72
_FORM: Final = re.compile(r"(?P<area>[a-z0-9][a-z0-9_, /-]*): (?P<summary>\S.*)")
_NOT_IMPERATIVE: Final = re.compile(
    r"(?:[a-z]+(?:ed|ing)|adds|fixes|makes|moves|removes|renames|changes|writes|the|a|an|"
    r"it|what|who|how|when|where)\b",
    re.I,
)
_IMPERATIVE: Final = frozenset({"bring", "embed", "feed", "need", "shed", "speed", "string"})


def problem(subject: str) -> str:
    """Return what is wrong with a subject, "" if nothing."""
    if re.match(r"(?:Merge|Revert) ", subject):
        return ""
    match = _FORM.fullmatch(subject)
    if match is None:
        return "write `area: summary` with a lower-case area"
    if len(subject) > LONGEST:
        return f"{len(subject)} characters, at most {LONGEST}"
    if subject.endswith("."):
        return "end without a full stop"
    first = match["summary"].split()[0].strip(",").lower()
    if first not in _IMPERATIVE and _NOT_IMPERATIVE.fullmatch(first):
        return f"begin the summary with an imperative verb, not {first!r}"
    return ""


def main(arguments: list[str]) -> int:
    """Print the wrong subjects of a range of commits. Return 1 if there are any."""
    reached = _git("merge-base", "--is-ancestor", FIRST, "HEAD")
    if reached.returncode and not arguments:
        sys.stdout.write("commit subjects: the history is too short; nothing is checked\n")
        return 0
    span = arguments[0] if arguments else f"{FIRST}.."
    listed = _git("log", "--no-merges", "--format=%h %s", span)
    listed.check_returncode()
    wrong = 0
    for line in listed.stdout.splitlines():
        name, _, subject = line.partition(" ")
        if reason := problem(subject):
            wrong += 1
            sys.stdout.write(f"{name} {subject!r}: {reason}\n")
    return 1 if wrong else 0


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        ["git", *words],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
