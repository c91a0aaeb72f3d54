"""Datagrams to an address that may be forged stay within three times what came in its name,
until it answers.
"""

from __future__ import annotations

from vil_bridge.outputs.natnet.reflection import ReplyBudget

CLIENT = ("10.0.0.1", 5000)


def test_an_address_gets_three_times_what_came_from_it_until_it_answers() -> None:
    budget = ReplyBudget()
    assert not budget.take(CLIENT, 1), "nothing came from it"
    budget.received(CLIENT, 100, answers=False)
    assert budget.take(CLIENT, 200)
    assert not budget.take(CLIENT, 101)
    assert budget.take(CLIENT, 100)
    budget.received(CLIENT, 1, answers=True)
    assert not budget.take(CLIENT, 4), "it was asked nothing"
    budget.asked(CLIENT)
    budget.received(CLIENT, 1, answers=False)
    assert not budget.take(CLIENT, 100)
    budget.received(CLIENT, 1, answers=True)
    assert budget.take(CLIENT, 1_000_000)
    budget.forget(CLIENT)
    assert not budget.take(CLIENT, 1)


def test_many_forged_addresses_do_not_make_a_proven_one_forgotten() -> None:
    budget = ReplyBudget()
    budget.received(CLIENT, 4, answers=False)
    budget.asked(CLIENT)
    budget.received(CLIENT, 4, answers=True)
    for number in range(10_000):
        budget.received(("10.0.0.2", number), 4, answers=False)
    assert budget.take(CLIENT, 1000)
    assert not budget.take(("10.0.0.2", 0), 1), "the oldest is forgotten"
