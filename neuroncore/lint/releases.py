"""Releases of the API: the names and parameters of each.

0.1 is the older API, neuronxcc.nki of SDK 2.21 to 2.26; 0.2 is nki of SDK 2.27 and 2.28, and 0.3 to
0.6 of 2.29 to 2.32. `api/signatures.json` has for each name its forms: the first and the last
release, and the parameters, with "=" after those that have a default, as the reference pages of
those SDKs list them and nki-library of the same SDK uses them. Pages before 0.3 leave out much that
kernels use.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from neuroncore.base.structs import dataclass

RELEASES = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
COMPLETE = "0.3"  # from this release on the SDK contains the declarations
HOME = Path(__file__).with_name("api")
ROLES: Mapping[str, Any] = tomllib.loads((HOME / "roles.toml").read_text("utf-8"))


@dataclass(frozen=True)
class ApiForm:
    """The parameters of a name in releases from `first` to `last`; None if it isn't a function."""

    first: str
    last: str
    parameters: tuple[str, ...] | None

    def holds_in(self, release: str) -> bool:
        return self.first <= release <= self.last

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, without the mark of a default."""
        return tuple(one.rstrip("=") for one in self.parameters or ())

    @cached_property
    def takes_any(self) -> bool:
        return self.parameters is None or any(one.startswith("**") for one in self.parameters)


@cache
def forms() -> Mapping[str, Sequence[ApiForm]]:
    """Return the forms of all names, of all releases."""
    table = json.loads((HOME / "signatures.json").read_text("utf-8"))
    return {name: [_form(*row) for row in rows] for name, rows in table.items()}


def _form(first: str, last: str, parameters: str | None) -> ApiForm:
    return ApiForm(first, last, None if parameters is None else tuple(parameters.split()))


@cache
def form_in(name: str, release: str) -> ApiForm | None:
    """Return the form of a name in a release; None if the release lacks it or the name is
    unknown."""
    return next((one for one in forms().get(name, ()) if one.holds_in(release)), None)


def elsewhere(rows: Sequence[ApiForm], release: str) -> str:
    """Return the releases of some forms, "0.1" or "0.3 to 0.6", if a release is known to lack them:
    the release is later than them, or both it and COMPLETE are earlier. Else empty."""
    if not rows:
        return ""
    first, last = rows[0].first, rows[-1].last
    if last < release or first > max(release, COMPLETE):
        return first if first == last else f"{first} to {last}"
    return ""


def is_in(releases: str, release: str) -> bool:
    """Return whether a release is in a range such as "0.3-0.5", "0.3-" or "0.1"; all are in ""."""
    if not releases:
        return True
    first, dash, last = releases.partition("-")
    return first <= release <= (last or (RELEASES[-1] if dash else first))
