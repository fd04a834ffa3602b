"""The schema is what it was: every step, in both databases, leads to the catalog written down.

A step that existing files have taken must never lead elsewhere. A new step is added to the files
`catalog_*.txt` by running this module: `python tests/db/test_catalog.py`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
import psycopg

from kit.catalog import format_steps, read_postgres_catalog, read_sqlite_catalog, read_steps
from pg import Server, empty_database, own_server
from stoker.backends.schema import SCHEMA
from stoker.db.postgres_setup import create_roles_and_schema

SQLITE = Path(__file__).with_name("catalog_sqlite.txt")
POSTGRES = Path(__file__).with_name("catalog_postgres.txt")


def build_sqlite_catalogs() -> list[set[str]]:
    connection, found = apsw.Connection(":memory:"), []
    for step in SCHEMA.sqlite:
        connection.execute(step.script)
        found.append(read_sqlite_catalog(connection))
    return found


def build_postgres_catalogs(server: Server) -> list[set[str]]:
    admin_url, app_url = empty_database(server)
    found = []
    for version in range(1, SCHEMA.version + 1):
        create_roles_and_schema(admin_url, app_url, SCHEMA.postgres[:version])
        with psycopg.connect(admin_url) as admin:
            found.append(read_postgres_catalog(admin))
    return found


def test_every_step_makes_of_sqlite_what_it_always_made():
    assert [set(), *build_sqlite_catalogs()] == read_steps(SQLITE)


def test_every_step_makes_of_postgres_what_it_always_made(postgres):
    assert [set(), *build_postgres_catalogs(postgres)] == read_steps(POSTGRES)


if __name__ == "__main__":
    names = [str(step) for step in SCHEMA.sqlite]
    SQLITE.write_text(format_steps(names, build_sqlite_catalogs()))
    with own_server() as server:
        POSTGRES.write_text(format_steps(names, build_postgres_catalogs(server)))
