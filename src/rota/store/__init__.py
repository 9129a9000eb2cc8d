"""Where state lives: one contract, one package per database."""
