"""Counting words with Spark: nodewise study examples/wordcount_spark.toml"""

from pyspark.sql import SparkSession
from words import add, count, count_alone, divide, options, tell


def main():
    """An ordinary driver: the session finds the executors that nodewise asks for."""
    asked = options()
    seed = asked.seed
    alone, pieces = divide(asked)
    session = SparkSession.builder.getOrCreate()
    context = session.sparkContext
    first = []
    if alone is not None:
        one = context.parallelize([alone], 1)
        first = one.map(lambda edges: count_alone(seed, *edges)).collect()
    many = context.parallelize(pieces, len(pieces)).map(lambda edges: count(seed, *edges)).collect()
    counts = add([*first, *many])
    session.stop()
    tell(asked, counts)


if __name__ == "__main__":
    main()
