"""Defaults of a command that its user has set: a file, and how loud it is to be.

An option's value comes from the command line, else from the variable ``APPORTION_COMMAND_OPTION``, else from
the configuration file, else it is the command's own default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from apportion.cli.commands import COMMANDS
from apportion.core.errors import did_you_mean

__all__ = ["configured", "is_quiet", "is_verbose", "loudness"]

_QUIET, _VERBOSE = "apportion.quiet", "apportion.verbose"


def configured(command: click.Command, name: str) -> dict[str, Any]:
    """Return the defaults that the configuration file sets for a command, by parameter.

    The file is ``$APPORTION_CONFIG``, or ``apportion/config.toml`` in the user's folder of configurations
    (``$XDG_CONFIG_HOME``, by default ``~/.config``) if there is one. It has a table for every command, with
    options as they are called on the command line, without ``--``; ``[history.list]`` is that of a command
    of the group ``history``.

    Raises
    ------
    click.UsageError
        If the file is no TOML, or names a command or an option that does not exist.
    FileNotFoundError
        If ``APPORTION_CONFIG`` names no file.
    """
    path = _path()
    if path is None:
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: is no TOML: {error}") from None
    for section in tables:
        if section not in COMMANDS or not isinstance(tables[section], Mapping):
            raise click.UsageError(f"{path}: [{section}] is no command{did_you_mean(section, COMMANDS)}")
    return _defaults(path, command, name, tables.get(name, {}))


def _defaults(path: Path, command: click.Command, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a table by parameter, and those of the commands of a group by their names."""
    context = click.Context(command, info_name=name)
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    options = {
        word.removeprefix("--"): param
        for param in command.params
        if isinstance(param, click.Option)
        for word in param.opts
        if word.startswith("--")
    }
    found: dict[str, Any] = {}
    for option, value in table.items():
        if isinstance(command, click.Group) and option in below and isinstance(value, Mapping):
            inner = command.get_command(context, option)
            assert inner is not None
            found[option] = _defaults(path, inner, f"{name}.{option}", value)
            continue
        param = options.get(option.replace("_", "-"))
        if param is None:
            meant = did_you_mean(option, [*options, *below])
            said = f"{option} in [{name}] is no option of {name.replace('.', ' ')}{meant}"
            raise click.UsageError(f"{path}: {said}")
        assert param.name is not None
        found[param.name] = [value] if param.multiple and not isinstance(value, list) else value
    return found


def _path() -> Path | None:
    named = os.environ.get("APPORTION_CONFIG")
    if named:
        return Path(named)
    try:
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        path = Path(home, "apportion", "config.toml")
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # a home that cannot be read, or no home at all, configures nothing
        return None


def loudness() -> list[click.Option]:
    """Return the options that every command has: ``-q`` and ``-v``."""
    return [
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_noted(_QUIET),
            help="Nothing on standard error but errors.",
        ),
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            callback=_noted(_VERBOSE),
            help="Every step on standard error, and where an internal error happened.",
        ),
    ]


def is_quiet() -> bool:
    """Whether the command that runs was asked to be quiet."""
    return _meta(_QUIET)


def is_verbose() -> bool:
    """Whether the command that runs was asked to tell every step."""
    return _meta(_VERBOSE)


def _noted(key: str) -> Any:
    def note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[key] = value or ctx.meta.get(key, False)  # a command of a group is as loud as the group
        if value and key == _QUIET:
            import logging

            logging.getLogger("apportion").setLevel(logging.ERROR)
        if value and key == _VERBOSE:
            os.environ["APPORTION_DEBUG"] = "1"

    return note


def _meta(key: str) -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(key))
