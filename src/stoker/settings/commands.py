"""`init` writes a settings file, made from the declared settings; `config show` lists values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.options import DefaultGroup
from stoker.cli.output import json_option, pass_context, print_json, print_table, print_text
from stoker.files.durable import STDOUT, open_output
from stoker.settings import FIELDS, SECTIONS, Settings

if TYPE_CHECKING:
    from stoker.cli.output import CommandContext

STARTER_CAPS = {
    key: value // 10
    for key, value in Settings().list_cap_values().items()
    if key.startswith(("caps.", "scheduling."))
}
"""The caps of a first file: a tenth of the defaults, all for the same number of companies."""

SUGGESTIONS = {"touches.min_rest_days": timedelta(days=5), "touches.weekdays": (1, 2, 3, 4, 5)}
"""What a first file sets otherwise than the defaults, because it suits people who are touched."""

_FILE_HEAD = """\
# Stoker's settings. Everything is optional: a line that begins with `#` shows its default.
# Each of these overrides the one before: this file, .env, the environment, --set KEY=VALUE.
# `stoker config show` prints every value and where it came from.
"""

_TENANTS_EXAMPLE = """
# One table per tenant; without any there is one tenant, called "default".
# [tenants.acme]
# name = "Acme"
# timezone = "Europe/Paris"
# [tenants.acme.caps]
# tavily_queries = 40
"""


@click.command()
@click.option("--force", is_flag=True, help="Replace a file that is already there.")
@json_option
@pass_context
def init(asked: CommandContext, *, force: bool, as_json: bool) -> None:
    """Write a commented stoker.toml with small caps switched on.

    Touches rest for five days and are made from Monday to Friday; other settings are defaults.
    An existing file is kept unless --force is given; `stoker --config - init` prints it.
    """
    path = asked.config or asked.directory / "stoker.toml"
    with open_output(path, replace=force, private=True) as stream:
        stream.write(build_first_file().encode())
    if path == STDOUT:
        return
    if as_json:
        print_json({"wrote": str(path)})
        return
    each = STARTER_CAPS["scheduling.daily_cap_per_tenant"]
    print_text(f"Wrote {path}, with small caps switched on: {each} companies a night.")
    print_text(f"1,000 candidates: {math.ceil(1000 / each)} nights. Next:")
    print_text("  stoker doctor           check that everything is in place")
    print_text("  stoker schedule next    see when runs will start")
    print_text("  stoker demo             see it work without keys or network")


@click.group(cls=DefaultGroup)
def config() -> None:
    """Show every setting and where it came from."""


@config.command()
@click.option("--all", "everything", is_flag=True, help="Print also values that are defaults.")
@json_option
@pass_context
def show(asked: CommandContext, *, everything: bool, as_json: bool) -> None:
    """Print the values that differ from the defaults, and their origins; secrets are masked.

    --json prints all values.
    """
    lines = asked.read_settings().list_shown()
    if as_json:
        print_json({line.key: {"value": line.value, "origin": line.origin} for line in lines})
    else:
        shown = [line for line in lines if everything or line.origin != "default"]
        print_table(
            ("setting", "value", "from"),
            ((line.key, line.value, line.origin) for line in shown),
            empty="All settings are defaults; see them with: stoker config show --all",
        )


def build_first_file() -> str:
    """Return the settings file a new installation begins with. Reading it back gives no error."""
    return _FILE_HEAD + "".join(_format_section(name) for name in SECTIONS) + _TENANTS_EXAMPLE


def _format_section(section: str) -> str:
    lines = [f"[{section}]  # {SECTIONS[section].__doc__}"]
    lines += [
        line for key in FIELDS if key.partition(".")[0] == section for line in _format_setting(key)
    ]
    return "\n" + "\n".join(lines) + "\n"


def _format_setting(key: str) -> Iterator[str]:
    about, name = FIELDS[key], key.partition(".")[2]
    default = Settings().get_value(key)
    yield f"# {about.help} Allowed: {about.kind.allowed}. In the environment: {about.env[0]}"
    if about.kind.secret:
        yield f"# {name}: keep it out of this file; put {about.env[0]}=... into .env"
    elif key in STARTER_CAPS:
        yield f"{name} = {STARTER_CAPS[key]}  # small on purpose; the default is {default}"
    elif key in SUGGESTIONS:
        value, usual = (_to_toml(key, each) for each in (SUGGESTIONS[key], default))
        yield f"{name} = {value}  # suggested; the default is {usual}"
    elif default is None:
        yield f"# {name} is not set"
    else:
        yield f"# {name} = {_to_toml(key, default)}"


def _to_toml(key: str, value: Any) -> str:
    # JSON's way of writing text, numbers, truth and lists is TOML's as well.
    return json.dumps(FIELDS[key].to_json(value), ensure_ascii=False)
