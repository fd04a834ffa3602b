import copy
import json
import pickle
from datetime import time, timedelta

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as how
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.calendar.recurrence import CatchUp, Cron, Interval, Window
from stoker.calendar.timezones import Fold, Gap
from stoker.config.fields import Secret
from stoker.config.sources import read_toml
from stoker.settings import DEFAULT_TENANT, FIELDS, Settings
from stoker.settings.load import load_settings

# On a busy machine an example may take long; that says nothing about the promise.
untimed = how(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ACME, BOLT = TenantId("acme"), TenantId("bolt")


@pytest.fixture
def read(tmp_path):
    """Load settings from texts, as wiring does from files."""

    def read(toml="", *, env_file="", environment=None, flags=None):
        file, dotenv = tmp_path / "stoker.toml", tmp_path / ".env"
        for path, text in ((file, toml), (dotenv, env_file)):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_settings(
            file=file, env_file=dotenv, environment=environment or {}, flags=flags or {}
        )

    return read


@pytest.fixture
def refused(read):
    """Load settings that cannot work, and return the lines that say why."""

    def refused(*args, **kwargs):
        with pytest.raises(ConfigError) as caught:
            read(*args, **kwargs)
        return str(caught.value).split("\n")

    return refused


def test_without_any_source_every_value_is_a_default():
    settings = load_settings(file=None, env_file=None, environment={}, flags={})

    assert {line.origin for line in settings.list_shown()} == {"default"}
    assert settings.scheduling.cron == "0 1 * * *"
    assert settings.scheduling.timezone == "Asia/Singapore"
    assert settings.storage.backend == "sqlite"
    assert not settings.retention.enabled
    assert settings.list_active_tenants() == (DEFAULT_TENANT,)


def test_a_stronger_source_wins_and_is_named_as_the_origin(read):
    toml = "# mine\n\n[retention]\ndays = 10\n"
    days = "STOKER_RETENTION_DAYS"
    sources = [
        (read(toml), 10, "stoker.toml:4"),
        (read(toml, env_file=f"# x\n{days}=20\n"), 20, ".env:2"),
        (read(toml, env_file=f"{days}=20", environment={days: "30"}), 30, f"environment {days}"),
        (
            read(toml, environment={days: "30"}, flags={"retention.days": "40"}),
            40,
            "flag",
        ),
    ]
    for settings, value, origin in sources:
        assert settings.retention.days == value
        assert settings.get_origin("retention.days") == origin


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("SCHED_ENABLED", "false", "scheduling.enabled", False),
        ("SCHED_START_CRON", "30 2 * * MON-FRI", "scheduling.cron", "30 2 * * MON-FRI"),
        ("SCHED_TIMEZONE", "Europe/Paris", "scheduling.timezone", "Europe/Paris"),
        ("SCHED_TENANT_CONCURRENCY", "5", "scheduling.tenant_concurrency", 5),
        ("SCHED_COMPANY_CONCURRENCY", "9", "scheduling.company_concurrency", 9),
        ("SCHED_DAILY_CAP_PER_TENANT", "7", "scheduling.daily_cap_per_tenant", 7),
        ("SHORTLIST_DAILY_CAP", "7", "scheduling.daily_cap_per_tenant", 7),
        ("SCHED_TENANT_INCLUDE", "default", "scheduling.tenant_include", ("default",)),
        ("SCHED_TENANT_EXCLUDE", " default, ", "scheduling.tenant_exclude", ("default",)),
        ("SCORE_MIN_EXPORT", "0.5", "score.min_export", 0.5),
        ("LEAD_THRESHOLD", "0.5", "score.min_export", 0.5),
        ("OPENAI_DAILY_TOKENS_CAP", "1", "caps.openai_daily_tokens", 1),
        ("TAVILY_MAX_QUERIES", "2", "caps.tavily_queries", 2),
        ("LUSHA_MAX_CONTACT_LOOKUPS", "3", "caps.lusha_contact_lookups", 3),
        ("ZEROBOUNCE_MAX_VERIFICATIONS", "4", "caps.zerobounce_verifications", 4),
        ("CRAWL_MAX_PAGES", "2", "crawl.max_pages", 2),
        ("CRAWLER_TIMEOUT_S", "2.5", "crawl.timeout_s", 2.5),
        ("CRAWLER_USER_AGENT", "Ours (me@x.example)", "crawl.user_agent", "Ours (me@x.example)"),
        ("EXTRACT_CORPUS_CHAR_LIMIT", "500", "extract.corpus_char_limit", 500),
        ("PERSIST_CRAWL_CORPUS", "yes", "crawl.persist_corpus", True),
        ("ICP_RULE_NAME", "mine", "icp.rule_name", "mine"),
        ("DEFAULT_TENANT_ID", "acme", "tenancy.default_tenant_id", "acme"),
        ("OPENAI_API_KEY", "sk-1", "keys.openai", Secret("sk-1")),
        ("TAVILY_API_KEY", "tv-1", "keys.tavily", Secret("tv-1")),
        ("LUSHA_API_KEY", "lu-1", "keys.lusha", Secret("lu-1")),
        ("ZEROBOUNCE_API_KEY", "zb-1", "keys.zerobounce", Secret("zb-1")),
        ("ODOO_API_KEY", "od-1", "keys.odoo", Secret("od-1")),
        ("ODOO_URL", "https://acme.example.com/", "odoo.url", "https://acme.example.com"),
        ("ODOO_DB", "acme", "odoo.database", "acme"),
        ("DATA_GOV_SG_API_KEY", "dg-1", "keys.datagov", Secret("dg-1")),
        ("NO_COLOR", "please", "logging.no_color", True),
        ("STOKER_STORAGE_BACKEND", "memory", "storage.backend", "memory"),
    ],
)
def test_every_known_environment_name_works_as_it_is(read, name, text, key, value):
    for settings in (read(environment={name: text}), read(env_file=f"{name}={text}\n")):
        assert settings.get_value(key) == value


