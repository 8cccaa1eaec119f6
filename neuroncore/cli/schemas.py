"""neuroncore schema: the JSON Schema of each command's output with --json.

A specification describes a value. It has one of three forms:

* the name of a type; the value may be null if the name has a "?";
* a list with the specification of all items;
* a dict with a specification for each key. A key with "?" may be missing, and the key "*" means
  all other keys.

Objects may have more keys than their schema, because a release that adds a key does not change the
number of the schema."""

from __future__ import annotations

import argparse
from typing import Any

from neuroncore.base.errors import unknown
from neuroncore.capture import difference as measured
from neuroncore.capture import listing
from neuroncore.capture import why as measured_why
from neuroncore.checks import check
from neuroncore.cli import (
    captures,
    doctor,
    document,
    environment,
    executing,
    instructions,
    machines,
    score,
    terminal,
    usage,
)
from neuroncore.report import difference, why

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT, NUMBER, COUNT, FLAG, ANY = "string", "number", "integer", "boolean", "any"
FAILURE = {"statement": TEXT, "code?": "string?", "file?": "string?", "line?": "integer?"}
FINDING = {
    "code": TEXT,
    "severity": TEXT,
    "file": "string?",
    "line": "integer?",
    "column": "integer?",
    "end_line": "integer?",
    "end_column": "integer?",
    "sentence": TEXT,
    "because": "string?",
    "hint": "string?",
    "source": "string?",
}
FIGURES = {"total_time": NUMBER, "*": ANY}  # the profiler's names: docs/counters.md
LAUNCH = {
    "kernel": TEXT,
    "target": TEXT,
    "results": [{"max_abs": ANY, "rel_l2": ANY, "worst": [COUNT], "got": ANY, "want": ANY}],
    "agrees": "boolean?",
    "programs": [[COUNT]],
    "estimate": FIGURES,
    "cores": [FIGURES],
    "findings": [FINDING],
    "flags": [TEXT],
    "collectives?": [{"operation": TEXT, "replica_group": [COUNT], "basis": TEXT}],
    "slowest_rank?": COUNT,
    "waited_for_it?": NUMBER,
    "precision?": {"results": [ANY], "lines": [{"place": TEXT, "share": NUMBER}]},
    "harness?": ANY,
    "orders?": TEXT,
    "verify?": {"instructions": COUNT, "compared": COUNT, "difference": "string?", "text": TEXT},
    "compiled?": [TEXT],
}
CHANGE = {"time": NUMBER, "gain": NUMBER, "bound_by": "string?"}
LINE = {"place": TEXT, "share": NUMBER}
WHY = {
    "schema": TEXT,
    "kernel": TEXT,
    "target": "string?",
    "total_time": NUMBER,
    "order": TEXT,
    "descriptors": TEXT,
    "launch?": TEXT,
    "loads?": TEXT,
    "assume?": TEXT,
    "lines": [LINE],
    "rank?": COUNT,
    "core?": COUNT,
    "bound_by?": TEXT,
    "sentence?": TEXT,
    "resources?": [CHANGE],
    "pair?": ANY,
    "perfect_overlap?": ANY,
    "changes?": [CHANGE],
    "all?": FLAG,
}
MEASURED_WHY = {
    "schema": TEXT,
    "measured": FLAG,
    "kernel": TEXT,
    "target": "string?",
    "kernel_time": NUMBER,
    "total_time": NUMBER,
    "kernel_time_p10?": NUMBER,
    "kernel_time_p90?": NUMBER,
    "unknown_opcodes?": {"*": COUNT},
    "busy": {"*": NUMBER},
    "lines": [ANY],
    "waits": [{"engine": TEXT, "for": TEXT, "time": NUMBER}],
}
ROW = {"engine": "string?", "what": TEXT, "old": ANY, "new": ANY}
FACTS = {"*": {"value": ANY, "grade": TEXT, "source": TEXT}}
SCORED = {"id": TEXT, "kernel": TEXT, "measured_us": NUMBER, "estimated_us": NUMBER}

