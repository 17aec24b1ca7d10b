"""``docs/command.md`` names every command and every option that there is, and none that is not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kbroker.cli import COMMANDS, cli
from kbroker.cli.client_settings import SETTINGS, SettingOption

PAGE = (Path(__file__).parents[3] / "docs" / "command.md").read_text()
SECTIONS = {part.splitlines()[0]: part for part in PAGE.split("\n## ")[1:]}
COMMON = {
    option
    for line in SECTIONS["Client commands"].splitlines()
    if line.startswith("| `--")
    for option in re.findall(r"--[a-z-]+", line.split("|")[1])
}
CLIENTS = sorted(set(COMMANDS) - {"dev", "start", "status", "stop", "storage", "completion", "log"})


def command_of(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def leaves(name: str) -> Iterator[tuple[str, click.Command]]:
    command = command_of(name)
    if isinstance(command, click.Group):
        for word, each in command.commands.items():
            yield f"{name} {word}", each
    else:
        yield name, command


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_section_and_each_of_its_subcommands_a_line(name: str) -> None:
    section = SECTIONS[f"kbroker {name}"]
    for path, _ in leaves(name):
        assert f"kbroker {path}" in section


@pytest.mark.parametrize("name", CLIENTS)
def test_the_options_of_a_client_command_are_those_of_its_section(name: str) -> None:
    offered = {option for _, command in leaves(name) for option in options_of(command)} - COMMON
    usage = itertools.takewhile(
        lambda line: line[:4].isspace() or not line, SECTIONS[f"kbroker {name}"].splitlines()[1:]
    )
    shown = set(re.findall(r"--[a-z][a-z-]*", "\n".join(usage))) - COMMON
    assert shown == offered


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_command_takes_the_common_options(name: str) -> None:
    for _, command in leaves(name):
        assert COMMON - {"--format"} <= options_of(command)
        assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))
        assert command.help


@pytest.mark.parametrize("name", CLIENTS)
def test_an_option_that_is_a_setting_is_of_a_command_that_heeds_it(name: str) -> None:
    for _, command in leaves(name):
        settings = [SETTINGS[each.setting] for each in command.params if isinstance(each, SettingOption)]
        assert {each.command for each in settings} <= {None, name}