def test_no_two_settings_share_an_environment_name():
    names = [name for about in FIELDS.values() for name in about.env]

    assert len(names) == len(set(names))


def test_every_setting_explains_itself():
    for key, about in FIELDS.items():
        assert about.help.endswith("."), key
        assert about.kind.allowed, key


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        (
            '[scheduling]\nmode = "crn"',
            'stoker.toml:2: scheduling.mode is "crn"; allowed: interval, window, cron',
        ),
        (
            '[retention]\n\ndays = "10"',
            'stoker.toml:3: retention.days is "10"; allowed: a whole number, 0 to 36500',
        ),
        (
            "retention.days = true",
            "stoker.toml:1: retention.days is true; allowed: a whole number, 0 to 36500",
        ),
        (
            "[retention]\ndays = -1",
            "stoker.toml:2: retention.days is -1; allowed: a whole number, 0 to 36500",
        ),
        (
            "[score]\nmin_export = nan",
            "stoker.toml:2: score.min_export is NaN; allowed: a number, 0 to 1",
        ),
        (
            "[retention]\nenabled = 1",
            "stoker.toml:2: retention.enabled is 1; allowed: true, false",
        ),
        (
            "[scheduling]\nwindow_time = 01:30:00",
            'stoker.toml:2: scheduling.window_time is "01:30:00"; '
            "allowed: HH:MM in UTC, 00:00 to 23:59",
        ),
        (
            '[scheduling]\ntimezone = "Europe/Pariss"',
            'stoker.toml:2: scheduling.timezone is "Europe/Pariss"; '
            "there is no time zone 'Europe/Pariss'; did you mean Europe/Paris?",
        ),
        (
            "[scheduling]\ncorn = 1",
            "stoker.toml:2: there is no setting scheduling.corn; did you mean scheduling.cron?",
        ),
        (
            "[schedulng]\nmode = 1\ncron = 2",
            "stoker.toml:1: there is no table [schedulng]; did you mean scheduling?",
        ),
        (
            "storage = 5",
            "stoker.toml:1: storage is a table of settings; write [storage] and its settings below",
        ),
        (
            '[tenants."Bad Id"]',
            "stoker.toml:1: 'Bad Id' is not a tenant id; use 1 to 63 of a-z, 0-9, '-' and '_', "
            "beginning with a letter or digit",
        ),
        (
            "[tenants.acme.caps]\ntavily_queris = 1",
            "stoker.toml:2: there is no setting 'caps.tavily_queris'; "
            "did you mean caps.tavily_queries?",
        ),
        (
            "[tenants.acme.storage]\nbackend = 'json'",
            "stoker.toml:2: there is no setting 'storage.backend' for one tenant alone",
        ),
        ("tenants = 3", "stoker.toml:1: tenants are tables; write [tenants.ID]"),
        ("tenants.acme = 3", "stoker.toml:1: tenants are tables; write [tenants.ID]"),
        ("[[tenants]]", "stoker.toml:1: tenants are tables; write [tenants.ID]"),
        (
            "[[storage]]",
            "stoker.toml:1: storage is a table of settings; write [storage] and its settings below",
        ),
        ("[scheduling", "stoker.toml:1: not TOML: Expected ']' at the end of a table declaration"),
        (
            "[retention]\ndays = 1\ndays = 2",
            "stoker.toml:3: not TOML: this key or table is given twice; keep one",
        ),
        (
            "[retention]\n[storage]\n[retention]",
            "stoker.toml:3: not TOML: this key or table is given twice; keep one",
        ),
        ("a = 1\nb = [1,\n", "stoker.toml:2: not TOML: Invalid value"),
        (b"a = 1\nb = '\xff'", "stoker.toml:2: not UTF-8; save the file as UTF-8"),
        (
            '[storage]\nbackend = "postgres"',
            "stoker.toml:2: storage.backend is postgres, but storage.postgres_url is not set; "
            "set STOKER_STORAGE_POSTGRES_URL",
        ),
        (
            '[scheduling]\nmode = "interval"',
            "stoker.toml:2: scheduling.mode is interval; set scheduling.interval_minutes too",
        ),
        (
            '[tenants.acme.scheduling]\nmode = "window"',
            'stoker.toml:2: scheduling.mode is window; set scheduling.window_time, e.g. "01:30"',
        ),
        (
            '[tenancy]\ndefault_tenant_id = "bolt"\n[tenants.acme]',
            "stoker.toml:2: tenancy.default_tenant_id names bolt, which is not configured; "
            "configured: acme",
        ),
    ],
)
def test_a_bad_file_is_answered_with_place_key_what_was_given_and_what_is_allowed(
    refused, toml, line
):
    assert refused(toml) == [line]


