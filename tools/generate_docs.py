"""Writes what is a table of what the source knows.

``docs/configuration.md``, ``docs/dev.md``, the README's APIs, the client settings in ``docs/command.md``.

    python -m tools.generate_docs [--check]

A test holds them against the source.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kbroker.cli.client_settings import SETTINGS
from kbroker.config.dev import PRESETS
from kbroker.config.registry import BROKER_KEYS, TOPIC_KEYS, Effect, Key
from kbroker.handlers import SERVED
from kbroker.protocol.apis import API_BY_KEY, ApiKey

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

CONFIGURATION = """\
# Configuration

kbroker reads Apache Kafka's keys, with Kafka's types, defaults and ranges, so that Kafka's documentation holds; its own
keys begin with `kbroker.`. Every key does one of three things here:

- it **acts**;
- it **has no meaning**: it tunes machinery that kbroker does not have (thread pools, purgatories). It is accepted, and
  one line of the log names such keys;
- it is **not served**: it asks for something kbroker does not have (TLS, plug-in classes, tiered storage). Any value
  but its default is refused.

Values come from, the strongest first: a flag of the command, a `KAFKA_*` environment variable, the file
(`server.properties`), the default. A variable's name is the key in capitals with `_` for `.`, `__` for `_` and `___`
for `-`: `KAFKA_LOG_RETENTION_MS`. An unknown key is a warning that names the nearest known one; a value that cannot be
ends the start with status 2 and one line that says where it was set and what is allowed.

This page is made from the registry (`python -m tools.generate_docs`).
"""


def configuration_page() -> str:
    acting = [key for key in BROKER_KEYS.all() if key.effect is Effect.ACTS and not key.internal]
    own = [key for key in acting if key.name.startswith("kbroker.")]
    kafka = [key for key in acting if not key.name.startswith("kbroker.")]
    parts = [
        CONFIGURATION,
        "## kbroker's own keys\n",
        table(own),
        "## Topic keys\n",
        table([key for key in TOPIC_KEYS.all() if not key.internal]),
        "## Broker keys that act\n",
        table(kafka),
        "## Broker keys without a meaning here\n",
        names(Effect.NO_MEANING),
        "## Broker keys that are not served\n",
        names(Effect.NOT_SERVED),
    ]
    return "\n".join(parts)


def table(keys: Sequence[Key]) -> str:
    lines = ["| key | type | default | valid | what it does |", "|---|---|---|---|---|"]
    for key in sorted(keys, key=lambda each: each.name):
        default = "" if key.default is None else f"`{key.default}`" if key.default else "empty"
        valid = f"`{key.valid}`" if key.valid else ""
        doc = (
            key.doc
            if key.effect is Effect.ACTS
            else f"({key.effect.value[0].upper()}{key.effect.value[1:]}.) {key.doc}"
        )
        cells = (f"`{key.name}`", key.type.name.lower(), default, valid, doc)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def names(effect: Effect) -> str:
    found = sorted(key.name for key in BROKER_KEYS.all() if key.effect is effect and not key.internal)
    return ", ".join(f"`{name}`" for name in found) + "\n"


DEV = """\
# kbroker dev

`kbroker dev` is `kbroker start` with presets for development and tests. Everything that is set in a file, in a
`KAFKA_*` variable or by a flag is stronger than a preset. This page is made from `kbroker/config/dev.py` (`python -m
tools.generate_docs`).

| key | preset | why |
|---|---|---|
"""


def dev_page() -> str:
    rows = (f"| `{key}` | {value if ' ' in value else f'`{value}`'} | {reason} |\n" for key, value, reason in PRESETS)
    return DEV + "".join(rows)


def readme_page() -> str:
    """The README with its table of APIs made anew."""
    return renewed(ROOT / "README.md", "served", served_table())


def command_page() -> str:
    """The page of the command with its table of client settings made anew."""
    return renewed(DOCS / "command.md", "settings", settings_table())


def renewed(page: Path, name: str, table: str) -> str:
    """A page with another table between the marks of a name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    return before + begin + table + end + after


def served_table() -> str:
    lines = ["| API | key | versions |", "|---|---|---|"]
    for key in sorted(SERVED):
        row = SERVED[key]
        lines.append(f"| {API_BY_KEY[ApiKey(key)].name} | {int(key)} | {row.oldest} to {row.latest} |")
    return "\n".join(lines) + "\n"


def settings_table() -> str:
    lines = ["| setting | default | used by | meaning |", "|---|---|---|---|"]
    for name in sorted(SETTINGS):
        row = SETTINGS[name]
        default = "" if row.default is None else f"`{row.default}`"
        lines.append(f"| `{name}` | {default} | {f'`{row.command}`' if row.command else 'all'} | {row.doc} |")
    return "\n".join(lines) + "\n"


PAGES = {
    DOCS / "command.md": command_page,
    DOCS / "configuration.md": configuration_page,
    DOCS / "dev.md": dev_page,
    ROOT / "README.md": readme_page,
}


def main(arguments: Sequence[str]) -> None:
    DOCS.mkdir(exist_ok=True)
    for page, render in PAGES.items():
        if "--check" in arguments:
            if not page.exists() or page.read_text() != render():
                sys.exit(f"{page.name} is out of date: run python -m tools.generate_docs")
        else:
            page.write_text(render())


if __name__ == "__main__":
    main(sys.argv[1:])
