"""Replicas are spread over brokers and racks."""

from collections import Counter
from random import Random

import pytest

from kbroker.kraft.controller.placement import InvalidReplicationFactorError, UsableBroker, place

TOO_FEW = (
    "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered or some brokers have "
    "all their log directories cordoned."
)


def brokers(*ids: int, racks: int = 0, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(each, f"rack{each % racks}" if racks else None, each in fenced) for each in ids]


@pytest.mark.parametrize("seed", range(20))
def test_leaders_and_replicas_are_spread_evenly(seed: int) -> None:
    assignments = place(brokers(1, 2, 3), 9, 2, Random(seed))
    assert Counter(each[0] for each in assignments) == {1: 3, 2: 3, 3: 3}
    assert all(len(dict.fromkeys(each)) == 2 for each in assignments)


@pytest.mark.parametrize("seed", range(20))
def test_the_replicas_of_a_partition_are_in_different_racks(seed: int) -> None:
    for assignment in place(brokers(*range(9), racks=3), 12, 3, Random(seed)):
        assert sorted(each % 3 for each in assignment) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_a_fenced_broker_never_leads_and_comes_last(seed: int) -> None:
    for assignment in place(brokers(1, 2, 3, fenced=(2,)), 6, 3, Random(seed)):
        assert assignment[0] != 2
        assert assignment[-1] == 2


def test_the_start_is_random() -> None:
    starts = Counter(place(brokers(1, 2, 3), 1, 1, Random(seed))[0][0] for seed in range(60))
    assert sorted(starts) == [1, 2, 3]


def test_one_broker_takes_every_partition() -> None:
    assert place(brokers(7), 4, 1, Random(0)) == [[7]] * 4


@pytest.mark.parametrize(
    ("usable", "replicas", "reason"),
    [
        (brokers(1), 0, "Invalid replication factor 0: the replication factor must be positive."),
        (brokers(1, fenced=(1,)), 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        (
            brokers(1),
            3,
            TOO_FEW,
        ),
    ],
)
def test_what_cannot_be_placed_is_refused_in_kafkas_words(
    usable: list[UsableBroker], replicas: int, reason: str
) -> None:
    with pytest.raises(InvalidReplicationFactorError) as caught:
        place(usable, 1, replicas, Random(0))
    assert str(caught.value) == reason