def test_an_impossible_cron_line_names_the_setting_and_the_field(refused):
    [line] = refused('[scheduling]\ncron = "61 * * * *"')

    assert line.startswith('stoker.toml:2: scheduling.cron is "61 * * * *"; cron minute')


def test_a_bad_value_in_the_environment_names_the_variable(refused):
    assert refused(environment={"TAVILY_MAX_QUERIES": "lots"}) == [
        'environment TAVILY_MAX_QUERIES: caps.tavily_queries is "lots"; '
        "allowed: a whole number, 0 to 1000000000"
    ]


def test_two_names_of_one_setting_that_differ_are_an_error_naming_both(refused, read):
    both = {"SCHED_DAILY_CAP_PER_TENANT": "5", "SHORTLIST_DAILY_CAP": "6"}
    [line] = refused(environment=both)

    assert "SCHED_DAILY_CAP_PER_TENANT" in line
    assert "SHORTLIST_DAILY_CAP" in line
    same = read(environment=dict.fromkeys(both, "5"))
    assert same.scheduling.daily_cap_per_tenant == 5


def test_every_problem_is_told_each_on_its_own_line(refused):
    lines = refused('[retention]\ndays = -1\nkeep_latest_n_runs = 0\n[logging]\nlevel = "loud"')

    assert [line.split(": ")[0] for line in lines] == [f"stoker.toml:{n}" for n in (2, 3, 5)]


def test_a_flood_of_problems_is_cut_short_and_counted(refused):
    lines = refused("\n".join(f"x{n} = 1" for n in range(50)))

    assert len(lines) == 21
    assert lines[-1] == "… and 30 more"


