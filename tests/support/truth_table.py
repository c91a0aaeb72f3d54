"""The table of docs/concepts/reliability.md: all that vehicle and people see of a fault.

``python -m tests.support.truth_table`` writes it into the page; ``tests/e2e/test_truth_table.py``
carries out each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.support.common import ROOT

PAGE: Final = ROOT / "docs" / "concepts" / "reliability.md"
BEGIN: Final = "<!-- truth table -->\n"
END: Final = "<!-- end of the truth table -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One fault and what it looks like.

    Attributes:
        sees: what the vehicle sees.
        alive: of the reader.
        readyz: HTTP status; 0 = no answer.
        header: part of a reason not to be ready, of an overload, or a mode; empty = "ready" and
            nothing else.
        log: component, part of the text, level; empty = no event.
        metric: name and value; empty = the bridge is not there to be asked.
        degraded: the bridge is ready and worse than asked.
    """

    fault: str
    sees: str
    alive: bool
    readyz: int
    header: str = ""
    log: tuple[str, str, str] | tuple[()] = ()
    metric: tuple[str, float] | tuple[()] = ()
    degraded: bool = False

    def cells(self) -> str:
        """Return the row in Markdown."""
        ready = {0: "no connection", 200: "ready", 503: "not ready"}[self.readyz]
        if self.degraded:
            ready = "degraded"
        header = f"{ready}: `{self.header}`" if self.header else ready
        log = "`{}: {}` ({})".format(*self.log) if self.log else "nothing"
        metric = f"`{self.metric[0]}` {self.metric[1]:g}" if self.metric else "none: scrape fails"
        code = str(self.readyz) if self.readyz else "no answer"
        return (
            f"| {self.fault} | {self.sees} | {self.alive} | {code} | {header} | {log} | {metric} |"
        )


_NO_MORE: Final = "no more pictures"
ROWS: Final = {
    "mocap stopped": Row(
        "mocap stopped",
        _NO_MORE,
        False,
        503,
        "actor drone is lost",
        ("drone", "lost", "warning"),
        ('vil_body_state{body="drone",state="lost"}', 1),
    ),
    "mocap frozen": Row(
        "mocap frozen: one pose for ever, fresh stamps",
        _NO_MORE,
        False,
        503,
        "actor drone is frozen: its pose has repeated to the bit",
        ("drone", "frozen", "warning"),
        ('vil_body_state{body="drone",state="frozen"}', 1),
    ),
    "body lost": Row(
        "body lost: mocap does not see it",
        f"{_NO_MORE} (black ones with `on_loss: blank`)",
        False,
        503,
        "source motive does not see it",
        ("drone", "lost", "warning"),
        ('vil_camera_up{camera="front"}', 0),
    ),
    "renderer stopped": Row(
        "renderer stopped",
        _NO_MORE,
        False,
        503,
        "renderer hall is waiting",
        ("front", "pictures stopped: renderer hall is waiting", "warning"),
        ('vil_renderer_up{renderer="hall"}', 0),
    ),
    "renderer frozen": Row(
        "renderer frozen: one picture for ever",
        _NO_MORE,
        False,
        503,
        "renderer hall repeats its picture",
        ("front", "pictures stopped: renderer hall repeats its picture", "warning"),
        ('vil_camera_up{camera="front"}', 0),
    ),
    "renderer repeats two": Row(
        "renderer frozen: two pictures in turn",
        _NO_MORE,
        False,
        503,
        "renderer hall repeats 2 pictures",
        ("front", "pictures stopped: renderer hall repeats 2 pictures", "warning"),
        ('vil_camera_up{camera="front"}', 0),
    ),
    "renderer repeats three": Row(
        "renderer frozen: three pictures in turn",
        _NO_MORE,
        False,
        503,
        "renderer hall repeats 3 pictures",
        ("front", "pictures stopped: renderer hall repeats 3 pictures", "warning"),
        ('vil_camera_up{camera="front"}', 0),
    ),
    "renderer slow": Row(
        "renderer slow: 20 pictures a second of 30",
        "fewer pictures, the newest ones",
        True,
        200,
        "camera front: ",
        ("front", "degraded: ", "warning"),
        ("vil_degraded", 1),
        degraded=True,
    ),
    "renderer very slow": Row(
        "renderer very slow: 4 pictures a second of 30",
        "hardly any pictures",
        True,
        503,
        "camera front: too few pictures",
        ("front", "too few pictures", "warning"),
        ('vil_camera_up{camera="front"}', 0),
    ),
    "frames lost": Row(
        "mocap loses 20 % of its frames on the way",
        "pictures, predicted over gaps",
        True,
        200,
        "source motive loses",
        ("motive", "degraded: loses", "warning"),
        ("vil_degraded", 1),
        degraded=True,
    ),
    "renderer garbage": Row(
        "renderer sends garbage between its pictures",
        "all good pictures",
        True,
        200,
        "",
        (),
        ('vil_camera_up{camera="front"}', 1),
    ),
    "forged peer": Row(
        "forged peer: datagrams in another's name ask the NatNet output for frames",
        "all pictures; the named address gets one announcement",
        True,
        200,
        "",
        (),
        ('vil_camera_up{camera="front"}', 1),
    ),
    "too old": Row(
        "all pictures too old for `max_age_ms`",
        _NO_MORE,
        False,
        503,
        "camera front: no pictures: all are too old when they are drawn",
        ("front", "pictures stopped: all are too old", "warning"),
        ('vil_camera_up{camera="front"}', 0),
    ),
    "link cut": Row(
        "link to the vehicle cut",
        f"{_NO_MORE}; `problem`: no answer from the bridge",
        False,
        200,
        "",
        (),
        ('vil_camera_up{camera="front"}', 1),
    ),
    "bridge stopped": Row(
        "bridge stopped", f"{_NO_MORE}; `problem`: no answer from the bridge", False, 0
    ),
    "no camera": Row(
        "no camera configured",
        "registration is refused: no camera of that name",
        False,
        503,
        "no camera is configured",
        (),
        ("vil_ready", 0),
    ),
    "replay": Row(
        "replay of a recording", "the recorded flight", True, 200, "REPLAY", (), ("vil_ready", 1)
    ),
    "faults": Row(
        "faults injected: 5 % loss",
        "pictures, predicted over gaps",
        True,
        200,
        "FAULTS",
        ("fault_injection", "faults are injected", "warning"),
        ("vil_ready", 1),
    ),
}


def table() -> str:
    """Return the table in Markdown."""
    head = (
        "| Fault | The vehicle sees | `alive` | `/readyz` | Header | Log | Metric |\n"
        + "| --- " * 7
        + "|\n"
    )
    return head + "".join(row.cells() + "\n" for row in ROWS.values())


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + table() + END + after)
