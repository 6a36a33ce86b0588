"""Counting words with Ray: nodewise study examples/wordcount_ray.toml"""

import ray
from words import add, count, count_alone, divide, options, tell


def main():
    """An ordinary driver: `ray.init()` finds the cluster that nodewise holds ready."""
    asked = options()
    alone, pieces = divide(asked)
    ray.init(log_to_driver=False)
    first = []
    if alone is not None:
        first = [ray.get(ray.remote(count_alone).remote(asked.seed, *alone))]
    piece = ray.remote(count)
    counts = add([*first, *ray.get([piece.remote(asked.seed, *edges) for edges in pieces])])
    ray.shutdown()
    tell(asked, counts)


if __name__ == "__main__":
    main()