def test_a_misspelt_name_of_ours_in_the_environment_is_told(refused, read):
    [line] = refused(environment={"STOKER_STORAGE_BAKEND": "json"})

    assert line.endswith("is no setting; did you mean STOKER_STORAGE_BACKEND?")
    read(environment={"PATH": "/bin", "STOKER_DEBUG": "1", "EDITOR": "vi"})


def test_an_empty_value_in_the_environment_counts_as_not_set(read):
    settings = read("[retention]\ndays = 5", environment={"STOKER_RETENTION_DAYS": ""})

    assert settings.retention.days == 5
    assert read(environment={"OPENAI_API_KEY": " "}).get_value("keys.openai") is None


@pytest.mark.parametrize("env_file", ["this is not\n", "A=1\n=2\n"])
def test_a_line_of_the_env_file_that_says_nothing_is_told(refused, env_file):
    [line] = refused(env_file=env_file + "B=2\n")

    assert line.startswith(".env:")


def test_a_name_given_twice_in_the_env_file_is_told(refused):
    assert refused(env_file="A=1\nB=2\nA=3\n") == [
        ".env:3: A is given twice, first on line 1; keep one"
    ]


def test_the_env_file_is_taken_letter_for_letter(read):
    settings = read(env_file="OPENAI_API_KEY='a${HOME}b$c'\n", environment={"HOME": "x"})

    assert settings.get_value("keys.openai").reveal() == "a${HOME}b$c"


@pytest.mark.parametrize("file", ["missing", "folder", "huge"])
def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path, file):
    path = tmp_path / "stoker.toml"
    if file == "folder":
        path.mkdir()
    elif file == "huge":
        path.write_bytes(b"#" * 1_000_001)

    with pytest.raises(ConfigError) as caught:
        load_settings(file=path, env_file=None, environment={}, flags={})
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "toml",
    [
        b"\xef\xbb\xbf[retention]\ndays = 7\n",
        b"[retention]\r\ndays = 7\r\n",
        b"\t[retention]\n\t\tdays\t=\t7\n",
        b"[ 'retention' ]\n\"days\" = 7 # a week",
        b"retention = { days = 7 }",
        b"retention.days = 7",
    ],
    ids=["byte order mark", "CRLF", "tabs", "quoted keys", "inline table", "dotted key"],
)
def test_any_way_toml_can_be_written_is_read(read, toml):
    assert read(toml).retention.days == 7


@untimed
@given(
    st.lists(
        st.sampled_from(
            [
                "",
                "# a = 1",
                'text = """\n[not.a.table]\nb = 1\n"""',
                "list = [\n  1,\n  # two\n  2,\n]",
                "one = 1",
                "inner.two = '''\n'''",
                'text = """a\\"""[\n"]#{""""',
                "list = [ # [[ '''\n  '[', \"\\\"]\", {a = 1},\n]",
                "one = '# [' # {",
            ]
        ),
        max_size=8,
    )
)
def test_a_value_s_line_is_where_its_statement_begins(tmp_path_factory, blocks):
    path = tmp_path_factory.mktemp("toml") / "x.toml"
    lines, expected = [], {}
    for number, block in enumerate(blocks):
        lines.append(f"[t{number}]")
        if block and not block.startswith("#"):
            expected[f"t{number}.{block.split(' = ')[0]}"] = f"x.toml:{len(lines) + 1}"
        lines += block.split("\n")
    path.write_text("\n".join(lines))

    found = {given.key: given.origin for given in read_toml(path) if given.value != {}}

    assert found == expected


