"""Read and write the JSON files of a run and of the index.

Indented, keys sorted, ASCII, so that people can read and compare them. An unreadable file is a
ConfigError that names it. `json_folders` knows the paths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError, StokerError
from stoker.base.types import Json, to_utc
from stoker.files.durable import translate_os_error
from stoker.runs.json_lines import ChecksummedLines
from stoker.runs.model import CancelRequest, Run, parse_run, to_run_json

FORMAT_VERSION = (
    1  # of run.json, cancel.json and index.json; rises when an older Stoker could misread them
)

_REPAIR_HINT = "put it back from a backup, or move its folder away to give this run up"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as its file has it; once it has ended, with how far each of its artifacts goes."""

    run: Run
    artifacts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many records the run has, itself included."""
        return 1 + sum(int(str(head["rows"])) for head in self.artifacts.values())


def to_artifact_head(lines: ChecksummedLines) -> dict[str, Json]:
    """Return how far an artifact goes, as it is written into its run's file."""
    return {"rows": lines.position.rows, "chain": lines.position.chain}


def check_unchanged(lines: ChecksummedLines, head: Mapping[str, Json] | None) -> None:
    """Raise ConfigError unless an artifact is as its ended run recorded it."""
    if head is not None and (lines.partial_bytes or head != to_artifact_head(lines)):
        raise ConfigError(f"{lines.path} is not as its run left it; put it back from a backup")


def to_record_bytes(record: RunRecord) -> bytes:
    """Return the content of a run's file."""
    artifacts = {name: dict(head) for name, head in record.artifacts.items()}
    return to_json_bytes(
        {"format": FORMAT_VERSION, **to_run_json(record.run), "artifacts": artifacts}
    )


def read_record(path: Path) -> RunRecord | None:
    """Return the run in a file; None when there is none."""
    found = read_object(path)
    if found is None:
        return None
    check_format(found, path)
    run_part = {key: found[key] for key in found.keys() - {"format", "artifacts"}}
    try:
        run = parse_run(run_part)
        artifacts: dict[str, dict[str, Json]] = {
            name: {"rows": int(head["rows"]), "chain": str(head["chain"])}
            for name, head in found.get("artifacts", {}).items()
        }
    except (StokerError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise build_damage_error(path, str(error)) from error
    if run.name != path.parent.name:
        raise build_damage_error(path, f"it tells of run {run.name}")
    return RunRecord(run, artifacts)


def to_request_bytes(request: CancelRequest) -> bytes:
    """Return the content of the file that asks a run to stop."""
    return to_json_bytes(
        {"format": FORMAT_VERSION, "by": request.by, "at": to_utc(request.at).isoformat()}
    )


def read_request(path: Path) -> CancelRequest | None:
    """Return the cancel request in a file; None when there is none."""
    found = read_object(path)
    if found is None:
        return None
    check_format(found, path)
    try:
        return CancelRequest(by=str(found["by"]), at=to_utc(datetime.fromisoformat(found["at"])))
    except (StokerError, KeyError, TypeError, ValueError) as error:
        raise build_damage_error(path, str(error)) from error


def to_index_entry(run: Run) -> dict[str, Json]:
    """Return a run's entry in the index."""
    ended = None if run.ended_at is None else run.ended_at.isoformat()
    return {"kind": run.kind, "state": run.state.value, "ended_at": ended, "reason": run.reason}


def to_index_bytes(entries: Mapping[str, Json]) -> bytes:
    """Return the content of an index."""
    return to_json_bytes({"format": FORMAT_VERSION, "runs": entries})


def read_index(path: Path) -> dict[str, Any] | None:
    """Return the index's entries by run; None when it is missing or damaged."""
    try:
        found = read_object(path)
    except ConfigError:
        return None
    if found is None or not isinstance(found.get("format"), int):
        return None
    check_format(found, path)
    entries = found.get("runs")
    sound = isinstance(entries, dict) and all(
        isinstance(entry, dict) and {"kind", "state"} <= entry.keys() for entry in entries.values()
    )
    return entries if sound else None


def to_json_bytes(value: Mapping[str, Json]) -> bytes:
    """Return JSON for people."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return text.encode() + b"\n"


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in this file; None when there is no such file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise translate_os_error(error, path) from error
    except (ValueError, RecursionError) as error:
        raise build_damage_error(path, str(error)) from error
    if not isinstance(found, dict):
        raise build_damage_error(path, "it holds no JSON object")
    return found


def build_damage_error(path: Path, why: str) -> ConfigError:
    """Build the error for a damaged file, with what to do."""
    return ConfigError(f"{path} is damaged ({why}); {_REPAIR_HINT}")


def check_format(found: Mapping[str, Any], path: Path) -> None:
    """Raise ConfigError when a file was written by a Stoker newer than this one."""
    version = found.get("format")
    if not isinstance(version, int):
        raise build_damage_error(path, "it does not say its format")
    if version > FORMAT_VERSION:
        raise ConfigError(
            f"{path} has format {version}, newer than this Stoker knows ({FORMAT_VERSION}); "
            "upgrade Stoker, nothing was changed"
        )
