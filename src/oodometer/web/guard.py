"""What every request must keep to, and what every answer says."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from oodometer.web.site import POLICY

# Any: ASGI messages are dictionaries of whatever the specification says.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_LONGEST_QUERY = 50_000  # bytes
_HEADERS: Mapping[str, str] = {
    "content-security-policy": f"{POLICY}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


class Guard:
    """Refuses other hosts and methods; adds the headers that protect readers.

    A page elsewhere can make its own name point to this machine (DNS rebinding); the Host header
    then has that name. With `any_address`, numeric addresses are accepted too: these cannot be
    pointed anywhere.
    """

    def __init__(self, app: App, hosts: frozenset[str], any_address: bool) -> None:
        self._app, self._hosts, self._any_address = app, hosts, any_address

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                known = {name.lower() for name, _ in own}
                own += [
                    (name.encode(), text.encode())
                    for name, text in _HEADERS.items()
                    if name.encode() not in known
                ]
                message["headers"] = own
            await send(message)

        problem = self._problem(scope)
        if problem is None:
            # Whoever serves this leaves the body out where only the head was asked for.
            await self._app({**scope, "method": "GET"}, receive, send_guarded)
            return
        status, sentence = problem
        start = {"type": "http.response.start", "status": status,
                 "headers": [(b"content-type", b"text/plain; charset=utf-8")]}  # fmt: skip
        await send_guarded(start)
        await send_guarded({"type": "http.response.body", "body": f"{sentence}\n".encode()})

    def _problem(self, scope: Message) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "This server is read-only: it answers GET and HEAD."
        if len(scope.get("query_string", b"")) > _LONGEST_QUERY:
            return 414, "The query is too long."
        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1 or not self._is_ours(host_name(given[0].decode("latin-1"))):
            return 421, "This server is not known by that host name; see --allow-host."
        return None

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def host_name(header: str) -> str:
    """The host of a Host header, without its port.

    >>> host_name("LOCALHOST:80"), host_name("[::1]:80"), host_name("::1")
    ('localhost', '::1', '')
    """
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    name, _, port = text.partition(":")
    return "" if ":" in port else name
