"""The options for several ranks, of commands that run kernels."""

from __future__ import annotations

import argparse

from neuroncore.base.errors import UsageError


def add_world(parser: argparse.ArgumentParser) -> None:
    """Add the options for several ranks."""
    parser.add_argument(
        "--ranks",
        type=natural,
        metavar="N",
        help="run the kernel on N ranks; functions that make arguments and the reference receive "
        "the rank if they have a parameter `rank`",
    )
    parser.add_argument(
        "--lnc",
        type=int,
        choices=(1, 2),
        help="physical cores per rank (default: those of the grid)",
    )
    parser.add_argument(
        "--instance", metavar="NAME", help="the instance of the ranks, such as trn2.48xlarge"
    )


def check_world(arguments: argparse.Namespace, what: str) -> None:
    """Raise UsageError if ranks are given without a kernel FILE.py::KERNEL, or options of ranks
    without ranks."""
    if arguments.ranks is None:
        for option in ("lnc", "instance"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option} needs --ranks")
    elif "::" not in what:
        raise UsageError(f"--ranks needs a kernel: {what}::KERNEL")


def natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a natural number")
    return int(text)
