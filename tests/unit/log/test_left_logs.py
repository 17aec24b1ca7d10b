"""What a start makes of the directories that the last broker left, when there is more than one log of a partition."""

from __future__ import annotations

import pytest

from kbroker.log.errors import LogOfflineError
from kbroker.log.manager import LogManager
from kbroker.types import UNASSIGNED_DIRECTORY
from tests.unit.log.logs import read_all
from tests.unit.log.test_manager import CONFIG, ID, ORDERS, OTHER_ID, Machine, filled

FUTURE = f"orders-0.{'a' * 32}-future"
RECORDS = [(0, b"0"), (1, b"1"), (2, b"2")]


class TwoDisks(Machine):
    """A log of three records in ``/one``; ``copy`` puts another one beside it."""

    def __init__(self) -> None:
        super().__init__(("/one", "/two"))
        manager = self.manager()
        filled(manager, ORDERS)
        self.ids = [each.id for each in manager.directories]
        self.kill()

    def copy(self, path: str, *, count: int = 3) -> None:
        """As much of the log as ``count`` records, in another directory."""
        self.disk.make_dirs(path)
        for name in self.disk.list_dir("/one/orders-0"):
            data = self.disk.read(f"/one/orders-0/{name}")
            if name.endswith(".log"):
                data = data[: len(data) // 3 * count]
            self.disk.write_atomically(f"{path}/{name}", data)

    def names(self, path: str) -> list[str]:
        return [name.partition(".")[0] + name[-7:] for name in self.disk.list_dir(path) if name.startswith("orders")]

    def start(self, assigned: int | None) -> LogManager:
        """The next start, with the log assigned to the first or second directory, or to none."""
        manager = self.manager()
        directory_id = UNASSIGNED_DIRECTORY if assigned is None else self.ids[assigned]
        manager.get_or_create(ORDERS, ID, CONFIG, directory_id=directory_id)
        return manager


@pytest.mark.parametrize("assigned", [0, 1])
def test_of_two_logs_the_one_in_the_assigned_directory_is_taken_and_the_other_removed(assigned: int) -> None:
    machine = TwoDisks()
    machine.copy("/two/orders-0", count=2)
    manager = machine.start(assigned)
    assert manager.logs[ORDERS].directory == f"{machine.directories[assigned]}/orders-0"
    assert read_all(manager.logs[ORDERS]) == RECORDS[: 3 - assigned]
    assert machine.names(machine.directories[1 - assigned]) == ["orders-0-delete"]


def test_of_two_logs_without_an_assignment_none_is_taken_and_both_stay() -> None:
    machine = TwoDisks()
    machine.copy("/two/orders-0")
    with pytest.raises(LogOfflineError, match="orders-0 is in both /one/orders-0 and /two/orders-0: remove one"):
        machine.start(None)
    assert [machine.disk.list_dir(path).count("orders-0") for path in machine.directories] == [1, 1]


@pytest.mark.parametrize("assigned", [0, 1, None])
def test_a_future_beside_a_log_is_gone_on_with_wherever_the_log_is_assigned(assigned: int | None) -> None:
    machine = TwoDisks()
    machine.copy(f"/two/{FUTURE}", count=1)
    manager = machine.start(assigned)
    assert read_all(manager.logs[ORDERS]) == RECORDS
    assert read_all(manager.futures[ORDERS]) == RECORDS[:1]
    target = manager.target_of(ORDERS)
    assert target is not None
    assert target.path == "/two"


@pytest.mark.parametrize("assigned", [0, 1])
def test_a_future_without_a_log_is_the_log_in_the_assigned_directory_and_kept_aside_elsewhere(assigned: int) -> None:
    machine = TwoDisks()
    machine.copy(f"/two/{FUTURE}")
    machine.disk.remove_tree("/one/orders-0")
    manager = machine.start(assigned)
    assert not manager.futures
    assert read_all(manager.logs[ORDERS]) == (RECORDS if assigned == 1 else [])
    assert [name for name in machine.disk.list_dir("/two") if name.startswith("orders")] == (
        ["orders-0"] if assigned == 1 else [name for name in machine.disk.list_dir("/two") if name.endswith("-stray")]
    )


def test_another_topics_future_is_set_aside() -> None:
    machine = TwoDisks()
    machine.copy(f"/two/{FUTURE}")
    manager = machine.manager()
    manager.get_or_create(ORDERS, OTHER_ID, CONFIG, directory_id=machine.ids[0])
    assert not manager.futures
    assert [machine.disk.list_dir(path)[-1][-6:] for path in machine.directories].count("-stray") == 2
