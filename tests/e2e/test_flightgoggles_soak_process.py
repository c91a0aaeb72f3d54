"""The embedded renderer's own process against a strict stand-in of the original client,
VIL_SOAK_FRAMES x 0.3 poses.

A box stands at a distance that tells the number of the pose, so the depth in the picture tells
whose picture it is.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from tests.support.embedded import renderer as library
from tests.support.flightgoggles_original import (
    DEPTH,
    RGB,
    Answer,
    Camera,
    OriginalClient,
    ntime_of,
    number_of,
)
from tests.support.programs import VIL_BRIDGE, Program

SIZE_PX: Final = (32, 24)
FRAMES: Final = max(int(os.environ.get("VIL_SOAK_FRAMES", "300")) // 10, 30)
LIMIT_S: Final = 180.0
NEAREST_M, STEP_M, STEPS = 2.0, 0.02, 400
EYE_M, BEHIND_M = 5.0, 1.5

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.gl,
    pytest.mark.timeout(900.0 + FRAMES),
]


def process(taken: tuple[int, int], fifo: bool) -> Program:
    ports = ("-input-port", taken[0], "-output-port", taken[1])
    return Program(
        *VIL_BRIDGE, "renderer", "--scene", "empty", *(["--fifo"] if fifo else []), *ports
    )


def distance_m(number: int) -> float:
    return NEAREST_M + STEP_M * (number % STEPS)


def ask(client: OriginalClient, number: int) -> bool:
    """Cameras that look north, one behind the other, and a box before them whose distance tells
    the number.
    """
    cameras = [
        Camera("Camera_Near", (0.0, EYE_M, 0.0), shader=DEPTH),
        Camera("Camera_Far", (0.0, EYE_M, -BEHIND_M), shader=DEPTH),
        Camera("Camera_Colour", (0.0, EYE_M, 0.0), shader=RGB),
    ]
    box = {
        "ID": "box",
        "prefabID": "box",
        "position": [0.0, EYE_M, distance_m(number) + 0.5],
        "rotation": [0.0, 0.0, 0.0, 1.0],
        "size": [8.0, 8.0, 1.0],
    }
    return client.send(ntime_of(number), cameras, [box])


def check_the_picture_is_of_its_pose(answer: Answer) -> int:
    number = number_of(answer)
    for name, behind_m in (("Camera_Near", 0.0), ("Camera_Far", BEHIND_M)):
        middle = answer.pictures[name][10:14, 14:18] / 65535 * 100
        assert np.abs(middle - (distance_m(number) + behind_m)).max() < STEP_M / 4, (
            f"{name} of pose {number}"
        )
    colour = answer.pictures["Camera_Colour"]
    assert colour.shape == (24, 32, 3) and colour.std() > 3.0
    assert isinstance(answer.metadata["hasCameraCollision"], bool)
    return number


def first_answer(client: OriginalClient, numbers: Iterator[int]) -> None:
    """Ask until the program has loaded, then until nothing is pending."""
    deadline = time.monotonic() + LIMIT_S
    first = next(numbers)
    ask(client, first)
    while (answer := client.receive(0.1)) is None:
        assert time.monotonic() < deadline
        ask(client, next(numbers))
    fence = next(numbers)
    assert ask(client, fence)
    while (number := check_the_picture_is_of_its_pose(answer)) != fence:
        assert number >= first, "of a client that went"
        answer = client.receive(LIMIT_S)
        assert answer is not None, "deadlock"


def soak(client: OriginalClient, numbers: Iterator[int], fifo: bool) -> Counter[str]:
    """Poses one by one and in bursts; every picture is looked at."""
    luck = random.Random(7)
    seen: Counter[str] = Counter()
    for _ in range(FRAMES):
        burst = [n for n in itertools.islice(numbers, luck.choice((1, 1, 1, 3))) if ask(client, n)]
        answers: list[int] = []
        while answers[-1:] != burst[-1:]:
            answer = client.receive(LIMIT_S)
            assert answer is not None, f"deadlock: {burst} {answers}"
            answers.append(check_the_picture_is_of_its_pose(answer))
        assert answers == burst if fifo else set(answers) <= set(burst)
        seen["answered"] += len(answers)
        seen["superseded"] += len(burst) - len(answers)
    return seen


def test_the_real_renderer_draws_the_pose_that_it_names() -> None:
    """A client, a second one after it, and the renderer killed and started again, then in strict
    order.
    """
    library("empty")  # skips where there is no OpenGL
    numbers = itertools.count()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(OriginalClient(3, SIZE_PX))
        taken = first.taken
        running = stack.enter_context(process(taken, fifo=False))
        first_answer(first, numbers)
        seen = soak(first, numbers, fifo=False)
        ask(first, next(numbers))
        first.close()
        second = stack.enter_context(OriginalClient(3, SIZE_PX, taken))
        first_answer(second, numbers)
        seen += soak(second, numbers, fifo=False)
        running.kill()
        stack.enter_context(process(taken, fifo=True))
        first_answer(second, numbers)
        seen += soak(second, numbers, fifo=True)
    print(f"\nreal renderer: {dict(seen)}")
    assert seen["answered"] >= 3 * FRAMES
