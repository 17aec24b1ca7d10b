"""A short form of the attack; ``python -m tests.robustness`` is the long one."""

from __future__ import annotations

from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.robustness.attack import attack

FRAMES = 3000


def test_mutated_frames_harm_nobody_else_and_the_data_is_opened_again_after(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    try:
        attack(broker.bootstrap, broker.pid, FRAMES, seed=20_260_000)
        broker.kill()
        broker.start()
        assert broker.stop() == 0
    finally:
        if broker.process.poll() is None:
            broker.stop()
    assert "Traceback" not in broker.log_text()
