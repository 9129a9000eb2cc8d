"""``python -m rota`` is the command line, whatever the environment's scripts are called."""

from rota.cli import main

main()
