"""What things may be called."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""Types and queues."""
LABEL: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Tokens, and worker processes beside their token's name."""
RESERVED_PREFIX: Final = "rota."
"""Types whose names begin so belong to the server."""
