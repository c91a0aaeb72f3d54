"""Frame numbers: losses, late datagrams and restarts, which need proof."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vil_adapters.sessions.frame_order import FrameOrder, FrameVerdict

MS = 1_000_000
LETTERS = {
    "N": FrameVerdict.NEW,
    "D": FrameVerdict.DUPLICATE,
    "R": FrameVerdict.REORDERED,
    "O": FrameVerdict.OUT_OF_SEQUENCE,
    "!": FrameVerdict.RESTARTED,
}


def judged(order: FrameOrder, frames: Sequence[tuple[int, int | None]], begin_ms: int = 0) -> str:
    """Verdicts of (number, capture time in ms) that arrive every 10 ms."""
    letters = {verdict: letter for letter, verdict in LETTERS.items()}
    found = ""
    for i, (number, t_ms) in enumerate(frames):
        t_capture_ns = None if t_ms is None else t_ms * MS
        found += letters[order.judge(number, (begin_ms + 10 * i) * MS, t_capture_ns)]
        assert order.repeated == (number if found[-1] == "D" else None)
    return found


def steady(*numbers: int, offset_ms: int = 10_000) -> Sequence[tuple[int, int | None]]:
    """Frames of one sequence at 100 Hz with their true capture times."""
    return [(number, offset_ms + 10 * number) for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "verdicts", "lost"),
    [
        ([5, 6, 7], "NNN", 0),
        ([5, 5, 6], "NDN", 0),
        ([5, 9, 10], "NNN", 3),
        ([5, 8, 6, 7, 9], "NNRRN", 2),
        ([-3, -2], "NN", 0),
        ([5, 1005, 1006], "NNN", 999),
    ],
)
def test_losses_repeats_and_overtaken_frames(numbers: list[int], verdicts: str, lost: int) -> None:
    for stamped in (True, False):
        order = FrameOrder()
        assert (
            judged(order, steady(*numbers) if stamped else [(number, None) for number in numbers])
            == verdicts
        )
        assert order.lost == lost


@pytest.mark.parametrize(
    "copies", [[20], [20] * 5, [20, 21], [20, 21, 22, 23], [200, 199, 20, 21, 150]]
)
def test_late_copies_never_prove_a_restart(copies: list[int]) -> None:
    order = FrameOrder()
    assert judged(order, steady(*range(10, 301))) == "N" * 291
    found = judged(order, steady(*copies, 301, 302), 3000)
    assert found == "O" * len(copies) + "NN"
    assert order.lost == 0


@pytest.mark.parametrize("first", [0, 1, 295, 5_000_000])
def test_a_second_frame_of_a_new_sequence_proves_a_restart(first: int) -> None:
    """The server's clock goes on, as it does when only the program restarts."""
    order = FrameOrder()
    judged(order, steady(*range(10, 301)))
    restarted = [(first + i, 20_000 + 10 * i) for i in range(4)]
    assert judged(order, restarted, 3000)[1:] == "!NN"


def test_a_restart_is_proved_by_a_server_that_sends_every_twentieth_frame() -> None:
    order = FrameOrder()
    assert judged(order, [(number, None) for number in range(9_000, 9_200, 20)]) == "N" * 10
    assert judged(order, [(number, None) for number in range(0, 100, 20)], 100) == "O!NNN"


def test_a_frame_of_the_old_sequence_between_refutes_the_restart() -> None:
    order = FrameOrder()
    judged(order, steady(100, 101))
    mixed = [
        *steady(102),
        (0, 90_000),
        *steady(103),
        (1, 90_010),
        *steady(104),
        (2, 90_020),
        (3, 90_030),
    ]
    assert judged(order, mixed, 20) == "NONONO!"


def test_late_frames_of_the_old_sequence_do_not_follow_a_restart() -> None:
    order = FrameOrder()
    judged(order, steady(*range(10, 301)))
    assert (
        judged(order, [(0, 20_000), (1, 20_010), *steady(299, 300), (2, 20_020), (3, 20_030)], 3000)
        == "O!OONN"
    )


def test_what_may_be_late_is_proved_by_the_silence_of_the_old_sequence() -> None:
    """A loop of a recording streams the numbers and the stamps of before."""
    order = FrameOrder()
    judged(order, steady(*range(10, 301)))
    loop = steady(*range(10, 80))
    found = judged(order, loop, 2910)
    assert found == "O" * 49 + "!" + "N" * 20, "0.5 s after the last frame of the old pass"


def test_a_step_back_in_a_paused_playback_is_accepted_after_a_while() -> None:
    order = FrameOrder()
    judged(order, steady(*range(10, 301)))
    assert judged(order, steady(*[100] * 60), 2910) == "O" * 49 + "!" + "D" * 10


def test_without_stamps_numbers_below_the_first_cannot_be_late() -> None:
    order = FrameOrder()
    judged(order, [(number, None) for number in range(100, 110)])
    assert judged(order, [(number, None) for number in (1, 2, 3)], 100) == "O!N"
    order.restart()
    assert judged(order, [(77, None)], 140) == "N"
