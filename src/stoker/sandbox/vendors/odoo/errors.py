"""What the fake Odoo answers instead of a result: the classes, states and codes of a real one."""

from __future__ import annotations


class OdooError(Exception):
    """What the server answers instead of a result: its own class name, status and fault code."""

    def __init__(self, name: str, message: str, *, status: int, fault: int) -> None:
        super().__init__(message)
        self.name = name
        self.status = status
        self.fault = fault


def build_access_error(message: str) -> OdooError:
    return OdooError("odoo.exceptions.AccessError", message, status=403, fault=4)


def build_validation_error(message: str) -> OdooError:
    return OdooError("odoo.exceptions.ValidationError", message, status=422, fault=2)


def build_server_error(message: str, *, name: str = "builtins.ValueError") -> OdooError:
    """Return what a Python error inside the server looks like from outside."""
    return OdooError(name, message, status=500, fault=1)


def build_missing_error(model: str, id_: int) -> OdooError:
    text = "Record does not exist or has been deleted."
    return OdooError(
        "odoo.exceptions.MissingError",
        f"{text}\n(Record: {model}({id_},))",
        status=404,
        fault=2,
    )


def build_user_error(message: str) -> OdooError:
    return OdooError("odoo.exceptions.UserError", message, status=422, fault=2)
