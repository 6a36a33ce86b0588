"""Counting words with Dask: nodewise study examples/wordcount_dask.toml"""

from distributed import Client
from words import add, count, count_alone, divide, options, tell


def main():
    """An ordinary driver: `Client()` finds the cluster that nodewise holds ready."""
    asked = options()
    alone, pieces = divide(asked)
    with Client() as client:
        first = []
        if alone is not None:
            first = [client.submit(count_alone, asked.seed, *alone).result()]
        many = client.map(count, [asked.seed] * len(pieces), *zip(*pieces, strict=True))
        counts = add([*first, *client.gather(many)])
    tell(asked, counts)


if __name__ == "__main__":
    main()
