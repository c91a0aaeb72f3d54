"""Fault injection: one set of switches for every emulator and for ``--faults`` on real sources.

A fault text is a list of ``name=value`` separated by commas, for example
``loss=5%,delay=20ms±5,occlude=drone:1s@10s/30s``:

* on single messages, each with its probability: ``loss``, ``duplicate``, ``reorder``, ``garbage``;
* on their way: ``delay=20ms±5`` (normal), ``jitter=2ms`` (exponential, added to it);
* on subjects, in episodes: ``occlude=NAME:EPISODE``, ``flip=NAME:EPISODE`` (the mirrored solution
  of a symmetric set of markers), ``swap=NAME+NAME:EPISODE`` (labels exchanged);
* on the peer, in episodes: ``halfopen=EPISODE`` (silent, sockets open), ``burst=EPISODE`` (held
  back, then all at once), ``restart=EPISODE`` (gone, then back with new ids; emulators only);
* on its clock: ``drift=50ppm``, ``step=100ms@30s``.

An EPISODE is ``DURATION@START/PERIOD``: it begins START after the start (5 s by default) and comes
again every PERIOD (once by default). ``seed=N`` makes the chances repeatable.
"""

from __future__ import annotations

import difflib
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_mul
from vil_bridge.core.types import BoolArray, FloatArray, Markers, SkeletonFrame

DEFAULT_START_NS: Final = 5 * NS_PER_S
REORDER_NS: Final = 25_000_000
"""Delay of a reordered message after its successors."""

_HALF_TURN: Final[FloatArray] = np.array([0.0, 0.0, 1.0, 0.0])
_UNIT_NS: Final = {"us": 1_000, "ms": 1_000_000, "s": NS_PER_S, "min": 60 * NS_PER_S}
_TIME: Final = r"(-?\d{1,9}(?:\.\d{1,9})?)(us|ms|s|min)"


@dataclass(frozen=True, slots=True)
class Episode:
    """A span of faults, ``start_ns`` after the start and again every ``period_ns`` (0 = once)."""

    duration_ns: int
    start_ns: int = DEFAULT_START_NS
    period_ns: int = 0

    def index(self, elapsed_ns: int) -> int | None:
        """Return the number of the repetition that is going on, None between them."""
        since = elapsed_ns - self.start_ns
        if since < 0:
            return None
        turn, since = divmod(since, self.period_ns) if self.period_ns else (0, since)
        return turn if since < self.duration_ns else None

    def end_ns(self, elapsed_ns: int) -> int | None:
        """Return the end of the repetition that is going on, counted from the start.

        None between them.
        """
        turn = self.index(elapsed_ns)
        return None if turn is None else self.start_ns + turn * self.period_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class SubjectEpisode:
    """Faults of one subject, or of two that exchange their labels."""

    subjects: tuple[str, ...]
    episode: Episode


@dataclass(frozen=True, slots=True)
class Faults:
    """Injected faults (module text); probabilities per message, times in nanoseconds."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    garbage: float = 0.0
    delay_ns: int = 0
    delay_sd_ns: int = 0
    jitter_ns: int = 0
    drift_ppm: float = 0.0
    steps: tuple[tuple[int, int], ...] = ()
    halfopen: tuple[Episode, ...] = ()
    burst: tuple[Episode, ...] = ()
    restart: tuple[Episode, ...] = ()
    occlude: tuple[SubjectEpisode, ...] = ()
    flip: tuple[SubjectEpisode, ...] = ()
    swap: tuple[SubjectEpisode, ...] = ()
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Faults:
        """Read a fault text.

        Raises:
            ConfigError: a line per item that says nothing, with what was expected.
        """
        values: dict[str, Any] = {}
        problems: list[str] = []
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = item.partition("=")
            reader = _READERS.get(name.strip())
            try:
                if reader is None:
                    raise ValueError(_unknown(name.strip()))
                for key, found in reader(value.strip()).items():
                    values[key] = values.get(key, ()) + found if isinstance(found, tuple) else found
            except ValueError as exc:
                problems.append(f"fault {item!r}: {exc}")
        if problems:
            raise ConfigError(problems)
        return cls(**values)

    def clock_error_ns(self, elapsed_ns: int) -> int:
        """Return the error of the peer's clock by drift and steps, that long after the start."""
        stepped = sum(size for size, at in self.steps if elapsed_ns >= at)
        return stepped + round(elapsed_ns * self.drift_ppm * 1e-6)

    def down(self, elapsed_ns: int) -> bool:
        """Return True while the peer restarts."""
        return any(e.index(elapsed_ns) is not None for e in self.restart)

    def silent(self, elapsed_ns: int) -> bool:
        """Return True while the peer keeps its sockets open and sends nothing."""
        return any(e.index(elapsed_ns) is not None for e in self.halfopen)


