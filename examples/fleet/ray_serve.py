"""Replicas behind Ray Serve: this command starts them all, and one port answers for them.

    pip install 'nodewise[fleet,ray]'
    nodewise fleet sweep examples/fleet/ray_serve.toml -o out/ray-serve.study

Each replica has slots, in which a first token and then one after the other is slept for. It speaks
the OpenAI API for completions, streamed or whole, and computes nothing: what a sweep finds beside
the sleeps is what Ray Serve itself costs. /health answers 200 when all replicas are there.
"""

import argparse
import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse


def event(document: dict[str, object]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(document)}\n\n"


@serve.deployment
class Model:
    """One replica; Ray Serve sends it no more requests at a time than it has slots."""

    def __init__(self, first_token: float, gap: float) -> None:
        """The seconds of a token."""
        self.first_token, self.gap = first_token, gap

    async def tokens(self, count: int) -> AsyncIterator[str]:
        """Generate the tokens, at the scripted times."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        for number in range(count):
            await asyncio.sleep(begun + self.first_token + number * self.gap - clock())
            yield f" t{number}"

    async def stream(self, count: int, usage: dict[str, int]) -> AsyncIterator[str]:
        """The same as server-sent events, with the count at the end."""
        async for token in self.tokens(count):
            yield event({"choices": [{"text": token}]})
        yield event({"choices": [], "usage": usage}) + "data: [DONE]\n\n"

    async def __call__(self, request: Request) -> Response:
        """Answer a request for completions."""
        asked = await request.json()
        count = int(asked.get("max_tokens", 16))
        prompt = str(asked.get("prompt", "")).split()
        usage = {"prompt_tokens": len(prompt), "completion_tokens": count}
        if asked.get("stream"):
            return StreamingResponse(self.stream(count, usage), media_type="text/event-stream")
        text = "".join([token async for token in self.tokens(count)])
        return JSONResponse({"choices": [{"text": text}], "usage": usage})


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Ready:
    """Put behind the port after all replicas: Ray Serve's own page is ready before the first."""

    def __call__(self) -> str:
        """Answer 200."""
        return "ok"


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--first-token", type=float, default=0.1, help="seconds in the slot")
    parser.add_argument("--gap", type=float, default=0.02, help="seconds from token to token")
    parser.add_argument("--slots", type=int, default=4, help="requests at a time in a replica")
    asked = parser.parse_args()

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # it would report to its makers
    # "local": a cluster of its own, whatever other Ray there is on this machine.
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": asked.port})
    model = Model.options(
        num_replicas=asked.replicas,
        max_ongoing_requests=asked.slots,
        ray_actor_options={"num_cpus": 0},  # they only sleep; a real one takes its cores or GPU
    )
    serve.run(model.bind(asked.first_token, asked.gap), name="model", route_prefix="/v1")
    serve.run(Ready.bind(), name="ready", route_prefix="/health")
    print(f"{asked.replicas} replicas behind port {asked.port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
