"""Random numbers by counter.

Published vectors, pinned bits, one set of bits with and without numba.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from vil_bridge.core.compile import has_numba
from vil_bridge.core.random import noise
from vil_bridge.core.random.noise import NoiseStream, normal_quantile
from vil_bridge.core.random.philox import philox4x32

_ONES = 0xFFFFFFFF

_KNOWN = {
    "zeros": ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "ones": ((_ONES,) * 4, (_ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    "pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}
"""Known answers that Random123 publishes for Philox4x32-10: counter, key, words."""


@pytest.mark.parametrize("name", _KNOWN)
def test_philox_gives_the_published_words(name: str) -> None:
    counter, key, words = _KNOWN[name]
    assert (
        tuple(int(w) for w in philox4x32(*map(np.uint64, counter), *map(np.uint64, key))) == words
    )


@pytest.mark.seeded
@pytest.mark.parametrize("engine", ["compiled", "numpy"])
def test_a_million_normal_numbers_have_their_pinned_bits(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "numpy":
        monkeypatch.setattr(noise, "has_numba", lambda: False)
    drawn = NoiseStream(0, 0).normals(0, 1000, 1000)
    digest = hashlib.sha256(drawn.astype("<f8").tobytes()).hexdigest()
    assert digest == "167ff581f3ad982be2f9dfad5709da5d68cdb7f3b8d5bd9b2ed4ba5e9c3eb9fb"


def test_the_quantile_agrees_with_an_independent_one_from_the_middle_to_both_ends() -> None:
    tails = 10.0 ** -np.linspace(0.31, 15.6, 20_000)
    u = np.concatenate(
        [np.linspace(0.001, 0.999, 20_001), tails, [0.5**53, 0.075, 0.925, np.exp(-25.0)]]
    )
    np.testing.assert_allclose(normal_quantile(u), ndtri(u), rtol=1e-14, atol=1e-300)
    np.testing.assert_array_equal(
        normal_quantile(1.0 - tails[::7]), -normal_quantile(1.0 - (1.0 - tails[::7]))
    )


@pytest.mark.parametrize("k", [1, 2, 7, 12])
def test_numpy_and_compiled_code_give_the_same_bits(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = NoiseStream(12, 3)
    who = [7, 0, 2**32 - 1, 5]
    compiled = stream.normals(2**33 + 5, who, k), stream.uniforms(2**64 - 1, who, k)
    monkeypatch.setattr(noise, "has_numba", lambda: False)
    plain = stream.normals(2**33 + 5, who, k), stream.uniforms(2**64 - 1, who, k)
    assert has_numba()
    np.testing.assert_array_equal(compiled[0], plain[0])
    np.testing.assert_array_equal(compiled[1], plain[1])


def test_numbers_belong_to_the_vehicle_and_the_step_not_to_the_batch() -> None:
    stream = NoiseStream(5, 1)
    all_of_them = stream.normals(9, 20, 6)
    np.testing.assert_array_equal(stream.normals(9, [13, 4], 6), all_of_them[[13, 4]])
    np.testing.assert_array_equal(stream.normals(9, 20, 3), all_of_them[:, :3])
    for other in (NoiseStream(6, 1), NoiseStream(5, 2)):
        assert not np.any(other.normals(9, 20, 6) == all_of_them)
    assert not np.any(stream.normals(10, 20, 6) == all_of_them)
    assert not np.any(stream.normals(9 + 2**32, 20, 6) == all_of_them)


def test_numbers_are_normal_uniform_and_uncorrelated() -> None:
    stream = NoiseStream(1, 0)
    steps = np.stack([stream.normals(step, 100, 10) for step in range(200)])
    assert stats.kstest(steps.ravel(), "norm").pvalue > 0.01
    assert (
        stats.kstest(
            np.stack([stream.uniforms(s, 100, 10) for s in range(200)]).ravel(), "uniform"
        ).pvalue
        > 0.01
    )
    for axis in range(3):
        pairs = np.moveaxis(steps, axis, 0)
        assert abs(np.mean(pairs[1:] * pairs[:-1])) < 4.0 / np.sqrt(steps.size)


def test_wrong_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        NoiseStream(-1, 0)
    stream = NoiseStream(0, 0)
    with pytest.raises(ValueError, match="a step is"):
        stream.normals(-1, 1, 1)
    with pytest.raises(ValueError, match="vehicles are"):
        stream.normals(0, [2**32], 1)


def test_numbers_that_are_drawn_once_are_the_same_without_machine_code() -> None:
    stream = NoiseStream(5, 2)
    for k in (1, 7):
        assert (stream.normals(3, 4, k, compiled=False) == stream.normals(3, 4, k)).all()
        assert (stream.uniforms(3, 4, k, compiled=False) == stream.uniforms(3, 4, k)).all()
