"""The table and the JSON of one run."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from benchmarks.goals import GOALS, verdict
from benchmarks.scenarios import Figures
from benchmarks.targets import KBROKER, REFERENCE, Target

PACKAGES = ("confluent-kafka", "crc32c", "uvloop")


@dataclass
class Result:
    """One run of one case with one target."""

    case: str
    target: str
    round_number: int
    figures: Figures = field(default_factory=dict)
    error: str | None = None
    foreign_cores: float = 0.0
    """Cores kept busy by neither the target nor the client: above a quarter, the figures are not to be trusted."""


Row = dict[str, list[float]]
"""By target: the figure of every counted round."""


def rows(results: Sequence[Result]) -> dict[tuple[str, str], Row]:
    """By case and figure, in the order of measuring; the warm-up is left out."""
    table: dict[tuple[str, str], Row] = {}
    for result in results:
        if result.round_number:
            for figure, value in result.figures.items():
                table.setdefault((result.case, figure), {}).setdefault(result.target, []).append(value)
    return table


def markdown(results: Sequence[Result], targets: Sequence[str]) -> str:
    """Medians [least-greatest], the ratio of kbroker to the reference, and what the goal says."""
    lines = [
        "| case | figure | " + " | ".join(targets) + " | ratio | goal |",
        "|---|---|" + "---|" * (len(targets) + 2),
    ]
    previous = ""
    for (case, figure), row in rows(results).items():
        cells = [_cell(row.get(target)) for target in targets]
        own, reference = _median(row.get(KBROKER)), _median(row.get(REFERENCE))
        is_ratio_itself = figure.endswith("ratio")
        ratio = f"{own / reference:.2f}" if own is not None and reference and not is_ratio_itself else ""
        goal = GOALS.get((case, figure))
        said = verdict(goal, own, reference) if goal is not None and own is not None else ""
        shown = case if case != previous else ""
        lines.append(f"| {shown} | {figure} | {' | '.join(cells)} | {ratio} | {said} |")
        previous = case
    return "\n".join(lines)


def remarks(results: Sequence[Result], targets: Sequence[Target]) -> list[str]:
    """What a reader of the table has to know: errors, wrong data, a machine that was not quiet."""
    said = [f"{each.target}: {each.case}: {each.error}" for each in results if each.error]
    said += [f"{target.name}: {note}" for target in targets for note in target.notes]
    foreign = sorted(each.foreign_cores for each in results)
    if foreign:
        said.append(f"Cores kept busy by others: median {statistics.median(foreign):.2f}, most {foreign[-1]:.2f}.")
    return said


def write_json(path: Path, results: Sequence[Result], targets: Sequence[Target], scale: float) -> None:
    summary = [
        {"case": case, "figure": figure}
        | {target: [statistics.median(values), min(values), max(values)] for target, values in row.items()}
        for (case, figure), row in rows(results).items()
    ]
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "scale": scale,
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {package: version(package) for package in PACKAGES},
        "summary": summary,
        "results": [asdict(result) for result in results],
        "remarks": remarks(results, targets),
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _median(values: list[float] | None) -> float | None:
    return statistics.median(values) if values else None


def _cell(values: list[float] | None) -> str:
    if not values:
        return "–"
    return f"{_number(statistics.median(values))} [{_number(min(values))}–{_number(max(values))}]"


def _number(value: float) -> str:
    """Three significant digits, thousands parted."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.3g}"