# --- messages -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Delivery:
    """Delivery of each message of one peer: lost, late, duplicated or broken.

    Attributes:
        counters: ``offered``, ``lost``, ``duplicated``, ``reordered``, ``garbage``, ``silenced``,
            ``held``.
    """

    faults: Faults
    counters: Counter[str] = field(default_factory=Counter)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.faults.seed)  # noqa: S311 - noise, not secrets

    def delays_ns(self, elapsed_ns: int) -> tuple[int, ...]:
        """Return the travel time of each copy of a message sent now.

        None when it is lost, two when duplicated.
        """
        faults = self.faults
        chance = self._random.random
        self.counters["offered"] += 1
        if faults.silent(elapsed_ns):
            self.counters["silenced"] += 1
            return ()
        if chance() < faults.loss:
            self.counters["lost"] += 1
            return ()
        held_ns = self._held_ns(elapsed_ns)
        # A queue keeps its order.
        delay = held_ns + faults.delay_ns if held_ns else self._transit_ns()
        if chance() < faults.reorder:
            self.counters["reordered"] += 1
            delay += REORDER_NS
        if chance() < faults.duplicate:
            self.counters["duplicated"] += 1
            return delay, delay + self._transit_ns()
        return (delay,)

    def garbage(self, elapsed_ns: int, message: bytes) -> bytes | None:
        """Return a broken relative of the message (cut, flipped or random) to be sent too.

        Mostly None.
        """
        if self.faults.silent(elapsed_ns) or self._random.random() >= self.faults.garbage:
            return None
        self.counters["garbage"] += 1
        kind = self._random.randrange(3)
        if kind == 0 and message:
            return message[: self._random.randrange(len(message))]
        if kind == 1 and message:
            at = self._random.randrange(len(message))
            return (
                message[:at]
                + bytes([message[at] ^ (1 << self._random.randrange(8))])
                + message[at + 1 :]
            )
        return self._random.randbytes(self._random.randrange(1, 256))

    def _transit_ns(self) -> int:
        faults = self.faults
        noise = self._random.gauss(0.0, faults.delay_sd_ns) if faults.delay_sd_ns else 0.0
        jitter = self._random.expovariate(1.0 / faults.jitter_ns) if faults.jitter_ns else 0.0
        return max(0, faults.delay_ns + round(noise + jitter))

    def _held_ns(self, elapsed_ns: int) -> int:
        ends = [end for e in self.faults.burst if (end := e.end_ns(elapsed_ns)) is not None]
        self.counters["held"] += bool(ends)
        return max(ends, default=elapsed_ns) - elapsed_ns


# --- subjects -----------------------------------------------------------------------------------


