"""A server that batches as an accelerator does, and sleeps where that would compute.

    python batching_server.py --port 8001 --step 0.01 --per-sequence 0.001 --slots 8

A step takes `step` seconds, and `per-sequence` for each request in the batch and `per-prompt-token`
for each token of a prompt that comes in; it gives every request of the batch one token. So many
replicas fit on a few cores without slowing each other down. It speaks the OpenAI API for
completions, streamed, and needs the standard library only.
"""

import argparse
import asyncio
import time
from collections import deque

from scripted_server import chunk, event, listen

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Sequence:
    """A request in the queue or in the batch."""

    def __init__(self, asked: dict[str, object], writer: asyncio.StreamWriter) -> None:
        """Its lengths, and where its tokens go."""
        self.prompt = len(str(asked.get("prompt", "")).split())
        self.tokens = max(int(str(asked.get("max_tokens", 16))), 1)
        self.made, self.writer = 0, writer
        self.over = asyncio.Event()

    def token(self) -> None:
        """One more; the last one brings the counts."""
        self.made += 1
        self.writer.write(event({"choices": [{"text": f" t{self.made}"}]}))
        if self.made == self.tokens:
            usage = {"prompt_tokens": self.prompt, "completion_tokens": self.tokens}
            self.writer.write(event({"choices": [], "usage": usage}))
            self.writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            self.over.set()


class Batch:
    """The queue, and the requests that get a token in every step."""

    def __init__(self, asked: argparse.Namespace) -> None:
        """Empty."""
        self.asked = asked
        self.queue: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.work = asyncio.Event()

    def add(self, sequence: Sequence) -> None:
        """Wait for the edge of a step."""
        self.queue.append(sequence)
        self.work.set()

    async def run(self) -> None:
        """Step after step; each has its moment, so that a late wake-up does not add up."""
        asked = self.asked
        while True:
            if not (self.queue or self.running):
                self.work.clear()
                await self.work.wait()
                now = time.monotonic()
            prompts = 0
            while self.queue and len(self.running) < asked.slots:
                prompts += self.queue[0].prompt
                self.running.append(self.queue.popleft())
            now += (
                asked.step
                + asked.per_sequence * len(self.running)
                + asked.per_prompt_token * prompts
            )
            await asyncio.sleep(max(now - time.monotonic(), 0.0))
            for sequence in self.running:
                sequence.token()
            self.running = [one for one in self.running if not one.over.is_set()]


async def serve(asked: argparse.Namespace) -> None:
    """Answer until the process is ended."""
    batch = Batch(asked)

    async def reply(writer: asyncio.StreamWriter, document: dict[str, object]) -> None:
        writer.write(HEAD)
        sequence = Sequence(document, writer)
        batch.add(sequence)
        await sequence.over.wait()
        await writer.drain()

    await asyncio.gather(listen("127.0.0.1", asked.port, reply), batch.run())


def main() -> None:
    """Read the engine from the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--step", type=float, default=0.01, help="seconds, whatever the batch is")
    parser.add_argument("--per-sequence", type=float, default=0.001, help="seconds")
    parser.add_argument("--per-prompt-token", type=float, default=0.0002, help="seconds")
    parser.add_argument("--slots", type=int, default=8, help="requests in the batch, at most")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
