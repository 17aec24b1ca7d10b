"""What ``kbroker dev`` presets: defaults for development and tests, each with its reason. Nothing else says so."""

from __future__ import annotations

from typing import NamedTuple


class Preset(NamedTuple):
    """A key, the value that ``kbroker dev`` gives it, and why. A file, the environment and flags are stronger."""

    key: str
    value: str
    reason: str


TEMPORARY = "a temporary folder"
PRESETS = (
    Preset(
        "log.dirs", TEMPORARY, "Nothing to clean up: the folder goes when the broker ends. `--data-dir` keeps the data."
    ),
    Preset(
        "listeners",
        "PLAINTEXT://localhost:9092",
        "Reachable from this machine only, over IPv4 and IPv6; a lone node needs no controller port.",
    ),
    Preset(
        "kbroker.fsync", "false", "A power failure may lose topics, a crash of the process does not; starts are faster."
    ),
    Preset(
        "group.initial.rebalance.delay.ms", "0", "A test's consumer gets its partitions at once instead of after 3 s."
    ),
    Preset(
        "offsets.topic.num.partitions", "5", "50 partitions are 50 logs to make and load, for nothing on one machine."
    ),
    Preset("transaction.state.log.num.partitions", "5", "As for offsets."),
    Preset("share.coordinator.state.topic.num.partitions", "5", "As for offsets."),
    Preset(
        "kbroker.internal.topics.clamp.replication",
        "true",
        "Kafka's default asks for three replicas of internal topics, and with one broker waits for ever.",
    ),
    Preset("transaction.state.log.min.isr", "1", "One replica can never be two in sync."),
    Preset("share.coordinator.state.topic.min.isr", "1", "One replica can never be two in sync."),
    Preset(
        "transaction.max.timeout.ms",
        "3600000",
        "Some frameworks (Flink) ask for an hour, and fail with Kafka's 15 minutes.",
    ),
    Preset(
        "kbroker.log.level", "WARNING", "A quiet terminal: only what needs attention, and that the broker is ready."
    ),
)


def preset_values() -> dict[str, str]:
    """The values that can be given as they stand (the temporary folder is made when it is needed)."""
    return {preset.key: preset.value for preset in PRESETS if preset.value != TEMPORARY}
