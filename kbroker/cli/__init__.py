"""The command line: a running broker, and a client of any Kafka.

This module is the table of commands; each lives in a module of its own that is imported when it is called, because a
broker's start must not pay for the other commands.
"""

from __future__ import annotations

from importlib import import_module

import click

from kbroker import __version__

COMMANDS = {
    "cluster": ("kbroker.cli.cluster", "cluster", "Show the cluster: brokers, health, quorum, features, directories."),
    "completion": ("kbroker.cli.completion", "completion", "Print a script that completes commands in a shell."),
    "config": ("kbroker.cli.config", "config", "Show and change configurations."),
    "consume": ("kbroker.cli.consume", "consume", "Print the records of topics."),
    "dev": ("kbroker.cli.start", "dev", "Run a broker for development and tests."),
    "group": ("kbroker.cli.group", "group", "List, describe, move and delete consumer groups."),
    "produce": ("kbroker.cli.produce", "produce", "Write records to a topic."),
    "log": ("kbroker.cli.log", "log", "Look into the files of logs."),
    "start": ("kbroker.cli.start", "start", "Run a broker."),
    "status": ("kbroker.cli.running", "status", "Say whether a broker runs on a data directory."),
    "stop": ("kbroker.cli.running", "stop", "End the broker of a data directory."),
    "storage": ("kbroker.cli.storage", "storage", "Format and inspect data directories."),
    "topic": ("kbroker.cli.topic", "topic", "List, describe, create, alter and delete topics."),
    "txn": ("kbroker.cli.txn", "txn", "List, describe and abort transactions, find those that hang."),
}


class LazyGroup(click.Group):
    """Commands by name; their modules are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbroker")
def cli() -> None:
    """A broker that speaks Kafka's wire protocol."""
