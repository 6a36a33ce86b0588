"""A server whose latencies are known: a slot, a first token, then one token after the other.

It speaks the OpenAI API for completions, streamed or whole, needs the standard library only, and
computes nothing. So a load test of it has one right answer, also with a planted stall:

    python scripted_server.py --port 8001 --first-token 0.05 --gap 0.005 --slots 8 --stall 3 1
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable


class Script:
    """When the server does what."""

    def __init__(self, asked: argparse.Namespace) -> None:
        """A request takes one of the slots; those that find none wait in the order they came."""
        self.first_token, self.gap = asked.first_token, asked.gap
        self.stall = tuple(asked.stall)
        self.crash_after = asked.crash_after
        self.slots = asyncio.Semaphore(asked.slots)
        self.begun: float | None = None
        self.requests = 0

    async def until(self, moment: float) -> None:
        """Wait for a moment, and through the stall if that has come."""
        await asyncio.sleep(max(moment - time.monotonic(), 0.0))
        if self.stall and self.begun is not None:
            start, length = self.begun + self.stall[0], self.stall[1]
            if start <= time.monotonic() < start + length:
                await asyncio.sleep(start + length - time.monotonic())

    def request(self) -> None:
        """Count a request; the clock of the stall starts with the first."""
        self.begun = self.begun or time.monotonic()
        self.requests += 1
        if self.requests == self.crash_after:
            raise SystemExit(13)


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, object]] | None:
    """The path and the JSON of a request, or None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    body = await reader.readexactly(length)
    return head.split(b" ")[1].decode(), json.loads(body) if body else {}


def chunk(data: bytes) -> bytes:
    """A piece of a body, as HTTP frames it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: dict[str, object]) -> bytes:
    """A server-sent event, framed."""
    return chunk(b"data: " + json.dumps(document).encode() + b"\n\n")


async def answer(script: Script, writer: asyncio.StreamWriter, asked: dict[str, object]) -> None:
    """Generate the tokens that were asked for, at the scripted times."""
    tokens = int(str(asked.get("max_tokens", 16)))
    prompt = str(asked.get("prompt", "")).split()
    usage = {"prompt_tokens": len(prompt), "completion_tokens": tokens}
    streamed = bool(asked.get("stream"))
    async with script.slots:
        moment = time.monotonic() + script.first_token
        if streamed:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            writer.write(b"transfer-encoding: chunked\r\n\r\n")
        for number in range(tokens):
            await script.until(moment + number * script.gap)
            if streamed:
                writer.write(event({"choices": [{"text": f" t{number}"}]}))
    if streamed:
        if dict(asked.get("stream_options") or {}).get("include_usage"):
            writer.write(event({"choices": [], "usage": usage}))
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    else:
        body = json.dumps({"choices": [{"text": " t" * tokens}], "usage": usage}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()


Answer = Callable[[asyncio.StreamWriter, dict[str, object]], Awaitable[None]]


async def listen(host: str, port: int, reply: Answer) -> None:
    """Let every request be answered, and /health with it, until one of the answers says exit."""
    crashed = asyncio.get_running_loop().create_future()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                path, document = request
                if path == "/health":
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    continue
                await reply(writer, document)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except SystemExit as crash:
            crashed.set_result(crash.code)
        finally:
            writer.close()

    server = await asyncio.start_server(connection, host, port)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    raise SystemExit(await crashed)


async def serve(asked: argparse.Namespace) -> None:
    """Answer as the script says."""
    script = Script(asked)

    async def reply(writer: asyncio.StreamWriter, document: dict[str, object]) -> None:
        script.request()
        await answer(script, writer, document)

    await listen(asked.host, asked.port, reply)


def main() -> None:
    """Read the script from the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--first-token", type=float, default=0.05, help="seconds in the slot")
    parser.add_argument("--gap", type=float, default=0.005, help="seconds from token to token")
    parser.add_argument("--slots", type=int, default=8, help="requests at a time")
    parser.add_argument(
        "--stall", type=float, nargs=2, default=(), metavar=("START", "LENGTH"),
        help="say nothing for LENGTH seconds, START seconds after the first request",
    )  # fmt: skip
    parser.add_argument("--crash-after", type=int, default=0, help="die at this request")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
