"""On how many ranks a kernel runs, as commands that run kernels are told."""

from __future__ import annotations

import argparse

from neuroncore.base.errors import UsageError


def add_world(parser: argparse.ArgumentParser) -> None:
    """On how many ranks a kernel runs."""
    parser.add_argument(
        "--ranks",
        type=natural,
        metavar="N",
        help="run the kernel on so many ranks together; functions that make arguments and the "
        "reference are given the rank if they have a parameter of that name",
    )
    parser.add_argument(
        "--lnc", type=int, choices=(1, 2), help="physical cores of a rank; by default the grid's"
    )
    parser.add_argument(
        "--instance", metavar="NAME", help="what the ranks are in, such as trn2.48xlarge"
    )


def check_world(arguments: argparse.Namespace, what: str) -> None:
    """Raise UsageError for ranks of what isn't one kernel, FILE.py::KERNEL, and for
    options that only ranks have."""
    if arguments.ranks is None:
        for option in ("lnc", "instance"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option} goes with --ranks: it is about a kernel on ranks")
    elif "::" not in what:
        raise UsageError(f"--ranks is for one kernel: {what}::KERNEL")


def natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a natural number")
    return int(text)
