"""A FastAPI server with the OpenAI interface, streamed and whole, whose times are scripted.

    python fastapi_server.py --port 8001 --log requests.log

Four requests at a time; the first token takes 50 ms, each further one 10 ms. The log has a line for
each request: when it came and when its answer ended, on the clock of the machine.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse, StreamingResponse

SLOTS, FIRST_TOKEN, GAP = 4, 0.05, 0.01


def event(document: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(document)}\n\n"


def application(log: Path) -> FastAPI:
    """The server."""
    app, slots = FastAPI(), asyncio.Semaphore(SLOTS)
    lines = log.open("a", buffering=1)

    async def tokens(count: int) -> AsyncIterator[str]:
        came = time.monotonic()
        async with slots:
            begun = time.monotonic()
            for number in range(count):
                await asyncio.sleep(begun + FIRST_TOKEN + number * GAP - time.monotonic())
                yield f" t{number}"
        lines.write(f"{came} {time.monotonic()}\n")

    async def stream(count: int, usage: dict[str, int]) -> AsyncIterator[str]:
        async for token in tokens(count):
            yield event({"choices": [{"text": token}]})
        yield event({"choices": [], "usage": usage}) + "data: [DONE]\n\n"

    @app.get("/health")
    async def health() -> str:
        return "ok"

    @app.post("/v1/completions")
    async def completions(asked: dict[str, Any]) -> Response:
        count, words = int(asked["max_tokens"]), len(asked["prompt"].split())
        usage = {"prompt_tokens": words, "completion_tokens": count}
        if asked.get("stream"):
            return StreamingResponse(stream(count, usage), media_type="text/event-stream")
        text = "".join([token async for token in tokens(count)])
        return JSONResponse({"choices": [{"text": text}], "usage": usage})

    return app


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--log", type=Path, required=True)
    asked = parser.parse_args()
    uvicorn.run(application(asked.log), port=asked.port, log_level="error")


if __name__ == "__main__":
    main()
