"""What carries a call: the contract, and HTTP, once awaiting and once blocking.

A transport makes one try and never repeats: :class:`~rota.client.protocol.Repeats` decides about that.
"""

from __future__ import annotations

import ssl
from typing import Any, Protocol

import httpx2

from rota import __version__
from rota.client.protocol import Answer, Call, Trouble, bearer, server_url


class Transport(Protocol):
    """Carries calls for a :class:`~rota.client.client.Client`, of any thread."""

    @property
    def where(self) -> str:
        """What it reaches, as it stands in messages."""
        ...

    def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        """Send the call once, with this body, and return what came of it."""
        ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """Carries calls for an :class:`~rota.client.aio.AsyncClient`."""

    @property
    def where(self) -> str: ...

    async def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble: ...

    async def close(self) -> None: ...


class HttpTransport:
    """Blocking HTTP with kept connections. Threads may share it."""

    def __init__(self, url: str | None, token: str | None, timeout: float, insecure_http: bool) -> None:
        self.where = server_url(url, insecure_http=insecure_http)
        self._timeout = timeout
        self._http = httpx2.Client(**_options(self.where, token, timeout))

    def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        try:
            response = self._http.request(**_request(self.where, call, body, self._timeout))
        except httpx2.TransportError as fault:
            return _trouble(fault)
        return Answer(response.status_code, response.headers, response.content)

    def close(self) -> None:
        self._http.close()


class AsyncHttpTransport:
    """HTTP with kept connections, for one event loop."""

    def __init__(self, url: str | None, token: str | None, timeout: float, insecure_http: bool) -> None:
        self.where = server_url(url, insecure_http=insecure_http)
        self._timeout = timeout
        self._http = httpx2.AsyncClient(**_options(self.where, token, timeout))

    async def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        try:
            response = await self._http.request(**_request(self.where, call, body, self._timeout))
        except httpx2.TransportError as fault:
            return _trouble(fault)
        return Answer(response.status_code, response.headers, response.content)

    async def close(self) -> None:
        await self._http.aclose()


def _options(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    return {
        "headers": {
            "Authorization": bearer(token),
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"rota-python/{__version__}",
        },
        # Loading the system's certificates takes longer than a call; plain HTTP needs none.
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http:") else True,
        "trust_env": False,
        "follow_redirects": False,
        "timeout": timeout,
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=20.0),
    }


def _request(url: str, call: Call[Any], body: bytes | None, timeout: float) -> dict[str, Any]:
    headers = {} if body is None else {"Content-Type": "application/json"}
    if call.traceparent is not None:
        headers["traceparent"] = call.traceparent
    return {
        "method": call.method,
        "url": url + call.path,
        "content": body,
        "headers": headers,
        "timeout": timeout + call.wait_seconds,
    }


def _trouble(fault: httpx2.TransportError) -> Trouble:
    if isinstance(fault, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return Trouble.NOT_SENT
    return Trouble.SILENT if isinstance(fault, httpx2.TimeoutException) else Trouble.BROKEN