SPECIFICATIONS: dict[str, dict[str, Any]] = {
    document.SCHEMA: {
        "passed": FLAG,
        "target": TEXT,
        "seed": COUNT,
        "versions": {"neuroncore": TEXT, "*": TEXT},
        "findings": [FINDING],
        "launches": [LAUNCH],
        "error": "failure?",
    },
    captures.WHY_SCHEMA: {"launches": [ANY], "error": "failure?"},
    why.SCHEMA: WHY,
    measured_why.SCHEMA: MEASURED_WHY,
    difference.SCHEMA: {
        "kernels": [TEXT],
        "targets": [TEXT],
        "total_time": [NUMBER],
        "new_is_faster": "number?",
        "told_apart": FLAG,
        "work_that_differs": NUMBER,
        "results": TEXT,
        "figures": {"*": [ANY]},
        "lines": [{"text": TEXT, "place": TEXT, "old": "number?", "new": "number?"}],
        "bound_by?": [TEXT],
    },
    measured.SCHEMA: {
        "kernels": [TEXT],
        "targets": ["string?"],
        "how": [TEXT],
        "kernel_time": [NUMBER],
        "busy": [{"*": NUMBER}],
        "transfers": [COUNT],
        "transfer_bytes": [NUMBER],
        "opcodes": [ROW],
        "lines": [ROW],
    },
    check.SCHEMA: {
        "api": "string?",
        "files": [TEXT],
        "launches": "integer?",
        "unfinished": "string?",
        "orders": [TEXT],
        "verified": [TEXT],
        "findings": [FINDING],
    },
    captures.SCHEMA: {"kernel": TEXT, "summary": {"*": ANY}, "why": MEASURED_WHY},
    listing.SCHEMA: {
        "name": TEXT,
        "target": TEXT,
        "compiler": TEXT,
        "inputs": {"*": [ANY]},
        "outputs": {"*": [ANY]},
        "cores": [{"name": TEXT, "engines": {"*": [ANY]}, "queues": [ANY], "memory": [ANY]}],
        "beside?": [{"place": TEXT, "kind": TEXT, "theirs": ANY, "ours": ANY, "verdict": TEXT}],
    },
    executing.SCHEMA: {"name": TEXT, "outputs": {"*": {"format": TEXT, "shape": [COUNT]}}},
    score.SCORE_SCHEMA: {
        "rows": [SCORED],
        "asserted": [SCORED],
        "errors": {"*": {"count": COUNT, "median": NUMBER}},
        "chains": [{"name": TEXT, "count": COUNT, "spearman": "number?"}],
        "order": {"*": ANY},
        "missing": [{"id": TEXT, "kernel": TEXT, "why": TEXT}],
    },
    score.SCHEMA: {
        "rows": [
            {
                "kernel": TEXT,
                "machine": TEXT,
                "harness": TEXT,
                "measured": NUMBER,
                "estimate": NUMBER,
            }
        ],
        "harnesses": [{"harness": TEXT, "machine": TEXT, "number": COUNT, "error": NUMBER}],
    },
    instructions.SCHEMA: {
        "instructions": [
            {
                "name": TEXT,
                "module": TEXT,
                "equation": TEXT,
                "engines": [TEXT],
                "machines": [TEXT],
                "opcode": TEXT,
                "defined": TEXT,
                "parameters": [
                    {"name": TEXT, "required": FLAG, "description": TEXT, "shape": [TEXT]}
                ],
                "rules": [{"sentence": TEXT, "because": "string?"}],
                "cost": TEXT,
                "meaning": TEXT,
            }
        ],
        "operators": [{"name": TEXT, "kind": TEXT, "operands": COUNT, "engines": [TEXT]}],
        "functions": [{"name": TEXT, "definition": TEXT, "valid": ["number?"]}],
    },
    machines.SCHEMA: {
        "machines": [
            {"name": TEXT, "generation": TEXT, "description": TEXT, "facts": FACTS, "sources": ANY}
        ],
        "instances": [
            {"name": TEXT, "chips": COUNT, "cores": COUNT, "ranks": {"*": COUNT}, "facts": FACTS}
        ],
    },
    doctor.SCHEMA: {
        "passed": FLAG,
        "checks": [{"name": TEXT, "status": TEXT, "sentence": TEXT, "hint": TEXT}],
    },
    environment.SCHEMA: {
        **dict.fromkeys(("neuroncore", "folder", "python", "executable"), TEXT),
        **dict.fromkeys(("system", "processor", "cache", "target"), TEXT),
        "processors": COUNT,
        "packages": {"*": TEXT},
        "variables": {"*": TEXT},
    },
    usage.SCHEMA: {"passed": FLAG, "error": FAILURE},
}


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the JSON Schema of an output of --json. NAME is the field `schema` of the output. "
        "Without NAME, print all names."
    )
    parser.add_argument("name", nargs="?", help="such as neuroncore.run/2")
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if name is None:
        terminal.write("\n".join(SPECIFICATIONS))
        return 0
    if name not in SPECIFICATIONS:
        raise unknown(f"there is no schema {name!r}", name, SPECIFICATIONS)
    terminal.write_json(schema(name))
    return 0


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document by its name."""
    constant = {"schema": {"const": name}}
    compiled = _compiled(SPECIFICATIONS[name])
    required = list(dict.fromkeys(["schema", *compiled.get("required", ())]))
    return {
        "$schema": DIALECT,
        "title": name,
        **compiled,
        "properties": {**compiled["properties"], **constant},
        "required": required,
    }


def _compiled(shape: Any) -> dict[str, Any]:
    """Return the JSON Schema of a specification."""
    if isinstance(shape, list):
        return {"type": "array", "items": _compiled(shape[0])}
    if isinstance(shape, dict):
        return _object(shape)
    if shape.endswith("?"):
        return {"anyOf": [_compiled(shape[:-1]), {"type": "null"}]}
    if shape == ANY:
        return {}
    return _compiled(FAILURE) if shape == "failure" else {"type": shape}


def _object(shape: dict[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in shape.items() if key != "*"}
    compiled: dict[str, Any] = {
        "type": "object",
        "properties": {key.removesuffix("?"): _compiled(value) for key, value in fields.items()},
        "required": [key for key in fields if not key.endswith("?")],
    }
    if "*" in shape:
        compiled["additionalProperties"] = _compiled(shape["*"])
    return compiled
