"""``python -m tests.sim``: run seeds, replay one, compare traces.

Exit status 0: nothing found. 1: something was; the last line is the command that replays it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable

from tests.sim.scenario import SCENARIOS, Outcome, run
from tests.sim.seeds import seeds_of, tree_hash

PROGRESS_EVERY_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    if options.log:
        logging.basicConfig(level=options.log.upper(), stream=sys.stderr)
        return _play(options)
    logging.disable(logging.CRITICAL)
    try:
        return _play(options)
    finally:
        logging.disable(logging.NOTSET)


def _play(options: argparse.Namespace) -> int:
    if options.seed is not None:
        return _replay(options.seed, options.scenario, trace=options.trace)
    if options.seeds:
        first, _, last = options.seeds.partition("-")
        seeds: Iterable[int] = range(int(first), int(last or first) + 1)
    else:
        seeds = seeds_of(tree_hash(), options.count)
    return _sweep(list(seeds), options.scenario, keep_going=options.keep_going)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate a broker under faults.")
    parser.add_argument("--seed", type=int, help="run this one seed and show its events if it fails")
    parser.add_argument("--seeds", metavar="A-B", help="run the seeds from A to B")
    parser.add_argument("--count", type=int, default=40, help="run so many seeds that derive from the source (40)")
    parser.add_argument("--scenario", choices=list(SCENARIOS), help="this scenario, instead of each seed's own")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--log", metavar="LEVEL", help="show the broker's log from this level on")
    return parser.parse_args(arguments)


def _replay(seed: int, scenario: str | None, *, trace: bool) -> int:
    outcome = run(seed, scenario, keep_trace=trace)
    for line in outcome.tail:
        print(line)
    _print(outcome)
    return 1 if outcome.failure else 0


def _sweep(seeds: list[int], scenario: str | None, *, keep_going: bool) -> int:
    began = said = time.monotonic()
    failed: list[Outcome] = []
    played: Counter[str] = Counter()
    acknowledged = 0
    virtual_s = 0.0
    for done, seed in enumerate(seeds, start=1):
        outcome = run(seed, scenario)
        played[outcome.scenario] += 1
        acknowledged += outcome.acknowledged
        virtual_s += outcome.virtual_s
        if outcome.failure:
            failed.append(outcome)
            _print(outcome)
            if not keep_going:
                break
        if time.monotonic() - said > PROGRESS_EVERY_S:
            said = time.monotonic()
            print(f"{done} of {len(seeds)} seeds", flush=True)
    scenarios = ", ".join(f"{name} {count}" for name, count in sorted(played.items()))
    print(
        f"{sum(played.values())} seeds ({scenarios}): {len(failed)} failed; {acknowledged} records acknowledged in "
        f"{virtual_s / 3600:.1f} virtual hours, {time.monotonic() - began:.0f} s"
    )
    for outcome in failed:
        print(f"replay: {outcome.replay}")
    return 1 if failed else 0


def _print(outcome: Outcome) -> None:
    verdict = outcome.failure or "ok"
    print(
        f"seed {outcome.seed} {outcome.scenario}: {verdict} ({outcome.acknowledged} records acknowledged, "
        f"{outcome.events} events, {outcome.virtual_s:.1f} virtual s, trace {outcome.digest})"
    )
    if outcome.failure:
        print(f"replay: {outcome.replay}")


if __name__ == "__main__":
    sys.exit(main())
