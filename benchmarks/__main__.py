"""``python -m benchmarks``: every case in turn with every target (A B, B A, ...), then a table and, if asked, JSON."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

from benchmarks.report import Result, markdown, remarks, write_json
from benchmarks.scenarios import SCENARIOS, Case, Effort
from benchmarks.targets import KbrokerLauncher, Launcher, ReferenceLauncher, Target, running
from tools.reference_kafka import missing_toolchain

QUICK = 0.1
WARM_UP = 0.5
"""The least scale of a warm-up: a JVM that is still compiling is no peer."""


def measure(case: Case, subject: Target | Launcher, effort: Effort) -> Result:
    """One run of one case. An error is a result like any other."""
    result = Result(case.name, subject.name, effort.round_number)
    server = subject if isinstance(subject, Target) else None
    busy, own, started = _machine_busy_s(), _own_s(), time.perf_counter()
    cpu = server.cpu_s() if server else 0.0
    try:
        result.figures = case.run(subject, effort)
    except Exception as error:  # noqa: BLE001 (one broker's failure must not end the run)
        result.error = f"{type(error).__name__}: {error}"
    wall = time.perf_counter() - started
    if server is not None and wall > 0.5:  # the machine's clock counts in steps of 10 ms
        known = _own_s() - own + server.cpu_s() - cpu
        result.foreign_cores = round(max(0.0, (_machine_busy_s() - busy - known) / wall), 3)
    shown = result.error or ", ".join(f"{name} {value:.4g}" for name, value in result.figures.items())
    print(f"{case.name}: {subject.name} #{effort.round_number}: {shown}", file=sys.stderr, flush=True)
    return result


def run_case(
    case: Case, targets: Sequence[Target], launchers: Sequence[Launcher], options: argparse.Namespace
) -> list[Result]:
    subjects: Sequence[Target | Launcher] = launchers if case.is_fresh else targets
    rounds = options.rounds or (min(case.rounds, 2) if options.scale < 1 else case.rounds)
    results: list[Result] = []
    failed: set[str] = set()
    for round_number in range(0 if case.warm_up else 1, rounds + 1):
        order = subjects if round_number % 2 else list(reversed(subjects))
        for subject in order:
            if subject.name not in failed:
                scale = options.scale if round_number else max(options.scale, WARM_UP)
                result = measure(case, subject, Effort(scale, round_number))
                results.append(result)
                if result.error:
                    failed.add(subject.name)
    return results


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    names = options.scenario or SCENARIOS
    cases = [case for name in names for case in importlib.import_module(f"benchmarks.scenarios.{name}").CASES]
    return [case for case in cases if options.only in case.name]


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"the short form: --scale {QUICK}, at most two rounds")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies counts and times")
    parser.add_argument("--rounds", type=int, help="instead of each case's own number")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="may be repeated; default: all")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this text in it")
    parser.add_argument("--target", action="append", default=[], type=Target.parse, metavar="NAME=HOST:PORT[:PID]")
    parser.add_argument("--no-reference", action="store_true", help="do not start Apache Kafka")
    parser.add_argument("--no-kbroker", action="store_true", help="measure only the others")
    parser.add_argument("--json", type=Path, help="write every figure here")
    options = parser.parse_args(given)
    if options.quick:
        options.scale = QUICK
    return options


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    # However the run is ended, the brokers that it started end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    launchers: list[Launcher] = [] if options.no_kbroker else [KbrokerLauncher()]
    lacking = missing_toolchain()
    if lacking and not options.no_reference:
        print(f"Apache Kafka is left out, this machine lacks: {lacking}", file=sys.stderr)
    elif not options.no_reference:
        os.environ.setdefault("KAFKA_HEAP_OPTS", "-Xms1G -Xmx1G")
        launchers.append(ReferenceLauncher())
    cases = chosen_cases(options)
    results: list[Result] = []
    targets: list[Target] = []
    interrupted = False
    try:
        with ExitStack() as stack:
            if not all(case.is_fresh for case in cases):
                targets += [stack.enter_context(running(launcher)) for launcher in launchers]
            targets += options.target
            for case in [each for each in cases if not each.is_fresh]:
                results += run_case(case, targets, launchers, options)
        for case in [each for each in cases if each.is_fresh]:
            results += run_case(case, targets, launchers, options)
    except KeyboardInterrupt:
        interrupted = True
    names = list(dict.fromkeys([*(each.name for each in launchers), *(each.name for each in targets)]))
    print(markdown(results, names))
    said = remarks(results, targets)
    if options.scale < 1:
        said.append("A short form: a JVM is still compiling in it, so that its ratios flatter kbroker.")
    if interrupted:
        said.append("Interrupted: not the whole.")
    print("\n".join(["", *said]))
    if options.json:
        write_json(options.json, results, targets, options.scale)
    return 1 if interrupted or any(result.error for result in results) else 0


def _machine_busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_s() -> float:
    """CPU of this process and of those it started that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    sys.exit(main())
