"""The command line: a running broker, and a client of any Kafka.

This module is the table of commands; each lives in a module of its own that is imported when it is called, because a
broker's start must not pay for the other commands.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

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


class CommandGroup(click.Group):
    """Commands; a name that is none is answered with the one that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            nearest = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not nearest or "Did you mean" in error.message:  # Later versions of click may know better.
                raise
            raise click.UsageError(f"{error.message} Did you mean '{nearest[0]}'?", ctx) from None


def _finish_output() -> None:
    """Write what is left; what cannot be written must not fail once more at the exit."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()


def discard_output() -> None:
    """Nobody takes it any more: what is in buffers and what is still printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LazyGroup(CommandGroup):
    """Commands by name; their modules are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without importing what is only listed."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """What the system refuses (a full disk, a file that is a directory) is a line for a person, too."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            _finish_output()
            if isinstance(error, BrokenPipeError):
                sys.exit(0)  # Who reads has had enough, as head does.
            where = f" {error.filename}" if error.filename else ""
            click.echo(f"kbroker: cannot read or write{where}: {error.strerror or error}", err=True)
            sys.exit(1)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbroker")
def cli() -> None:
    """A broker that speaks Kafka's wire protocol."""
