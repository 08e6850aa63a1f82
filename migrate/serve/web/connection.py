"""Connections with limits that uvicorn has not: of a request's head, of clients that send or receive nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from migrate.serve.http_messages import Limits, Problem, refusal

_LINGER_SECONDS = 2.0
"""How long what a refused client still sends is read: a connection closed before would lose the answer."""


class Connection(HttpToolsProtocol):
    """One connection; a subclass states the limits."""

    limits: Limits
    url = b""
    _head_bytes = 0
    _in_head = True
    _is_refused = False
    _timer: asyncio.TimerHandle | None = None
    """For the end of a head."""
    _stuck: asyncio.TimerHandle | None = None
    """For a client that receives nothing."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.limits.head_seconds, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._stop_timer()
        if self._stuck is not None:
            self._stuck.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, of whose head there is a limit."""
        if self._is_refused:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            if self._head_bytes > self.limits.head_bytes:
                self._refuse(Problem(431, f"the headers are longer than {self.limits.head_bytes} bytes"))
            elif self._timer is None:
                self._timer = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def on_message_begin(self) -> None:
        """The first byte of a request was read."""
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head was read."""
        self._in_head = False
        self._stop_timer()
        if len(self.url) > self.limits.head_bytes:
            raise ValueError("the request line is too long")  # which ends in `send_400_response`
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The client receives more slowly than is sent."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has received what was sent."""
        if self._stuck is not None:
            self._stuck.cancel()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """No other request came: a client that has not even received its answer is not waited for."""
        if self.transport.get_write_buffer_size() > 0:
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed; uvicorn calls it. Its parser takes no line of 64 KiB or more."""
        self._refuse(Problem(400, "this is no request of HTTP/1.1", hint=msg))

    def _refuse(self, problem: Problem) -> None:
        """Answer a head that is no good, and read no more."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:  # another answer is being sent
            self.transport.abort()
            return
        self._is_refused = True
        if len(self.url) > self.limits.head_bytes // 2:
            problem = Problem(414, f"the request line is longer than {self.limits.head_bytes} bytes", hint=_SHORTER)
        answer = refusal(problem)
        kind = b"content-type: " + answer.kind + b"\r\nconnection: close\r\n"
        size = f"content-length: {len(answer.body)}\r\n\r\n".encode()
        self.transport.write(STATUS_LINE[problem.status] + kind + size + answer.body)
        self.transport.write_eof()
        self._stop_timer()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


_SHORTER = "keys of this size cannot be asked over HTTP: read them in Python"
