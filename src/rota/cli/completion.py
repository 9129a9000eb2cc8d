"""``rota completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

from typing import Literal

from cyclopts import App

from rota.cli import output
from rota.cli.app import app

completion = App(
    name="completion",
    help_epilogue="""\
Examples:

  rota completion bash > ~/.local/share/bash-completion/completions/rota
  rota completion zsh > ~/.zfunc/_rota
  rota completion fish > ~/.config/fish/completions/rota.fish

Make the folder first, and open a new shell afterwards. bash needs the package
bash-completion; without it put this into ~/.bashrc:
  eval "$(rota completion bash)"
zsh needs these in ~/.zshrc:
  fpath+=(~/.zfunc)
  autoload -Uz compinit && compinit""",
)


@completion.default
def print_script(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script that completes rota's commands and options in a shell.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    output.document(app.generate_completion(prog_name="rota", shell=shell).encode())
