"""``python -m tests.attacks.run [NAME ...] [--rounds N] [--seconds S] [--json FILE]``.

Attack a bridge and judge.

Exit code 0 = the bridge held against all of them: it lives, its pictures came at no less than 80 %
of the rate next to a harmless process with the attackers' use of the processor, and its status
counts and names every attacker.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.attacks.attack import Attack
from tests.attacks.harness import AttackedBridge, carry_out
from tests.attacks.verdict import Verdict, share
from tests.support.airsim_burns import KINDS

ATTACKS: Final = (
    "federation_flood",
    "websocket_pings",
    "control_flood",
    "crowd",
    "reader_flood",
    "udp_reflection",
    "name_theft",
    "peer_pings",
    "stranger_commands",
    "frozen_pose",
    "frozen_picture",
    "output_bugs",
    *(f"airsim_calls.{kind}" for kind in KINDS),
    "airsim_extremes",
)
"""Modules of this package with a constant ``ATTACK``, or ``MODULE.KIND`` of one with ``ATTACKS``.

Those with the same configuration next to each other.
"""


def load(name: str) -> Attack:
    """Return the attack of a module of this package."""
    module, _, kind = name.partition(".")
    attacks = importlib.import_module(f"tests.attacks.{module}")
    found: Attack = attacks.ATTACKS[kind] if kind else attacks.ATTACK
    return found


def attacked(names: Sequence[str], rounds: int, seconds: float) -> Iterator[Verdict]:
    """Carry out the attacks one after the other.

    A bridge that died or is slow gives way to a fresh one.
    """
    for _, group in groupby(names, lambda name: id(load(name).configure)):
        waiting = list(group)
        while waiting:
            with (
                tempfile.TemporaryDirectory(prefix="vil-attack-") as folder,
                AttackedBridge(Path(folder), load(waiting[0]).configure) as rig,
            ):
                rig.start_all()
                problems: Sequence[str] = ()
                while waiting and not problems:
                    name = waiting.pop(0)
                    verdict = carry_out(name, load(name), rig, rounds, seconds)
                    problems = verdict.problems
                    yield verdict


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}; none = all"
    )
    parser.add_argument("--rounds", type=int, default=3, help="attack and reference phases of each")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each phase")
    parser.add_argument("--json", type=Path, help="file for the verdicts")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ATTACKS):
        parser.error(
            f"unknown attack {', '.join(sorted(unknown))}. Choose from {', '.join(ATTACKS)}."
        )
    verdicts = []
    for verdict in attacked(options.names or ATTACKS, options.rounds, options.seconds):
        verdicts.append(verdict)
        print(verdict.words, flush=True)
        for problem in verdict.problems:
            print(f"  {problem}", file=sys.stderr, flush=True)
    if options.json is not None:
        found = [{**asdict(v), "share": share(v.rounds)} for v in verdicts]
        options.json.write_text(json.dumps(found, indent=1))
    return 1 if any(v.problems for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
