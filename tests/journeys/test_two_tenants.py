"""Two tenants have their nights side by side, and neither ever sees anything of the other."""

import pytest

import pg
from faults.night_trials import IN_A_FILE
from night_canaries import looked_through

COMPANIES = 6


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request):
    if request.param == "sqlite":
        return IN_A_FILE
    _, url = pg.fresh_database(request.getfixturevalue("postgres"))
    return ('storage.backend = "postgres"', f'storage.postgres_url = "{url}"')


def test_nothing_of_one_tenant_is_seen_by_another_in_stores_commands_exports_or_crms(
    tmp_path, storage, request
):
    tally = looked_through(tmp_path, companies=COMPANIES, storage=storage)

    line = f"texts of two tenants looked through: n={tally.n}, {tally.acked} canaries at home, "
    request.node.user_properties.append(("fault", f"{line}{len(tally.broken)} abroad"))
    assert tally.broken == []
    assert tally.acked > 20 * COMPANIES, "a search that finds nothing at home says nothing"


def test_reading_all_tenants_leads_is_caught(tmp_path):
    assert looked_through(tmp_path, companies=2, careless=True).broken
