"""``python -m tests.robustness --frames 100000 --seed 1``: the long form of the attack, on a broker of its own."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.robustness.attack import attack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data").start()
        try:
            attack(broker.bootstrap, broker.pid, options.frames, options.seed)
            status = broker.stop()
            broker.start()
        finally:
            if broker.process.poll() is None:
                broker.stop()
    print(f"{options.frames} mutated frames, seed {options.seed}: nobody else noticed, exit status {status}")


if __name__ == "__main__":
    main()
