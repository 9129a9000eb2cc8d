"""The HTTP API: decode, call a service, encode."""
