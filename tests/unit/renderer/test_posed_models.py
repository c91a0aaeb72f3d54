"""Models of one instant as arrays: the same as single ones, wherever they are looked up."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.support.geometry_scenes import box_primitive, posed
from vil_bridge.core.geometry import Transform
from vil_renderer.embedded.assets.model import Asset, Node
from vil_renderer.embedded.posed_models import PosedGroup, PosedModels
from vil_renderer.embedded.scene import Posed

BOX, BALL = (Asset.of(name, [box_primitive((0.1, 0.2, 0.3))]) for name in ("box", "ball"))
PAIR = Asset("pair", (Node("a", primitives=(box_primitive((1, 1, 1)),)), Node("b", 0, np.ones(3))))


def model(name: str, asset: Asset, x_m: float, layer: str = "actors") -> Posed:
    return replace(
        posed(name, asset, Transform.of((x_m, 0.0, 1.0))), layer=layer, instance=int(x_m)
    )


SINGLE = [
    model("a", BOX, 1.0),
    model("b", BALL, 2.0),
    model("c", BOX, 3.0, "doors"),
    model("d", PAIR, 4.0),
]


def assert_same(ours: Posed, theirs: Posed) -> None:
    for field in fields(Posed):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        assert a is b or np.array_equal(a, b), field.name


def test_single_models_come_back_in_the_order_of_their_assets() -> None:
    models = PosedModels.of(SINGLE)
    assert [group.names for group in models.groups] == [("a", "c"), ("b",), ("d",)]
    assert len(models) == 4
    for ours, theirs in zip(models, (SINGLE[0], SINGLE[2], SINGLE[1], SINGLE[3]), strict=True):
        assert_same(ours, theirs)
    assert models[-1].name == "d"
    assert models.rows == {"a": 0, "c": 1, "b": 2, "d": 3}
    np.testing.assert_array_equal(models.p_m[:, 0], [1, 3, 2, 4])
    assert models.half_size_m.shape == (4, 3)
    assert len(PosedModels()) == len(PosedModels().p_m) == len(PosedModels().shown(("a",), "")) == 0


@pytest.mark.parametrize(
    ("hide", "layer", "shown"),
    [
        ((), "", "acbd"),
        (("c", "nobody"), "", "abd"),
        ((), "doors", "c"),
        (("c",), "doors", ""),
        (("a",), "actors", "bd"),
    ],
)
def test_a_view_shows_its_layer_without_what_it_hides(
    hide: tuple[str, ...], layer: str, shown: str
) -> None:
    models = PosedModels.of(SINGLE)
    mask = models.shown(hide, layer)
    assert "".join(p.name for p, there in zip(models, mask, strict=True) if there) == shown


def test_some_of_a_group_are_those_models() -> None:
    (group,) = PosedModels.of([SINGLE[0], SINGLE[2]]).groups
    assert group.only(np.ones(2, bool)) is group
    (last,) = group.only(np.array([False, True])).single()
    assert_same(last, SINGLE[2])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_models_are_found_again_by_name_and_number_of_nodes(order: tuple[int, ...]) -> None:
    before = PosedModels.of(SINGLE[i] for i in order)
    now = PosedModels.of([model("a", BOX, 5.0), model("c", BOX, 6.0)]).groups[0]
    matrices, known = before.matrices_of(now)
    assert known.all()
    np.testing.assert_array_equal(matrices[:, 0, 0, 3], [1.0, 3.0])
    other = PosedGroup.joined([PosedGroup.of(model(name, BOX, 5.0)) for name in ("d", "new", "b")])
    matrices, known = before.matrices_of(other)
    assert known.tolist() == [False, False, True], "another number of nodes, a new name"
    assert matrices[2, 0, 0, 3] == 2.0
