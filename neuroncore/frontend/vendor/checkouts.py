"""Checkouts of public repositories that the user names, and the package in each."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from neuroncore.base.errors import UsageError
from neuroncore.base.structs import dataclass
from neuroncore.frontend.vendor.packages import REPOSITORIES, Repository

# What `neuroncore run --with` says, for the programs that it starts: NAME=FOLDER, as in PATH.
WITH = "NEURONCORE_WITH"


@dataclass(frozen=True)
class Checkout:
    """A folder that the user names for a repository, and how: by a variable or `--with`."""

    repository: Repository
    given: str
    said: str

    @property
    def before_installed(self) -> bool:
        """True if it is served even if the package is installed."""
        return self.said == "--with"

    def package(self) -> Path:
        """The folder of the package, in this folder or around it. Raises UsageError."""
        given = Path(self.given).expanduser()
        for place in _places(self.repository, given):
            if all((place / name).exists() for name in self.repository.holds):
                return place
        raise UsageError(self._wrong(given))

    def passed_over(self, origin: str | None) -> str:
        """The warning for a package that is installed, from a file `origin`, and found first."""
        name = self.repository.name
        return (
            f"neuroncore: {name} is the one that is installed ({origin}), not "
            f"{self.said}={self.given}; `neuroncore run --with {name}={self.given}` takes that"
        )

    def _wrong(self, given: Path) -> str:
        repository = self.repository
        said = f"{self.said} {repository.name}" if self.before_installed else self.said
        lines = [
            f"{said}={self.given}",
            f"  {'expected':9} a checkout of {repository.url}: "
            f"{' or '.join(repository.places)} in it, with {' and '.join(repository.holds)}",
            f"  {'got':9} {_seems(given)}",
        ]
        if repository.commit and _is_of(given, repository):
            lines.append(f"  {'because':9} later commits no longer have that folder")
            lines.append(f"  {'hint':9} git -C {given} checkout {repository.commit}")
        return "\n".join(lines)


def named(repository: Repository) -> Checkout | None:
    """The checkout of a repository that the user names; --with comes before the variable."""
    for one in os.environ.get(WITH, "").split(os.pathsep):
        name, _, folder = one.partition("=")
        if name == repository.name:
            return Checkout(repository, folder, "--with")
    folder = os.environ.get(repository.variable, "")
    return Checkout(repository, folder, repository.variable) if folder else None


def parsed(text: str) -> Checkout:
    """NAME=FOLDER. Raises UsageError if there is no such name, or the package isn't there."""
    name, equals, folder = text.partition("=")
    if not equals or not folder or name not in REPOSITORIES:
        raise UsageError(
            f"--with {text}\n  {'expected':9} NAME=FOLDER, a checkout; "
            f"NAME is {' or '.join(REPOSITORIES)}"
        )
    checkout = Checkout(REPOSITORIES[name], os.path.abspath(os.path.expanduser(folder)), "--with")
    checkout.package()
    return checkout


def _places(repository: Repository, given: Path) -> list[Path]:
    """Where the package may be if `given` is the checkout, a folder on the way, or inside."""
    below = []
    for place in repository.places:
        parts = PurePosixPath(place).parts
        below += [given.joinpath(*parts[skipped:]) for skipped in range(len(parts) + 1)]
    around = [above / place for above in given.absolute().parents for place in repository.places]
    return below + around


def _is_of(given: Path, repository: Repository) -> bool:
    """Return whether a folder looks like a checkout of a repository, at any commit."""
    return any((given / place).parent.is_dir() for place in repository.places[:1])


def _seems(given: Path) -> str:
    """The kind of a folder, as far as one can see."""
    if not given.exists():
        return "there is no such folder"
    if not given.is_dir():
        return "a file"
    known = [one.url for one in REPOSITORIES.values() if _is_of(given, one)]
    if known:
        return f"what seems to be a checkout of {known[0]}"
    inside = sorted(entry.name for entry in given.iterdir() if entry.name[0] != ".")
    shown = ", ".join(inside[:5]) + (", ..." if len(inside) > 5 else "")
    return f"a folder with {shown}" if shown else "an empty folder"
