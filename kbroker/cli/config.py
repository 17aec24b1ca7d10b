"""``kbroker config``: show and change the configuration of topics, brokers, groups, client metrics and loggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from kbroker.cli import CommandGroup
from kbroker.cli.cluster_client import Cluster, CommandError, check, failed, run
from kbroker.cli.output import client_options, format_option, parse_pairs, show
from kbroker.config.broker import Source
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest

KINDS: Final = {"topic": 2, "broker": 4, "cluster": 4, "loggers": 8, "client-metrics": 16, "group": 32}
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
"""What IncrementalAlterConfigs can do to a key."""
_OWN_SOURCE: Final = {
    "topic": Source.TOPIC,
    "broker": Source.DYNAMIC_BROKER,
    "cluster": Source.DYNAMIC_DEFAULT_BROKER,
    "loggers": Source.DYNAMIC_BROKER_LOGGER,
    "client-metrics": Source.CLIENT_METRICS,
    "group": Source.GROUP,
}

kind_argument = click.argument("kind", type=click.Choice(list(KINDS)))


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and change configurations."""


@config.command("show")
@kind_argument
@click.argument("name", required=False)
@click.argument("keys", nargs=-1)
@click.option("--all", "-a", "everything", is_flag=True, help="Defaults and values of the broker's file, too.")
@click.option("--docs", is_flag=True, help="What each key does.")
@format_option
@client_options
def show_command(
    kind: str,
    name: str | None,
    keys: tuple[str, ...],
    *,
    everything: bool,
    docs: bool,
    shape: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Show what is set on a topic, broker, group, client-metrics subscription, on the loggers of a broker, or on all
    brokers (cluster, without a NAME)."""
    if kind == "cluster" and name:
        keys, name = (name, *keys), None
    resource_name = _name(kind, name)

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = []
        for each in await read_configs(cluster, kind, resource_name, keys, docs=docs):
            if not everything and not keys and each.config_source != _OWN_SOURCE[kind]:
                continue
            row = {
                "key": each.name,
                "value": None if each.is_sensitive else each.value,
                "source": Source(each.config_source).name.lower(),
                "sensitive": each.is_sensitive,
                "read only": each.read_only,
            }
            if docs:
                row["what it does"] = each.documentation
            rows.append(row)
        return rows

    show(shape, run(bootstrap, work, timeout_ms), empty="nothing is set; --all shows the defaults")


def change_options(command: Callable[..., None]) -> Callable[..., None]:
    """What every command takes that gives values to keys."""
    for option in (
        client_options,
        click.option("--dry-run", is_flag=True, help="Only say whether it could be."),
        click.argument("arguments", nargs=-1, required=True, metavar="[NAME] KEY=VALUE..."),
        kind_argument,
    ):
        command = option(command)
    return command


@config.command("set")
@change_options
def set_command(kind: str, arguments: tuple[str, ...], **how: Any) -> None:
    """Set keys; the others stay."""
    _change(kind, arguments, _SET, ("set", "set"), **how)


@config.command("append")
@change_options
def append_command(kind: str, arguments: tuple[str, ...], **how: Any) -> None:
    """Add values to keys that hold lists."""
    _change(kind, arguments, _APPEND, ("append to", "appended to"), **how)


@config.command("subtract")
@change_options
def subtract_command(kind: str, arguments: tuple[str, ...], **how: Any) -> None:
    """Take values out of keys that hold lists."""
    _change(kind, arguments, _SUBTRACT, ("subtract from", "subtracted from"), **how)


def _change(
    kind: str,
    arguments: tuple[str, ...],
    to: int,
    said: tuple[str, str],
    *,
    dry_run: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Do ``to`` the keys, and say so. ``said``: the verb for what could be done, and for what was."""
    name, rest = _name_and_rest(kind, arguments)
    pairs = parse_pairs(rest)
    run(bootstrap, lambda cluster: alter(cluster, kind, name, pairs, to=to, dry_run=dry_run), timeout_ms)
    could, was = said
    click.echo(f"{f'could {could}' if dry_run else was} {', '.join(pairs)}")


@config.command("unset")
@kind_argument
@click.argument("arguments", nargs=-1, required=True, metavar="[NAME] KEY...")
@click.option("--dry-run", is_flag=True, help="Only say whether it could be.")
@client_options
def unset_command(kind: str, arguments: tuple[str, ...], *, dry_run: bool, bootstrap: str, timeout_ms: int) -> None:
    """Take keys away, so that their defaults hold again."""
    name, rest = _name_and_rest(kind, arguments)
    pairs: dict[str, str | None] = dict.fromkeys(rest)
    run(bootstrap, lambda cluster: alter(cluster, kind, name, pairs, dry_run=dry_run), timeout_ms)
    click.echo(f"{'could unset' if dry_run else 'unset'} {', '.join(pairs)}")


@config.command("list")
@click.argument("kinds", nargs=-1, type=click.Choice([each for each in KINDS if each != "cluster"]))
@format_option
@client_options
def list_command(kinds: tuple[str, ...], *, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """List what can have, or has, a configuration."""
    names = {number: kind for kind, number in KINDS.items() if kind != "cluster"}
    request = ListConfigResourcesRequest(resource_types=[KINDS[each] for each in kinds])

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        answer = await cluster.ask(request)
        check("config list", answer.error_code)
        found = [(names.get(each.resource_type, "?"), each.resource_name) for each in answer.config_resources]
        return [{"kind": kind, "name": name} for kind, name in sorted(found)]

    show(shape, run(bootstrap, work, timeout_ms), empty="none")


def _name(kind: str, name: str | None) -> str:
    if kind == "cluster":
        return ""
    if not name:
        raise click.UsageError(f"a {kind} has a NAME: kbroker config ... {kind} NAME")
    return name


def _name_and_rest(kind: str, arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    name, rest = ("", arguments) if kind == "cluster" else (arguments[0], arguments[1:])
    if not rest:
        raise click.UsageError("give the keys, after the NAME")
    return name, rest


def _owner(kind: str, name: str) -> int | None:
    """The broker that alone answers; None when any does."""
    if kind not in ("broker", "loggers"):
        return None
    try:
        return int(name)
    except ValueError:
        raise CommandError(f"{name} is no broker's number", "kbroker cluster info") from None


async def read_configs(
    cluster: Cluster, kind: str, name: str, keys: Sequence[str] = (), *, docs: bool = False
) -> list[DescribeConfigsResponse.DescribeConfigsResourceResult]:
    """What DescribeConfigs tells of a thing's keys, all of them without ``keys``, by name. Raises ``CommandError``."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=KINDS[kind], resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=docs)
    (result,) = (await cluster.ask(request, broker=_owner(kind, name))).results
    what = f"{kind} {name}".strip()
    check(what, result.error_code, result.error_message)
    unknown = sorted({*keys} - {each.name for each in result.configs})
    if unknown:
        raise CommandError(f"{what} has no key {', '.join(unknown)}", f"kbroker config show {what} --all")
    return sorted(result.configs, key=lambda row: row.name)


async def alter(
    cluster: Cluster, kind: str, name: str, pairs: Mapping[str, str | None], *, to: int = _SET, dry_run: bool = False
) -> None:
    """Do ``to`` the keys, and take away those with None. Raises ``CommandError``."""
    changes = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=key, value=value, config_operation=_DELETE if value is None else to
        )
        for key, value in pairs.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=KINDS[kind], resource_name=name, configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run)
    answer = await cluster.ask(request, broker=_owner(kind, name))
    for each in answer.responses:
        if each.error_code:
            raise refused(f"{kind} {name}".strip(), kind, pairs, each.error_code, each.error_message)


def refused(what: str, kind: str, keys: Iterable[str], code: int, message: str | None) -> CommandError:
    """The error of keys that were not taken, with the known ones that were probably meant."""
    from kbroker.config.registry import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS

    by_kind = {"topic": TOPIC_KEYS, "group": GROUP_KEYS, "client-metrics": CLIENT_METRICS_KEYS}
    known = by_kind.get(kind, BROKER_KEYS)
    is_a_key = code == ErrorCode.INVALID_CONFIG and kind != "loggers"
    meant = [known.nearest(key) for key in keys if key not in known] if is_a_key else []
    return failed(what, code, message, ", ".join(filter(None, meant)))
