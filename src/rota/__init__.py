"""Durable background jobs and schedules behind one guarded HTTP API."""

__version__ = "0.1.0"

__all__: list[str] = []