@dataclass(slots=True)
class SubjectFaults:
    """Occlusions, flips and swaps of subjects.

    Attributes:
        counters: ``occluded``, ``flipped``, ``swapped``: frames in which a subject was.
    """

    faults: Faults
    counters: Counter[str] = field(default_factory=Counter)

    def bodies(
        self,
        elapsed_ns: int,
        subjects: tuple[str, ...],
        p_m: FloatArray,
        q_xyzw: FloatArray,
        tracked: BoolArray,
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return poses (n, 3), (n, 4) and flags (n,) as the faulty system would report them."""
        faults = self.faults
        if not (faults.occlude or faults.flip or faults.swap):
            return p_m, q_xyzw, tracked
        p_m = p_m.copy()
        q_xyzw = q_xyzw.copy()
        tracked = tracked.copy()
        row = {name: i for i, name in enumerate(subjects)}
        for names in self._struck(faults.swap, elapsed_ns, "swapped", row):
            pair = [row[n] for n in names]
            turned = [row[n] for n in reversed(names)]
            p_m[pair], q_xyzw[pair], tracked[pair] = p_m[turned], q_xyzw[turned], tracked[turned]
        for names in self._struck(faults.flip, elapsed_ns, "flipped", row):
            q_xyzw[row[names[0]]] = q_mul(q_xyzw[row[names[0]]], _HALF_TURN)
        for names in self._struck(faults.occlude, elapsed_ns, "occluded", row):
            tracked[row[names[0]]] = False
        return p_m, q_xyzw, tracked

    def skeleton(self, elapsed_ns: int, frame: SkeletonFrame) -> SkeletonFrame:
        """Return the same for a skeleton: all its bones are occluded together."""
        known = {frame.model.name: 0}
        for _ in self._struck(self.faults.occlude, elapsed_ns, "occluded", known):
            return SkeletonFrame(frame.model, frame.p_m, frame.q_xyzw, np.zeros_like(frame.tracked))
        return frame

    def markers(self, elapsed_ns: int, markers: Markers | None) -> Markers | None:
        """Return the same for single markers: those of an occluded subject are occluded with it."""
        hidden = tuple(
            f"{t.subjects[0]}/"
            for t in self.faults.occlude
            if t.episode.index(elapsed_ns) is not None
        )
        if markers is None or not hidden:
            return markers
        seen = np.array([not label.startswith(hidden) for label in markers.labels], dtype=np.bool_)
        return Markers(markers.labels, markers.p_m, markers.tracked & seen)

    def _struck(
        self,
        troubles: tuple[SubjectEpisode, ...],
        elapsed_ns: int,
        reason: str,
        known: dict[str, int],
    ) -> list[tuple[str, ...]]:
        struck = [
            t.subjects
            for t in troubles
            if t.episode.index(elapsed_ns) is not None and known.keys() >= set(t.subjects)
        ]
        self.counters[reason] += len(struck)
        return struck


# --- the text -----------------------------------------------------------------------------------


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _READERS, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"no such fault{hint}; known: {', '.join(_READERS)}"


def _time_ns(text: str) -> int:
    found = re.fullmatch(_TIME, text)
    if found is None:
        raise ValueError(f"{text!r} is not a time; write 20ms or 1.5s")
    return round(float(found[1]) * _UNIT_NS[found[2]])


def _span_ns(text: str) -> int:
    span = _time_ns(text)
    if span < 0:
        raise ValueError(f"{text!r} must not be negative")
    return span


def _episode(text: str) -> Episode:
    rest, slash, period = text.partition("/")
    duration, at, start = rest.partition("@")
    episode = Episode(
        _span_ns(duration),
        _span_ns(start) if at else DEFAULT_START_NS,
        _span_ns(period) if slash else 0,
    )
    if slash and episode.period_ns <= episode.duration_ns:
        raise ValueError("its period must be longer than its duration")
    return episode


def _chance(name: str) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
        if found is None or float(found[1]) > 100.0:
            raise ValueError("write a share such as 5%")
        return {name: float(found[1]) / 100.0}

    return read


def _delay(text: str) -> dict[str, Any]:
    base, _, spread = text.replace("+-", "±").partition("±")
    delay = _span_ns(base)
    unit = re.sub(r"[-\d.]", "", base)
    return {
        "delay_ns": delay,
        "delay_sd_ns": _span_ns(spread if spread[-1:].isalpha() else spread + unit)
        if spread
        else 0,
    }


def _drift(text: str) -> dict[str, Any]:
    found = re.fullmatch(r"(-?\d{1,6}(?:\.\d{1,9})?)ppm", text)
    if found is None:
        raise ValueError("write parts per million, such as 50ppm")
    return {"drift_ppm": float(found[1])}


def _step(text: str) -> dict[str, Any]:
    size, at, start = text.partition("@")
    return {"steps": ((_time_ns(size), _span_ns(start) if at else DEFAULT_START_NS),)}


def _episodes(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda text: {name: (_episode(text),)}


def _subject_episodes(name: str, count: int) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        subjects, colon, episode = text.rpartition(":")
        names = tuple(subjects.split("+")) if count > 1 else (subjects,)
        if not colon or len(names) != count or not all(names):
            raise ValueError(f"write {'+'.join(['NAME'] * count)}:1s")
        return {name: (SubjectEpisode(names, _episode(episode)),)}

    return read


def _seed(text: str) -> dict[str, Any]:
    if not text.isdecimal():
        raise ValueError("write a whole number")
    return {"seed": int(text)}


_READERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    **{name: _chance(name) for name in ("loss", "duplicate", "reorder", "garbage")},
    "delay": _delay,
    "jitter": lambda text: {"jitter_ns": _span_ns(text)},
    "drift": _drift,
    "step": _step,
    **{name: _episodes(name) for name in ("halfopen", "burst", "restart")},
    "occlude": _subject_episodes("occlude", 1),
    "flip": _subject_episodes("flip", 1),
    "swap": _subject_episodes("swap", 2),
    "seed": _seed,
}
