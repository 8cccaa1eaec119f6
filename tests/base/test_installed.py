"""Versions of packages are found without the library's reader of their metadata."""

from importlib import metadata

import pytest

from neuroncore.base.lazy import version
from neuroncore.cli.document import PACKAGES


@pytest.mark.parametrize("name", ["neuroncore", *PACKAGES])
def test_the_version_is_read_from_the_metadata(name):
    assert version(name) == metadata.version(name)


def test_the_first_folder_of_the_path_with_the_package_decides(tmp_path, monkeypatch):
    (tmp_path / "numpy-0.1.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "archive.zip")
    monkeypatch.syspath_prepend(tmp_path)
    assert version("numpy") == "0.1"


def test_a_package_that_is_not_installed_has_no_version():
    with pytest.raises(metadata.PackageNotFoundError):
        version("nobody_has_this")
