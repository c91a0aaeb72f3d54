"""Fuzzes codecs, one process each.

``python -m tests.fuzz.run CODEC... --runs N`` (``all`` = every codec).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.fuzz.target import CODECS, CORPORA, load

__all__ = ["Outcome", "fuzz", "main", "table"]

_HANG_S: Final = 10
_RSS_MB: Final = 2048
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Outcome:
    """How one codec fared.

    Attributes:
        executions: inputs that were read. seconds: wall time.
        worst_ms: processor time of the slowest input, coverage's bookkeeping included.
        peak_mb: largest that one input held, of those that were measured (1 of 256).
        finding: what escaped, empty where nothing did. inputs: new ones in the working corpus.
    """

    codec: str
    executions: int
    seconds: float
    worst_ms: float
    peak_mb: float
    finding: str
    inputs: int


def fuzz(codec: str, out: Path, runs: int, seconds: int = 0, seed: int = 0) -> Outcome:
    """Fuzz a codec in a process of its own until ``runs`` inputs were read or ``seconds`` have
    passed.

    The same ``seed`` tries the same inputs in the same order; 0 = others each time.

    What it finds lies in ``out/codec``: ``corpus``, the ``log`` and the input of a finding. A later
    call goes on from that corpus.
    """
    folder = out / codec
    corpus, seeds = folder / "corpus", folder / "seeds"
    for path in (corpus, seeds):
        path.mkdir(parents=True, exist_ok=True)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    options = [
        f"-runs={runs}",
        f"-timeout={_HANG_S}",
        f"-rss_limit_mb={_RSS_MB}",
        f"-artifact_prefix={folder}/",
    ]
    options.append(f"-seed={seed}")
    if seconds:
        options.append(f"-max_total_time={seconds}")
    for i, example in enumerate(load(codec).seeds()):
        (seeds / f"{i:03d}").write_bytes(example)
    folders = [str(p) for p in (corpus, seeds, CORPORA / codec) if p.is_dir()]
    command = [sys.executable, "-m", "tests.fuzz.engine", codec, str(report), *options, *folders]
    begun_s = time.monotonic()
    with (folder / "log").open("w") as log:
        child = subprocess.run(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
            env=os.environ | _ENVIRONMENT,
        )
    return _outcome(codec, folder, child.returncode, time.monotonic() - begun_s)


def _outcome(codec: str, folder: Path, code: int, seconds: float) -> Outcome:
    text = (folder / "log").read_text(errors="replace")
    done = re.findall(r"^Done (\d+) runs", text, re.MULTILINE) or re.findall(
        r"^#(\d+)\s", text, re.MULTILINE
    )
    report = folder / "report.json"
    told: dict[str, Any] = {"worst_ns": 0, "peak_bytes": 0, "finding": None}
    if report.exists():
        told = json.loads(report.read_text())
    finding = told["finding"] or (f"ended with {code}: {text[-300:]}" if code else "")
    return Outcome(
        codec,
        int(done[-1]) if done else 0,
        seconds,
        told["worst_ns"] / 1e6,
        told["peak_bytes"] / (1 << 20),
        finding,
        len(list((folder / "corpus").iterdir())),
    )


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as a table for documents."""
    lines = [
        "| Codec | Inputs | Worst ms | Peak MB | Finding |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| {o.codec} | {o.executions:,} | {o.worst_ms:.2f} | {o.peak_mb:.2f} | "
        f"{o.finding or 'none'} |"
        for o in outcomes
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Fuzz the named codecs; 1 when there is a finding."""
    parser = argparse.ArgumentParser(description="Fuzz the codecs that read foreign bytes.")
    parser.add_argument("codecs", nargs="+", choices=["all", *CODECS], metavar="CODEC")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs per codec")
    parser.add_argument("--seconds", type=int, default=0, help="end after this time per codec")
    parser.add_argument(
        "--seed", type=int, default=0, help="try the same inputs again; 0 = others each time"
    )
    parser.add_argument("--jobs", type=int, default=1, help="codecs at the same time")
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz"), help="corpora, logs, findings"
    )
    args = parser.parse_args(argv)
    if importlib.util.find_spec("atheris") is None:
        print("nothing is fuzzed: atheris has no package for this processor or Python")
        return 0
    names = list(CODECS) if "all" in args.codecs else args.codecs
    outcomes = []
    with ThreadPoolExecutor(args.jobs) as pool:
        one = partial(fuzz, out=args.out, runs=args.runs, seconds=args.seconds, seed=args.seed)
        for outcome in pool.map(one, names):
            outcomes.append(outcome)
            print(json.dumps(asdict(outcome)), flush=True)
    (args.out / "summary.md").write_text(table(outcomes) + "\n")
    print(table(outcomes))
    return int(any(outcome.finding for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
