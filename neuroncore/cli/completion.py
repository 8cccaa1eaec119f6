"""neuroncore completion: a script that completes commands, options and files in a shell."""

from __future__ import annotations

import argparse
from pathlib import Path

from neuroncore import cli, machine
from neuroncore.base.errors import UsageError

SHELLS = "bash", "zsh", "fish"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print a script that completes the commands and options of neuroncore. This command needs "
        "the extra neuroncore[completion]. Write the script to "
        "~/.local/share/bash-completion/completions/neuroncore for bash, to _neuroncore in a "
        "folder of $fpath for zsh, to ~/.config/fish/completions/neuroncore.fish for fish."
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(command=completion)


def completion(arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise UsageError("completion needs shtab: pip install 'neuroncore[completion]'") from None
    parser = cli.parser()
    for each in parsers(parser):
        for action in each._actions:
            if action.type in (None, Path) and _names_a_file(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar == "MACHINE":
                action.choices = machine.names()
    print(shtab.complete(parser, shell=arguments.shell))
    return 0


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return a parser and the parsers of its commands."""
    every = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                every += parsers(each)
    return every


def _names_a_file(action: argparse.Action) -> bool:
    """Return whether the value of an argument is a file, judging by its placeholder."""
    placeholder = action.metavar if isinstance(action.metavar, str) else ""
    return "FILE" in placeholder or "OUT" in placeholder or action.dest in ("old", "new")
