"""The command line: one file per group of commands; ``print`` and the terminal live here only."""

from rota.cli.app import main

__all__ = ["main"]
