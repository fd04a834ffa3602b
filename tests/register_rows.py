"""Made-up rows of the register, in the shape of the real file."""

import csv
import io

from stdnum.sg.uen import calc_local_company_check_digit

from stoker.sandbox.world.register import COLUMNS

NOTHING = "na"


def number(index, *, year=2010):
    """Return a company's number as the register would give it."""
    digits = f"{year}{index:05d}"
    return digits + calc_local_company_check_digit(digits)


def row(index=1, **said):
    """Return a row by column; what is not said is `na`."""
    return dict.fromkeys(COLUMNS, NOTHING) | {
        "uen": number(index),
        "entity_name": f"QUIET ANVIL {index} PTE. LTD.",
        "entity_type_description": "Local Company",
        "company_type_description": "Private Company Limited by Shares",
        "entity_status_description": "Live Company",
        "registration_incorporation_date": "2010-05-17",
        "block": "12",
        "street_name": "FORGE STREET",
        "level_no": "03",
        "unit_no": "04",
        "postal_code": "069538",
        "primary_ssic_code": "62011",
        "no_of_officers": "3",
        **said,
    }


def text(rows, *, columns=COLUMNS, end="\n"):
    """Return rows as the CSV text of a file, header first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end)
    writer.writerow(columns)
    writer.writerows([each[name] for name in columns] for each in rows)
    return out.getvalue()


def line(index=1, **said):
    """Return one row as its line."""
    return text([row(index, **said)]).splitlines(keepends=True)[1]
