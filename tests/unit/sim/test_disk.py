"""The simulated disk: a killed process loses nothing, a power loss loses only what was not synced."""

from __future__ import annotations

import errno
from collections import Counter
from random import Random

import pytest

from tests.sim.disk import Fault, Mount, SimDisk
from tests.sim.process import Process
from tests.sim.trace import Trace

SEEDS = range(60)


def make(seed: int = 0, *, strict_names: bool = False) -> tuple[SimDisk, Mount]:
    disk = SimDisk(Random(seed), Trace(lambda: 0.0), strict_names=strict_names)
    mount = disk.mount(Process("one"))
    mount.make_dirs("/data/orders-0")
    mount.sync_dir("/")
    mount.sync_dir("/data")
    return disk, mount


def again(disk: SimDisk) -> Mount:
    return disk.mount(Process("next"))


def test_a_killed_process_loses_nothing_it_wrote() -> None:
    disk, mount = make()
    process = Process("victim")
    doomed = disk.mount(process)
    file = doomed.open("/data/a", create=True)
    file.pwrite(b"written, not synced", 0)
    process.kill()
    assert mount.read("/data/a") == b"written, not synced"
    with pytest.raises(OSError, match="dead process"):
        file.pwrite(b"x", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_loss_keeps_what_was_synced(seed: int) -> None:
    disk, mount = make(seed)
    file = mount.open("/data/a", create=True)
    file.pwrite(b"synced", 0)
    file.sync()
    file.pwrite(b" and not synced", 6)
    disk.lose_power()
    assert again(disk).read("/data/a")[:6] == b"synced"


def test_a_power_loss_keeps_some_lose_some_and_tears_some_of_the_rest() -> None:
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        disk, mount = make(seed)
        file = mount.open("/data/a", create=True)
        file.sync()
        for number in range(4):
            file.pwrite(bytes([65 + number]) * 1000, 1000 * number)
        disk.lose_power()
        left = again(disk).read("/data/a")
        whole = b"".join(bytes([65 + number]) * 1000 for number in range(4))
        if left == whole:
            outcomes["all"] += 1
        elif not left:
            outcomes["none"] += 1
        elif whole.startswith(left):
            outcomes["prefix" if len(left) % 1000 == 0 else "torn"] += 1
        else:
            assert len(left) == 4000
            assert all(byte in (0, *b"ABCD") for byte in left)
            outcomes["holes"] += 1
    assert all(outcomes[kind] >= 2 for kind in ("all", "none", "prefix", "torn", "holes")), outcomes


def test_a_rename_that_was_not_synced_may_be_lost_but_never_half_done() -> None:
    seen: Counter[bytes] = Counter()
    for seed in SEEDS:
        disk, mount = make(seed)
        mount.write_atomically("/data/checkpoint", b"old")
        mount.write_atomically("/data/checkpoint", b"new", sync=False)
        disk.lose_power()
        seen[again(disk).read("/data/checkpoint")] += 1
    assert seen[b"old"] > 5
    assert seen[b"new"] > 2


@pytest.mark.parametrize("strict_names", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_synced_atomic_write_survives_a_power_loss(seed: int, strict_names: bool) -> None:
    disk, mount = make(seed, strict_names=strict_names)
    mount.write_atomically("/data/checkpoint", b"old")
    mount.write_atomically("/data/checkpoint", b"new")
    disk.lose_power()
    assert again(disk).read("/data/checkpoint") == b"new"


@pytest.mark.parametrize(("strict_names", "may_vanish"), [(False, False), (True, True)])
def test_the_name_of_a_synced_file_is_durable_where_names_are_journalled(strict_names: bool, may_vanish: bool) -> None:
    present = []
    for seed in SEEDS:
        disk, mount = make(seed, strict_names=strict_names)
        mount.open("/data/orders-0/0.log", create=True).sync()
        disk.lose_power()
        present.append(again(disk).exists("/data/orders-0/0.log"))
    assert all(present) is not may_vanish
    assert any(present)


def test_files_in_a_renamed_directory_stay_open_and_know_their_new_path() -> None:
    _, mount = make()
    file = mount.open("/data/orders-0/0.log", create=True)
    mount.rename("/data/orders-0", "/data/orders-0.x-delete")
    file.pwrite(b"x", 0)
    assert file.path == "/data/orders-0.x-delete/0.log"
    assert mount.read(file.path) == b"x"
    mount.remove_tree("/data/orders-0.x-delete")
    assert file.pread(1, 0) == b"x"
    assert mount.list_dir("/data") == []


def test_a_lock_is_let_go_when_its_process_dies() -> None:
    disk, mount = make()
    process = Process("holder")
    assert disk.mount(process).lock("/data/.lock") is not None
    assert mount.lock("/data/.lock") is None
    process.kill()
    assert mount.lock("/data/.lock") is not None


def test_a_full_disk_takes_a_part_and_says_so() -> None:
    disk, mount = make()
    disk.capacity = 10
    file = mount.open("/data/a", create=True)
    with pytest.raises(OSError, match="No space left"):
        file.pwrite(b"x" * 25, 0)
    assert file.size() == 10
    file.pwrite(b"y" * 10, 0)
    disk.capacity = None
    file.pwrite(b"x" * 25, 0)


def test_the_nth_operation_fails_as_planned() -> None:
    disk, mount = make()
    file = mount.open("/data/a", create=True)
    disk.faults.append(Fault("pwrite", nth=1, code=errno.EIO))
    file.pwrite(b"1", 0)
    with pytest.raises(OSError, match="Input/output error"):
        file.pwrite(b"2", 0)
    file.pwrite(b"3", 0)
    assert file.pread(1, 0) == b"3"


def test_a_removal_that_was_not_synced_may_come_back_with_what_was_on_the_platter() -> None:
    seen: Counter[bytes | None] = Counter()
    for seed in SEEDS:
        disk, mount = make(seed)
        file = mount.open("/data/a", create=True)
        file.pwrite(b"synced", 0)
        file.sync()
        mount.remove("/data/a")
        disk.lose_power()
        mount = again(disk)
        seen[mount.read("/data/a") if mount.exists("/data/a") else None] += 1
    assert set(seen) == {b"synced", None}
