"""The Python client and worker, which speak to a server over HTTP."""
