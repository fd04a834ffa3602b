"""How a run and its manifest are written down as JSON, and read back.

Reading is strict: a key we do not know or a value of the wrong kind is refused, because writing
such a record again would lose what we did not understand. A key that is missing has its default,
so records written before a key existed still read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from stoker.core.model import Json, in_utc
from stoker.core.runs import Manifest, Run, RunKey, RunState, StepTiming
from stoker.errors import ConfigError

_Value = TypeVar("_Value")


def manifest_json(manifest: Manifest) -> dict[str, Json]:
    """Return the manifest as plain JSON values; moments are ISO text in UTC."""
    return {
        "config_hash": manifest.config_hash,
        "config": dict(manifest.config),
        "selected": list(manifest.selected),
        "caps": dict(manifest.caps),
        "budgets": dict(manifest.budgets),
        "counts": dict(manifest.counts),
        "cost": dict(manifest.cost),
        "steps": [_timing_json(timing) for timing in manifest.steps],
        "sources": [_timing_json(timing) for timing in manifest.sources],
        "reasons": list(manifest.reasons),
        "remaining": list(manifest.remaining),
        "lacking": list(manifest.lacking),
        "rule": dict(manifest.rule),
        "resume_at": _moment_json(manifest.resume_at),
        "goes_on_with": _moment_json(manifest.goes_on_with),
    }


def manifest_from_json(data: Any) -> Manifest:
    """Return the manifest that `manifest_json` wrote; ConfigError when the data is not one."""
    return Manifest(**_read(data, _MANIFEST, what="a manifest"))


def run_json(run: Run) -> dict[str, Json]:
    """Return the run, manifest and all, as plain JSON values."""
    return {
        "at": _moment_json(run.at),
        "epoch": run.key.epoch,
        "kind": run.kind,
        "state": run.state.value,
        "instant": _moment_json(run.instant),
        "ended_at": _moment_json(run.ended_at),
        "reason": run.reason,
        "manifest": manifest_json(run.manifest),
    }


def run_from_json(data: Any) -> Run:
    """Return the run that `run_json` wrote; ConfigError when the data is not one."""
    read = _read(data, _RUN, what="a run")
    if missing := [key for key in ("at", "epoch", "kind") if read.get(key) is None]:
        raise ConfigError(f"a run's record has no {missing[0]!r}; it cannot be read")
    key = RunKey(read.pop("at"), read.pop("epoch"))
    return Run(key=key, **read)


def _timing_json(timing: StepTiming) -> dict[str, Json]:
    return {"step": timing.step, "seconds": timing.seconds, "items": timing.items}


def _moment_json(moment: datetime | None) -> str | None:
    return None if moment is None else in_utc(moment).isoformat()


def _read(data: Any, shape: Mapping[str, Callable[[Any], Any]], *, what: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{what} is written as a JSON object, not as {type(data).__name__}")
    read = {}
    for key, value in data.items():
        if key not in shape:
            raise ConfigError(f"{what} has no {key!r}; was it written by a newer Stoker?")
        try:
            read[key] = shape[key](value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{what} cannot have {value!r} as its {key!r}: {error}") from error
    return read


def _text(value: Any) -> str:
    return _of(str, value)


def _whole(value: Any) -> int:
    # True is an int to Python; to us it is a mistake in somebody's file.
    if isinstance(value, bool):
        raise TypeError("a whole number is needed")
    return _of(int, value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int) else _of(float, value)


def _of(kind: type[_Value], value: Any) -> _Value:
    if not isinstance(value, kind):
        raise TypeError(f"a value of type {kind.__name__} is needed")
    return value


def _moment(value: Any) -> datetime | None:
    return None if value is None else in_utc(datetime.fromisoformat(_text(value)))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in _of(list, value))


def _object(value: Any) -> dict[str, Json]:
    return dict(_of(dict, value))


def _wholes(value: Any) -> dict[str, int]:
    return {_text(key): _whole(number) for key, number in _of(dict, value).items()}


def _timings(value: Any) -> tuple[StepTiming, ...]:
    shape = {"step": _text, "seconds": _number, "items": _whole}
    return tuple(StepTiming(**_read(item, shape, what="a timing")) for item in _of(list, value))


_MANIFEST: Mapping[str, Callable[[Any], Any]] = {
    "config_hash": _text,
    "config": _object,
    "selected": _texts,
    "caps": _wholes,
    "budgets": _wholes,
    "counts": _wholes,
    "cost": _wholes,
    "steps": _timings,
    "sources": _timings,
    "reasons": _texts,
    "remaining": _texts,
    "lacking": _texts,
    "rule": _object,
    "resume_at": _moment,
    "goes_on_with": _moment,
}

_RUN: Mapping[str, Callable[[Any], Any]] = {
    "at": _moment,
    "epoch": _whole,
    "kind": _text,
    "state": RunState,
    "instant": _moment,
    "ended_at": _moment,
    "reason": _text,
    "manifest": manifest_from_json,
}
