"""Run the cases that a change can reach, replay the last commits, or record.

``python -m tests.changed``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tests.changed.record import ROOT, SELECTED, record
from tests.changed.recording import Recording, is_test
from tests.changed.select import Selection, differing, select
from tests.changed.trees import Commits, KnownFacts, WorkTree, git

_WORKERS: Final = 2
_START_S: Final = 8.0
_LIMIT_S: Final = 90.0
_FACTS: Final = ROOT / "out" / "changed" / "facts.json"
_MOST_SHOWN: Final = 40


def seconds_of(files: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Return the recorded seconds of test files, the longest first.

    Those without a recording count as the median.
    """
    usual = statistics.median(known.values()) if known else 1.0
    seconds = {file: known.get(file, usual) for file in files}
    return dict(sorted(seconds.items(), key=lambda pair: (-pair[1], pair[0])))


def nearest(
    found: Selection, recording: Recording, changed: Collection[str], limit_s: float
) -> set[str]:
    """Return the selected test files that fit in a time, the nearest to the change first.

    First come changed ones, which are always in, then those that import a changed file, then those
    that ran functions of the fewest modules. All are in where a common file selects everything.
    """
    modules = recording.modules()
    seconds = seconds_of(found.files, recording.seconds)
    chosen = set[str]()
    for file in sorted(
        seconds,
        key=lambda file: (
            file not in changed,
            file not in found.direct,
            modules[file] or 1e9,
            file,
        ),
    ):
        fits = wall_s(sorted((seconds[each] for each in {*chosen, file}), reverse=True)) <= limit_s
        if found.everything or file in changed or fits:
            chosen.add(file)
    return chosen


def wall_s(seconds: Iterable[float]) -> float:
    """Return the time that workers need for files in this order, the first free one takes the
    next.
    """
    workers = [0.0] * _WORKERS
    for each in seconds:
        workers[workers.index(min(workers))] += each
    return _START_S + max(workers) if any(workers) else 0.0


def run(base: str, *, whole: bool, only_list: bool) -> int:
    """Run what the differences of the working tree from a commit reach; return the exit code."""
    recording = Recording.read()
    commits = Commits(ROOT)
    known = KnownFacts(_FACTS)
    before = commits.tree(git(ROOT, "merge-base", base, "HEAD").strip())
    after = WorkTree(ROOT)
    found = select(before, after, known.graph(after), recording)
    commits.close()
    known.keep()
    changed = differing(before, after)
    chosen = set(found.files) if whole else nearest(found, recording, changed, _LIMIT_S)
    seconds, left = (
        seconds_of(files, recording.seconds) for files in (chosen, found.files.keys() - chosen)
    )
    count = sum(map(is_test, after.blobs))
    for path in found.unread:
        print(f"no test file reads or runs {path}, as far as is known")
    if found.everything:
        print(f"{found.everything} can change how every test runs: all test files")
    else:
        for file in list(seconds)[:_MOST_SHOWN]:
            print(f"{seconds[file]:6.1f} s  {file}  ({found.files[file]})")
        if len(seconds) > _MOST_SHOWN:
            print(f"          and {len(seconds) - _MOST_SHOWN} more")
    if left:
        print(
            f"left for make test, or --whole: {len(left)} wider test files, about "
            f"{wall_s(left.values()):.0f} s"
        )
    print(
        f"{len(seconds)} of {count} test files, about {wall_s(seconds.values()):.0f} s", flush=True
    )
    if only_list or not seconds:
        return 0
    words = [
        "-q",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--durations",
        "20",
        "-n",
        str(_WORKERS),
        "-m",
        SELECTED,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *seconds],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    return 0 if done.returncode == 5 else done.returncode


def replay(count: int) -> None:
    """Print what each of the last commits would have selected, the median and the 90th
    percentile.
    """
    recording = Recording.read()
    commits = Commits(ROOT)
    known = KnownFacts(_FACTS)
    runs = list[float]()
    wholes = list[float]()
    shares = list[float]()
    revisions = git(ROOT, "log", "--first-parent", f"-{count}", "--format=%H").split()
    for revision in revisions:
        before = commits.tree(f"{revision}^1")
        after = commits.tree(revision)
        begun = time.monotonic()
        found = select(before, after, known.graph(after), recording)
        spent = time.monotonic() - begun
        changed = differing(before, after)
        chosen = nearest(found, recording, changed, _LIMIT_S)
        run_s, whole_s = (
            wall_s(seconds_of(files, recording.seconds).values()) for files in (chosen, found.files)
        )
        runs.append(run_s)
        wholes.append(whole_s)
        shares.append(100 * len(found.files) / sum(map(is_test, after.blobs)))
        why = found.everything and f"all: {found.everything}"
        line = (
            f"{revision[:8]} {len(changed):4} files changed, {len(found.files):4} selected, "
            f"{whole_s:5.0f} s"
        )
        print(
            f"{line}; {len(chosen):4} run, {run_s:4.0f} s (chosen in {spent:.1f} s) {why}",
            flush=True,
        )
    commits.close()
    known.keep()
    for name, values, unit in (
        ("run", runs, "s"),
        ("selected", wholes, "s"),
        ("selected", shares, "% of the test files"),
    ):
        tenths = statistics.quantiles(values, n=10, method="inclusive")
        print(
            f"{name}: median {statistics.median(values):.1f} {unit}, 90th percentile "
            f"{tenths[8]:.1f} {unit}"
        )


def main(words: Sequence[str] | None = None) -> int:
    """Run with these words of a command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    each = verbs.add_parser(
        "run", help="run what the working tree's differences from a commit reach"
    )
    each.add_argument("base", nargs="?", default="HEAD")
    each.add_argument(
        "--whole", action="store_true", help="run all of the selected, however long they take"
    )
    each.add_argument("--list", action="store_true", help="only name the test files")
    each = verbs.add_parser(
        "replay", help="selection and recorded time of each of the last commits"
    )
    each.add_argument("--commits", type=int, default=300)
    each = verbs.add_parser(
        "record", help="run test files and record what they reach, and their seconds"
    )
    each.add_argument("paths", nargs="*", default=["tests/"], help="beginnings of paths")
    options = parser.parse_args(words)
    if options.verb == "run":
        return run(options.base, whole=options.whole, only_list=options.list)
    if options.verb == "replay":
        replay(options.commits)
    else:
        record(options.paths, _WORKERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
