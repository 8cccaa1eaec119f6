"""The launch that belongs to each row of a table of measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import accelopt
import classroom
import documentation
import fusion
import inspector
import library
import megakernel
import probes
import searches
import tuned
from case import Case, Hole, Row

LIBRARY = "nki-library"
FAMILIES = {
    "AccelOpt": accelopt.case,
    "Jerry2423/kda-for-trainium": accelopt.case,
    "autocomp": searches.case,
    "asst4-trainium": classroom.case,
    "asst4-trainium2": classroom.case,
    "robertpare17/asst4-trainium": classroom.case,
    "rishic3/asst4-trainium2": classroom.case,
    "chenhzhu/asst4-trainium2": classroom.case,
    "xaviergonzalez/asst4-trainium2": classroom.case,
    "aws-neuron-sdk": documentation.case,
    "aws-neuron-sdk@v2.26.0": documentation.case,
    "allenkchau/trainium-kernel-fusion": fusion.case,
    "KevGomes1403/nki-moe-megakernel": megakernel.case,
    "awslabs/nki-autotune": tuned.case,
    "Joejoedesu/voyager-compiler": probes.case,
    "Lonny154/Matmul-Inspector": inspector.case,
    LIBRARY: library.case,
}
OLDER_PAGES = ("@752349fd", "nki_perf_guide")  # sources that only SDK 2.26 and earlier has


def source(row: Row) -> tuple[str, str]:
    """Return two strings: the name of the checkout that has the kernel of a row, and the path of
    the kernel's file in this checkout."""
    name, _, path = row["kernel_source"].removeprefix("github:").partition(":")
    name = re.sub(r"@[0-9a-f]{8}$| \(.*\)", "", name)
    path = re.sub(r"(@[0-9a-f]+\^?)? .*|@.*", "", path)
    if name == "aws-neuron-sdk" and any(page in row["kernel_source"] for page in OLDER_PAGES):
        name = "aws-neuron-sdk@v2.26.0"
    return name, path


def case(row: Row, checkouts: Mapping[str, Path]) -> Case:
    """Return the launch for a row. Raises Hole if it is not known how to run the kernel, or if
    there is no checkout of its repository."""
    name, path = source(row)
    if name not in FAMILIES:
        raise Hole(f"it is not known how to run kernels of {name}")
    if name not in checkouts:
        raise Hole(f"no checkout of {name} was given")
    return FAMILIES[name](row, checkouts[name], path)


def importable(checkouts: Mapping[str, Path]) -> list[str]:
    """Return the folders that must be on Python's path for several kernels: nki-library's package,
    if there is a checkout of it."""
    return [str(checkouts[LIBRARY] / "src/nkilib_src")] if LIBRARY in checkouts else []
