"""Client settings: what the client commands can be told under Kafka's names, by ``-X`` or in a profile.

``SETTINGS`` is the table of them. Some are options of commands too (``SettingOption``); a value comes, the strongest
first, from the flag, ``-X``, the environment, the profile, the default. A profile is a file of properties; it may be
meant for several commands, so it may hold any setting, while ``-X`` takes those that its command has a use for. What
nobody knows is refused, wherever it stands. ``ClientSettings`` is what came of it, found through ``current_settings``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from kbroker.config.properties import PropertiesError, parse_properties

PRODUCE: Final = "produce"
CONSUME: Final = "consume"
DEFAULT_PROFILE: Final = "default"
_ENDING: Final = ".properties"
_NAME: Final = re.compile(r"[\w-]+")
_UNSERVED: Final = ("sasl.", "security.", "ssl.")
_META: Final = f"{__name__}."
"""Where a command's context keeps what it was told, and the settings that came of it."""
_COUNT: Final = click.IntRange(1)


class Setting(NamedTuple):
    """A row of the table. ``command``: the only one that has a use for it."""

    name: str
    default: str | int | None
    type: click.ParamType[Any]
    doc: str
    command: str | None = None


_ROWS: Final = (
    Setting("bootstrap.servers", "localhost:9092", click.STRING, "`--bootstrap`"),
    Setting("client.id", "kbroker-cli", click.STRING, "how the command calls itself; brokers log it, quotas go by it"),
    Setting("request.timeout.ms", 30_000, click.IntRange(100), "`--timeout`, in milliseconds"),
    Setting("security.protocol", "PLAINTEXT", click.Choice(["PLAINTEXT"]), "others are not served yet"),
    Setting("acks", "all", click.Choice(["all", "-1", "1", "0"]), "`--acks`", PRODUCE),
    Setting("batch.size", 256 * 1024, _COUNT, "bytes of keys and values after which a batch is sent", PRODUCE),
    Setting(
        "compression.type",
        "none",
        click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
        "`--compression`",
        PRODUCE,
    ),
    Setting(
        "auto.offset.reset",
        "earliest",
        click.Choice(["earliest", "latest"]),
        "`--offset start` or `--offset end`",
        CONSUME,
    ),
    Setting("auto.commit.interval.ms", 5_000, _COUNT, "how often a member of a group commits", CONSUME),
    Setting("fetch.max.bytes", 16 * 1024 * 1024, _COUNT, "most bytes of one answer", CONSUME),
    Setting("fetch.max.wait.ms", 500, click.IntRange(0), "how long a broker waits for `fetch.min.bytes`", CONSUME),
    Setting("fetch.min.bytes", 1, click.IntRange(0), "bytes worth an answer", CONSUME),
    Setting("group.id", None, click.STRING, "`--group`", CONSUME),
    Setting("heartbeat.interval.ms", 3_000, _COUNT, "how often a member of a group is heard of", CONSUME),
    Setting(
        "isolation.level",
        "read_uncommitted",
        click.Choice(["read_uncommitted", "read_committed"]),
        "`read_committed` is `--read-committed`",
        CONSUME,
    ),
    Setting("max.partition.fetch.bytes", 4 * 1024 * 1024, _COUNT, "most bytes of a partition in an answer", CONSUME),
    Setting("max.poll.interval.ms", 60_000, _COUNT, "how long the group waits for members to rejoin", CONSUME),
    Setting("session.timeout.ms", 10_000, _COUNT, "when a member not heard of is taken for gone", CONSUME),
)
SETTINGS: Final = MappingProxyType({row.name: row for row in _ROWS})


class Given(NamedTuple):
    """A value somebody set. ``is_typed``: by ``-X``, so that it is stronger than the environment."""

    value: Any
    is_typed: bool


class ClientSettings:
    """The settings of one command; what nobody set has its default."""

    def __init__(self, given: Mapping[str, Given] = MappingProxyType({})) -> None:
        self._given = given

    def given(self, name: str) -> Given | None:
        return self._given.get(name)

    def number(self, name: str) -> int:
        return int(self._value(name))

    def text(self, name: str) -> str:
        return str(self._value(name))

    def _value(self, name: str) -> Any:
        found = self._given.get(name)
        return SETTINGS[name].default if found is None else found.value


class SettingOption(click.Option):
    """An option that is also a client setting, whose default it has.

    ``translate`` makes the option's value of the setting's.
    """

    def __init__(
        self, *arguments: Any, setting: str, translate: Callable[[Any], Any] = lambda value: value, **given: Any
    ) -> None:
        default = SETTINGS[setting].default
        super().__init__(*arguments, default=None if default is None else translate(default), **given)
        self.setting = setting
        self.translate = translate

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.COMMANDLINE or ctx.resilient_parsing:
            return value, source
        given = _settings_of(ctx).given(self.setting)
        if given is None or (source is ParameterSource.ENVIRONMENT and not given.is_typed):
            return value, source
        return self.translate(given.value), ParameterSource.DEFAULT_MAP