def test_a_value_of_many_lines_is_parsed_once(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("a = 1\nlist = [\n" + "  [1],\n" * 20_000 + "]\nb = 2\n")
    found = read_toml(path)
    assert [(each.key, each.origin) for each in found] == [
        ("a", "x.toml:1"),
        ("list", "x.toml:2"),
        ("b", "x.toml:20004"),
    ]
    assert len(found[1].value) == 20_000


def test_a_tenant_s_table_overrides_what_is_in_force_for_it_alone(read):
    settings = read(
        """
        [scheduling]
        timezone = "UTC"
        [tenants.acme]
        name = "Acme Ltd"
        timezone = "Europe/Paris"
        [tenants.acme.scheduling]
        cron = "5 4 * * *"
        [tenants.acme.caps]
        tavily_queries = 3
        [tenants.bolt]
        """
    )
    acme, bolt = settings.for_tenant(ACME), settings.for_tenant(BOLT)

    queries = [own.get_value("caps.tavily_queries") for own in (acme, bolt)]
    assert queries == [3, 1000]
    assert acme.get_origin("caps.tavily_queries") == "stoker.toml:10"
    assert acme.get_origin("scheduling.timezone") == "stoker.toml:6"
    assert bolt.get_origin("scheduling.timezone") == "stoker.toml:3"
    assert settings.get_schedule(ACME) == Cron("5 4 * * *", "Europe/Paris")
    assert settings.get_schedule(BOLT) == Cron("0 1 * * *", "UTC")
    assert [tenant.name for tenant in settings.tenants] == ["Acme Ltd", "bolt"]
    assert "acme" not in json.dumps([bolt.snapshot(), dict(bolt.origins)])


def test_what_is_in_force_for_one_tenant_names_no_other(read):
    settings = read(
        "[tenants.acme]\n[tenants.bolt]\n[tenants.cyan]\n",
        flags={
            "scheduling.tenant_include": "acme,bolt",
            "scheduling.tenant_exclude": "cyan",
            "tenancy.default_tenant_id": "bolt",
        },
    )

    told = json.dumps(settings.for_tenant(ACME).snapshot())

    assert "acme" in told
    assert not {name for name in ("bolt", "cyan") if name in told}
    assert settings.for_tenant(BOLT).find_default_tenant() == BOLT


def test_a_flag_can_speak_of_one_tenant(read):
    settings = read("[tenants.acme]\n", flags={"tenants.acme.caps.tavily_queries": "9"})

    assert settings.for_tenant(ACME).get_value("caps.tavily_queries") == 9


def test_active_tenants_are_the_enabled_ones_included_and_not_excluded_in_id_order(read):
    toml = "[tenants.d]\n[tenants.a]\n[tenants.c]\nenabled = false\n[tenants.b]\n"
    chosen = read(toml, environment={"SCHED_TENANT_INCLUDE": "d,c,b", "SCHED_TENANT_EXCLUDE": "b"})

    assert read(toml).list_active_tenants() == ("a", "b", "d")
    assert chosen.list_active_tenants() == ("d",)


def test_whose_work_a_command_does_is_never_guessed(read):
    two = "[tenants.acme]\n[tenants.bolt]\n"

    assert read().find_default_tenant() == DEFAULT_TENANT
    assert read(environment={"DEFAULT_TENANT_ID": "acme"}).list_active_tenants() == (ACME,)
    assert read(two).find_default_tenant() is None
    assert read(two, environment={"DEFAULT_TENANT_ID": "bolt"}).find_default_tenant() == BOLT


def test_an_unknown_tenant_is_answered_with_those_there_are(read):
    with pytest.raises(ConfigError, match="no tenant 'acme'; configured: default"):
        read().for_tenant(ACME)


def test_each_mode_becomes_its_schedule(read):
    hourly = read('[scheduling]\nmode = "interval"\ninterval_minutes = 60')
    daily = read('[scheduling]\nmode = "window"\nwindow_time = "01:30"')
    cron = read('[scheduling]\ngap = "skip"\nfold = "both"\ncatch_up = "all"')

    assert hourly.get_schedule(DEFAULT_TENANT) == Interval(timedelta(hours=1))
    assert daily.get_schedule(DEFAULT_TENANT) == Window(time(1, 30))
    assert cron.get_schedule(DEFAULT_TENANT) == Cron(gap=Gap.SKIP, fold=Fold.BOTH)
    assert cron.scheduling.catch_up is CatchUp.ALL


def test_relative_paths_are_taken_from_the_directory_and_absolute_ones_stay(tmp_path):
    absolute = str(tmp_path / "else.db")
    flags = {"storage.sqlite_path": absolute}
    settings = load_settings(file=None, env_file=None, environment={}, flags=flags).with_directory(
        tmp_path
    )

    assert str(settings.storage.sqlite_path) == absolute
    assert settings.storage.json_dir == tmp_path / "stoker-data"


def test_a_snapshot_is_plain_json_and_tells_of_a_secret_only_that_it_is_set(read):
    snapshot = read(environment={"OPENAI_API_KEY": "sk-canary"}).snapshot()

    assert "canary" not in json.dumps(snapshot)
    assert snapshot["keys"] == {
        "openai": "set",
        "tavily": "not set",
        "lusha": "not set",
        "zerobounce": "not set",
        "odoo": "not set",
        "datagov": "not set",
        "webhook": "not set",
    }
    assert snapshot["scheduling"]["catch_up"] == "latest"


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings().storage.backend = "json"
    with pytest.raises(TypeError):
        Settings().origins["x"] = "y"


def test_a_secret_shows_itself_to_nobody_who_does_not_ask():
    secret = Secret("hunter-22")
    shown = [repr(secret), str(secret), f"{secret:>20}", f"{[secret]}", f"{secret!r}"]
    shown += [json.dumps({"k": secret}, default=str), str(vars(type(secret)))]

    assert "hunter" not in "".join(shown)
    assert copy.deepcopy(secret) is secret
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.reveal() == "hunter-22"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cr%40t@host:5/db", "postgresql://me:[secret]@host:5/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql:///db?password=s3cr@t", "[secret]"),
        ("postgresql:///db?host=x&password=s3cr", "postgresql:///db"),
        ("postgresql://me:s3cr?t@host/db", "[secret]"),
        ("postgresql://me:s3cr/t@host/db", "[secret]"),
        ("postgresql://me:s3@cr@host/db", "[secret]"),
    ],
)
def test_a_url_is_shown_without_its_password_and_without_doubt(url, shown):
    assert Secret(url).mask() == shown


