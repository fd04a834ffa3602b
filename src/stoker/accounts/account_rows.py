"""Read accounts that a person gives in a table: their id, name, domain and posture.

Only the id is required. A row that cannot be used has a reason; columns that mean nothing here are
named, never ignored in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from stoker.accounts.model import Company, CompanyId
from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import Json, clean_text
from stoker.db.codec import validate_key
from stoker.files.tables import ColumnUse, TableRow, read_column_use, read_table
from stoker.http.url import parse_url

ACCOUNT_COLUMNS = {
    "account_id": ("account_id", "account", "id"),
    "name": ("name", "company"),
    "domain": ("domain", "website", "url"),
    "posture": ("posture",),
}

_REQUIRED = ("account_id",)

_MAX_NAME = 500

_MAX_SHOWN = 40


def parse_account_row(row: Mapping[str, Json]) -> Company | str:
    """Return the account of a row, or why the row cannot be used."""
    cells = {name: _to_text(row.get(name)) for name in ACCOUNT_COLUMNS}
    if not cells["account_id"]:
        return "it has no account_id"
    posture = None
    if cells["posture"]:
        try:
            posture = float(cells["posture"])
        except ValueError:
            return f"its posture {_shorten(cells['posture'])} is no number; write it like 0.8"
        if not 0.0 <= posture <= 1.0:
            return f"its posture {_shorten(cells['posture'])} is not from 0 to 1; write it like 0.8"
    domain = cells["domain"]
    try:
        website = ""
        if domain:
            parsed = parse_url(domain if "://" in domain[:12] else f"https://{domain}")
            website = f"{parsed.scheme}://{parsed.netloc}/"
    except PermanentError as error:
        return f"its domain {_shorten(domain)} is no web address: {error}"
    try:
        account = CompanyId(validate_key(cells["account_id"], what="its account_id"))
    except PermanentError as error:
        return str(error)
    return Company(id=account, name=cells["name"][:_MAX_NAME], website=website, posture=posture)


def read_account_rows(path: Path) -> Iterator[TableRow]:
    """Yield every row of a CSV file. Raises ConfigError when it cannot be read at all."""
    try:
        with path.open("rb") as file:
            yield from read_table(file, ACCOUNT_COLUMNS, required=_REQUIRED)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def read_account_columns(path: Path) -> ColumnUse:
    """Return which columns of a file are used, and which are not."""
    try:
        with path.open("rb") as file:
            return read_column_use(file, ACCOUNT_COLUMNS)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _to_text(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(clean_text(str(value)).split())


def _shorten(text: str) -> str:
    return repr(text[:_MAX_SHOWN])
