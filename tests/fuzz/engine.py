"""One codec under atheris, in a process of its own.

``python -m tests.fuzz.engine CODEC REPORT [OPTIONS]``.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

import atheris  # type: ignore[import-untyped,unused-ignore]

from tests.fuzz.mutate import mutate_json
from tests.fuzz.target import load
from tests.fuzz.watch import Watch

OURS = ["vil_bridge", "vil_adapters", "vil_renderer", "vil_simulation", "tests.fuzz.targets"]


def main(name: str, report: Path, options: list[str]) -> None:
    """Fuzz until libFuzzer's limits; never returns."""
    with atheris.instrument_imports(include=OURS):
        target = load(name)
    watch = Watch(target)
    watch.warm_up()
    logging.disable()
    warnings.simplefilter("error", RuntimeWarning)

    def one(data: bytes) -> None:
        try:
            notable = watch.judge(data)
        except Exception as exc:
            write(f"{type(exc).__name__}: {exc}"[:300])
            raise
        if notable:
            write(None)

    def write(finding: str | None) -> None:
        told = {"worst_ns": watch.worst_ns, "peak_bytes": watch.peak_bytes, "finding": finding}
        draft = report.with_suffix(".draft")
        draft.write_text(json.dumps(told))
        draft.replace(report)

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        return (seed % 2 and mutate_json(data, max_size, seed)) or atheris.Mutate(data, max_size)

    write(None)
    arguments = [sys.argv[0], f"-max_len={target.max_bytes}", *options]
    if target.is_json:
        atheris.Setup(arguments, one, custom_mutator=mutated)
    else:
        atheris.Setup(arguments, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
