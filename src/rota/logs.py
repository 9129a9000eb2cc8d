"""Sets up logging: one line an event on standard error, as text or as JSON."""

from __future__ import annotations

import logging
import sys

import structlog

from rota.settings import Settings


def configure(settings: Settings) -> None:
    """Apply the level and the form that the settings ask for, to Rota's own log and to its libraries'."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries say at level info what Rota says itself.
    logging.basicConfig(
        stream=sys.stderr, level=max(level, logging.WARNING), format="%(levelname)s %(message)s"
    )
