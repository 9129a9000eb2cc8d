"""The store on one SQLite file: one writing thread, many readers."""
