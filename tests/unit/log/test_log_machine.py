"""A log against a list: whatever is done to it, and however it is interrupted, it holds what the list says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kbroker.protocol.errors import ApiError, ErrorCode
from tests.sim.process import Killed
from tests.unit.log.logs import Bench, read_all

VALUES = st.lists(st.binary(min_size=0, max_size=120), min_size=1, max_size=4)


class LogMachine(RuleBasedStateMachine):
    """``written`` is the model: the values by offset from ``start``. ``certain`` is the end of what was synced."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed: int) -> None:
        self.bench = Bench(seed, internal_segment_bytes=1500, index_interval_bytes=150)
        self.written: list[bytes] = []
        self.ends = [0]
        """Where batches end: what a leader's answer makes a follower truncate to."""
        self.start = 0
        self.certain = 0
        self.epoch = 0
        self.sequence = 0
        self.time = 1000

    @rule(values=VALUES)
    def append(self, values: list[bytes]) -> None:
        self.time += 10
        info = self.bench.append(
            *values, epoch=self.epoch, timestamp=self.time, producer_id=5, sequence=self.sequence, now_ms=self.time
        )
        assert info.first_offset == len(self.written)
        self._take(values)

    def _take(self, values: list[bytes]) -> None:
        self.written += values
        self.ends.append(len(self.written))
        self.sequence += len(values)

    def _forget(self, end: int) -> None:
        """The log was cut at ``end``, and the producer with it."""
        del self.written[end:]
        self.ends = [known for known in self.ends if known <= end]
        self.certain = min(self.certain, end)
        states = self.bench.log.active_producers()
        self.sequence = states[5].last_sequence + 1 if 5 in states else 0

    @rule(values=VALUES)
    def append_out_of_sequence(self, values: list[bytes]) -> None:
        if self.bench.log.active_producers():
            with pytest.raises(ApiError) as raised:
                self.bench.append(*values, producer_id=5, sequence=self.sequence + 1)
            assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def become_leader(self) -> None:
        self.epoch += 1
        self.bench.log.begin_epoch(self.epoch)

    @rule()
    def roll(self) -> None:
        if self.bench.log.segments:
            self.bench.log.roll(self.time)

    @rule()
    def sync(self) -> None:
        self.bench.sync()
        self.certain = len(self.written)

    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        end = data.draw(st.sampled_from([end for end in self.ends if end >= self.start] or [len(self.written)]))
        self.bench.log.truncate_to(end, self.time)
        self.bench.recovery_point = min(self.bench.recovery_point, end)
        self._forget(end)
        self.sync()  # before that, a power loss may bring back what was cut

    @rule(data=st.data())
    def move_start(self, data: Any) -> None:
        self.start = data.draw(st.integers(self.start, len(self.written)))
        self.bench.log.update_log_start_offset(self.start)
        self.bench.log_start_offset = self.start

    @rule()
    def stop_and_start(self) -> None:
        self.bench.reopen()

    @rule()
    def kill(self) -> None:
        self.bench.kill()
        self.bench.open(clean=False)

    @rule(values=VALUES, operations=st.integers(1, 12))
    def kill_in_an_append(self, values: list[bytes], operations: int) -> None:
        self.bench.disk.kill_in = operations
        self.bench.disk.on_kill_due = self.bench.process.kill
        self.time += 10
        try:
            self.append(values)
        except Killed:
            self.bench.kill()
            self.bench.open(clean=False)
            self._accept(values)
        self.bench.disk.kill_in = None

    def _accept(self, values: list[bytes]) -> None:
        """The interrupted batch is there whole or not at all."""
        if self.bench.log.log_end_offset > len(self.written):
            self._take(values)

    @precondition(lambda self: self.start == 0)
    @rule()
    def lose_power(self) -> None:
        self.bench.lose_power()
        end = self.bench.open(clean=False).log_end_offset
        assert self.certain <= end <= len(self.written)
        self._forget(end)

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "bench"):
            return
        log = self.bench.log
        assert log.log_end_offset == len(self.written)
        assert log.log_start_offset == self.start
        assert read_all(log) == list(enumerate(self.written))[self.start :]

    @rule(data=st.data())
    def every_offset_is_found(self, data: Any) -> None:
        if self.start < len(self.written):
            offset = data.draw(st.integers(self.start, len(self.written) - 1))
            found = self.bench.log.read(offset, 1, at_least_one=True)
            assert found != b""
            stamped = self.bench.log.offset_for_timestamp(0)
            assert stamped is not None
            assert stamped.offset == self.start

    @invariant()
    def epochs_rise_with_offsets(self) -> None:
        if hasattr(self, "bench"):
            entries = self.bench.log.epochs.entries
            assert entries == sorted(entries)
            assert [start for _, start in entries] == sorted({start for _, start in entries})


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True, phases=[Phase.generate, Phase.shrink]
)