def current_settings() -> ClientSettings:
    """Those of the command that runs; the defaults where none does."""
    context = click.get_current_context(silent=True)
    return ClientSettings() if context is None else context.meta.get(_META + "settings", ClientSettings())


def _settings_of(context: click.Context) -> ClientSettings:
    """Made once for each command, of what ``-X`` and ``--profile`` say: eager options, known before the others."""
    found: ClientSettings | None = context.meta.get(_META + "settings")
    if found is None:
        given = _of_profile(context.meta[_META + "profile"])
        given.update(_of_pairs(context.meta[_META + "pairs"], _command(context)))
        found = context.meta[_META + "settings"] = ClientSettings(given)
    return found


def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """The callback of ``-X`` and ``--profile``."""
    context.meta[f"{_META}{parameter.name}"] = value


def _of_pairs(texts: Iterable[str], command: str) -> dict[str, Given]:
    """The values of ``-X``. Raises ``click.UsageError``."""
    given = {}
    for text in texts:
        name, separator, value = text.partition("=")
        name = name.strip()
        if not separator or not name:
            raise click.UsageError(f"-X {text} is not KEY=VALUE")
        given[name] = Given(_parsed(name, value, f"-X {text}"), is_typed=True)
        user = SETTINGS[name].command
        if user not in (None, command):
            useful = ", ".join(sorted(usable(command)))
            raise click.UsageError(f"-X {text}: {name} is for kbroker {user}; kbroker {command} heeds {useful}")
    return given


def _of_profile(profile: str | None) -> dict[str, Given]:
    """The values of a profile's file, or of the default one when there is one. Raises ``click.UsageError``."""
    path = profile_path(profile or DEFAULT_PROFILE)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            entries = parse_properties(file.read())
    except FileNotFoundError as error:
        if profile is None:
            return {}
        there = ", ".join(profile_names())
        known = f"; there are {there}" if there else ""
        raise click.UsageError(f"no profile {profile}: {path} is not there{known}") from error
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except PropertiesError as error:
        raise click.UsageError(f"{path}: {error}") from error
    return {
        name: Given(_parsed(name, value, f"{path} line {line}: {name}={value}"), is_typed=False)
        for name, value, line in entries
    }


def _parsed(name: str, text: str, place: str) -> Any:
    """Raises ``click.UsageError`` for what is no setting, and for what it cannot be."""
    setting = SETTINGS.get(name)
    if setting is None:
        raise click.UsageError(f"{place}: {_unknown(name)}")
    try:
        return setting.type.convert(text.strip(), None, None)
    except click.BadParameter as error:
        hint = f" ({setting.doc})" if name.startswith(_UNSERVED) else ""
        raise click.UsageError(f"{place}: {error.message}{hint}") from error


def _unknown(name: str) -> str:
    if name.startswith(_UNSERVED):
        return f"{name} is not served yet; security.protocol can be PLAINTEXT only"
    from difflib import get_close_matches

    nearest = get_close_matches(name, SETTINGS, n=1)
    return f"no client setting {name}; " + (f"did you mean {nearest[0]}?" if nearest else f"there are {_all()}")


def _all() -> str:
    return ", ".join(sorted(SETTINGS))


def usable(command: str) -> list[str]:
    """The settings that a command has a use for."""
    return [row.name for row in _ROWS if row.command in (None, command)]


def profile_path(profile: str) -> str:
    """Where a profile is: a plain word names a file of the user's configuration, anything else is a path itself."""
    return os.path.join(_directory(), profile + _ENDING) if _NAME.fullmatch(profile) else profile


def profile_names() -> list[str]:
    try:
        return sorted(each.removesuffix(_ENDING) for each in os.listdir(_directory()) if each.endswith(_ENDING))
    except OSError:
        return []


def _directory() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "kbroker")


def _command(context: click.Context) -> str:
    """The command below ``kbroker`` that a context belongs to."""
    while context.parent is not None and context.parent.parent is not None:
        context = context.parent
    return context.info_name or ""


def complete_pair(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names with their equals sign, and the values of those that are a choice."""
    name, separator, _ = incomplete.partition("=")
    if not separator:
        words = [f"{each}=" for each in usable(_command(context))]
    else:
        setting = SETTINGS.get(name)
        kind = None if setting is None else setting.type
        words = [f"{name}={each}" for each in kind.choices] if isinstance(kind, click.Choice) else []
    return [CompletionItem(each) for each in words if each.startswith(incomplete)]


def complete_profile(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of profiles; the shell completes paths."""
    found = [CompletionItem(each) for each in profile_names() if each.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]
