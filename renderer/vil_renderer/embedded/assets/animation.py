"""Animations at an instant: the places of an asset's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_normalize, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Animation, Asset, Channel


def sample(asset: Asset, animation: Animation, t_s: float, loop: bool = True) -> FloatArray:
    """Return matrices (n, 4, 4) of the asset's nodes relative to their parents, for
    :meth:`Asset.asset_from_node`.

    Nodes that the animation leaves alone are at rest. Before the first key of a channel and after
    its last it keeps their values.

    Args:
        asset: the model.
        animation: one of its clips.
        t_s: time since the clip began.
        loop: begin again at its end, else hold it.
    """
    t_s = _within(animation, t_s, loop)
    p = np.array([node.p for node in asset.nodes]).reshape(-1, 3)
    q_xyzw = np.array([node.q_xyzw for node in asset.nodes]).reshape(-1, 4)
    scale = np.array([node.scale for node in asset.nodes]).reshape(-1, 3)
    targets = {"translation": p, "rotation": q_xyzw, "scale": scale}
    groups: dict[tuple[str, str], list[Channel]] = {}
    for channel in animation.channels:
        if channel.path == "weights":
            continue
        groups.setdefault((channel.path, channel.interpolation), []).append(channel)
    brackets: dict[int, tuple[int, float, float]] = {}
    for (path, interpolation), channels in groups.items():
        nodes = [channel.node for channel in channels]
        targets[path][nodes] = _blend(channels, interpolation, path == "rotation", t_s, brackets)
    return _matrices(p, q_xyzw, scale)


def morph_weights(
    asset: Asset, animation: Animation, t_s: float, loop: bool = True
) -> dict[int, FloatArray]:
    """Return the weights of morph targets beyond those at rest, (t,), of the nodes whose weights a
    clip moves.

    Args:
        asset: the model.
        animation: one of its clips.
        t_s: time since the clip began.
        loop: begin again at its end, else hold it.
    """
    t_s = _within(animation, t_s, loop)
    return {
        channel.node: _blend([channel], channel.interpolation, False, t_s, {})[0]
        - asset.nodes[channel.node].weights
        for channel in animation.channels
        if channel.path == "weights" and len(asset.nodes[channel.node].weights)
    }


def most_morphed(asset: Asset, node: int) -> FloatArray:
    """Return how far the weights of a node's morph targets can be from rest in any clip, (t,).

    An upper bound.
    """
    rest = asset.nodes[node].weights
    most = np.zeros(len(rest))
    for animation in asset.animations.values():
        for channel in animation.channels:
            if channel.path != "weights" or channel.node != node or not len(rest):
                continue
            values = channel.values
            if channel.interpolation == "cubic":
                # A Hermite cubic leaves its keys by at most 4 / 27 of each tangent.
                spans_s = np.diff(channel.times_s).max(initial=0.0)
                over = (
                    4.0
                    / 27.0
                    * spans_s
                    * (np.abs(values[:, 0]).max(axis=0) + np.abs(values[:, 2]).max(axis=0))
                )
                values = np.concatenate((values[:, 1] + over, values[:, 1] - over))
            most = np.maximum(most, np.abs(values - rest).max(axis=0))
    return most


def _within(animation: Animation, t_s: float, loop: bool) -> float:
    """Return the time in a clip."""
    duration_s = animation.duration_s
    if loop and duration_s > 0.0:
        return t_s % duration_s
    return min(max(t_s, 0.0), duration_s)


def _blend(
    channels: Sequence[Channel],
    interpolation: str,
    turns: bool,
    t_s: float,
    brackets: dict[int, tuple[int, float, float]],
) -> FloatArray:
    """Return values (k, c) of channels that move the same property in the same way."""
    before: list[npt.NDArray[Any]] = []
    after: list[npt.NDArray[Any]] = []
    fractions: list[float] = []
    spans: list[float] = []
    for channel in channels:
        # Channels of one clip usually share their times.
        found = brackets.get(id(channel.times_s))
        if found is None:
            found = brackets[id(channel.times_s)] = _bracket(channel.times_s, t_s)
        key, fraction, span_s = found
        before.append(channel.values[key])
        after.append(channel.values[min(key + 1, len(channel.values) - 1)])
        fractions.append(fraction)
        spans.append(span_s)
    a = np.array(before)
    b = np.array(after)
    f = np.array(fractions)[:, None]
    if interpolation == "step":
        # Reached exactly, the last key counts; a bracket ends with it.
        return np.where(f < 1.0, a, b)
    if interpolation == "cubic":
        value = _hermite(a, b, f, np.array(spans)[:, None])
        return q_normalize(value) if turns else value
    if turns:
        return q_mul(a, q_exp(f * q_log(q_mul(q_conj(a), b))))
    return np.asarray(a + f * (b - a))


def _bracket(times_s: FloatArray, t_s: float) -> tuple[int, float, float]:
    """Return the key at or before an instant, the fraction of the way to the next, and the time
    between them.
    """
    if len(times_s) == 1:
        return 0, 0.0, 0.0
    key = int(np.searchsorted(times_s, t_s, side="right")) - 1
    key = min(max(key, 0), len(times_s) - 2)
    start_s = float(times_s[key])
    span_s = float(times_s[key + 1]) - start_s
    fraction = (t_s - start_s) / span_s if span_s > 0.0 else 1.0
    return key, min(max(fraction, 0.0), 1.0), span_s


def _hermite(a: FloatArray, b: FloatArray, f: FloatArray, span_s: FloatArray) -> FloatArray:
    """Return the cubic of glTF 2.0 (appendix C) between keys (k, 3, c).

    in-tangent, value, out-tangent.
    """
    f2 = f * f
    f3 = f * f * f
    leave = span_s * a[:, 2]
    arrive = span_s * b[:, 0]
    from_a = (2.0 * f3 - 3.0 * f2 + 1.0) * a[:, 1] + (f3 - 2.0 * f2 + f) * leave
    to_b = (3.0 * f2 - 2.0 * f3) * b[:, 1] + (f3 - f2) * arrive
    return np.asarray(from_a + to_b)


def _matrices(p: FloatArray, q_xyzw: FloatArray, scale: FloatArray) -> FloatArray:
    """Return translation x rotation x scale for many nodes."""
    made = np.zeros((len(p), 4, 4))
    made[:, :3, :3] = q_to_matrix(q_xyzw) * scale[:, None, :]
    made[:, :3, 3] = p
    made[:, 3, 3] = 1.0
    return made