def test_the_password_of_a_url_is_a_secret_of_its_own():
    parts = Secret("postgresql://me:s3cr%40t@host/db?sslpassword=other").list_parts()

    assert {"s3cr%40t", "s3cr@t", "other"} <= set(parts)


def test_a_bad_secret_is_refused_without_being_shown(refused):
    environment = {"STOKER_STORAGE_POSTGRES_URL": "mysql://me:hunter-22@host/db"}
    [line] = refused(environment=environment)

    assert "hunter" not in line
    assert "postgresql://" in line


keys = st.sampled_from(sorted(FIELDS)) | st.text(max_size=10)


@untimed
@given(st.dictionaries(keys, st.text(max_size=30), max_size=5))
@example({"retention.days": "\x85"})
@example({"retention.days": "\u2028", "a\nb": "\r"})
def test_whatever_is_given_the_answer_is_settings_or_one_line_per_problem(flags):
    problems = ""
    try:
        settings = load_settings(file=None, env_file=None, environment={}, flags=flags)
    except ConfigError as error:
        problems = str(error)
    else:
        json.dumps(settings.snapshot(), allow_nan=False)
    assert all(line.startswith("flag: ") for line in problems.splitlines())


def test_a_section_that_contradicts_itself_is_told_with_its_place(tmp_path):
    file = tmp_path / "stoker.toml"
    file.write_text(
        "[heat]\nwarm_from = 0.9\n[pulls]\nfloor_days = 0.5\n"
        "[tenants.acme.heat]\nwarm_from = 0.2\n[tenants.beta]\n"
    )
    with pytest.raises(ConfigError) as told:
        load_settings(file=file, env_file=None, environment={}, flags={})
    places = [line.split(": ")[:2] for line in str(told.value).splitlines()]
    assert places == [["stoker.toml:2", "heat"], ["stoker.toml:4", "pulls"]]
    file.write_text("[tenants.acme.heat]\nhot_every_hours = 80\n[tenants.beta]\n")
    with pytest.raises(ConfigError, match=r"stoker.toml:2: heat: a colder tier"):
        load_settings(file=file, env_file=None, environment={}, flags={})
