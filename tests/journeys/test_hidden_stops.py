"""A whole night while a stop cannot be seen on the server: it spends nothing, and says why."""

import psycopg
import pytest

import pg
from night_house import BOLT, house
from stoker.runs.model import RunState


@pytest.mark.parametrize(
    ("hidden", "words"),
    [(("stops",), "can be seen"), (("stops", "limit_counts"), "stoker db setup")],
)
async def test_a_night_whose_stop_is_hidden_spends_nothing(postgres, tmp_path, hidden, words):
    admin_url, app_url = pg.fresh_database(postgres)
    url = {"STOKER_STORAGE_POSTGRES_URL": app_url}
    async with house(tmp_path, backend="postgres", environment=url, troubles=False) as here:
        free = await here.night(BOLT, limit=2)
        assert free.state is RunState.DONE
        paid = here.charged()
        await here.store().budgets.stop("", reason="a bill came", now=here.app.clock.now())
        with psycopg.connect(admin_url) as admin:
            policies = admin.execute(
                "SELECT tablename, policyname FROM pg_policies WHERE tablename = ANY(%s)",
                [list(hidden)],
            ).fetchall()
            assert {table for table, _ in policies} == set(hidden)
            for table, policy in policies:
                admin.execute(f"DROP POLICY {policy} ON stoker.{table}")

        night = await here.night(limit=2)

        assert night.state is RunState.FAILED
        assert words in night.reason
        assert here.charged() == paid
