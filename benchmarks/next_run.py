"""Next run: is the cheapest scale found for half of the cost of measuring all scales?

    .venv/bin/python benchmarks/next_run.py [truths]

Every truth is a law drawn at random; a run is its time with 3 % of noise. The loop starts with
K = 4, 8, 16 and follows `nodewise next` until it says stop or half of the ladder's money is gone.
"""

import sys

import msgspec
import numpy as np

from nodewise.decide.candidates import Needs
from nodewise.decide.forecast import advise
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price, bill
from nodewise.explain.laws import Law
from nodewise.study.study import Run, Study

LADDER = (1, 2, 4, 8, 16, 32, 64)
START = (4, 8, 16)  # the three whose runs cost least
NOISE = 0.03


def main() -> None:
    """Count the truths that end within 2 % of the least cost for at most half of the money."""
    truths = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    good, spent, lost = 0, [], []
    for seed in range(truths):
        generator = np.random.default_rng(seed)
        law = Law(
            s=float(10 ** generator.uniform(-2.5, -1)),
            c=float(10 ** generator.uniform(-4, -2)),
            base_seconds=float(10 ** generator.uniform(2, 4)),
        )
        price = Price(per_node_hour=2.1, fixed_per_hour=float(generator.choice([4.5, 9, 18, 50])))
        question = Question(price=price, needs=Needs(value_per_hour=0.0))

        def cost(nodes: float, seconds: float, price: Price = price) -> float:
            rate = np.array([2.1 * nodes])
            return float(bill(price, rate, np.array([seconds])).total[0])

        def run(nodes: int, law: Law = law, generator: np.random.Generator = generator) -> Run:
            seconds = float(law.seconds(np.array([float(nodes)]))[0])
            return Run(nodes=nodes, round=0, seconds=seconds * (1 + NOISE * generator.normal()))

        every = np.arange(1.0, 65.0)
        true_costs = np.array([cost(k, t) for k, t in zip(every, law.seconds(every), strict=True)])
        whole = sum(cost(k, float(law.seconds(np.array([float(k)]))[0])) for k in LADDER)
        study = Study(name=f"truth {seed}", regime="strong", runs=tuple(map(run, START)))
        paid = sum(cost(one.nodes, one.seconds) for one in study.runs)
        while True:
            advice = advise(study, question, spend=whole / 2 - paid, largest=64)
            chosen = [advice.measure] if advice.measure else advice.repeat
            if not chosen:
                break
            for made in map(run, chosen):
                numbered = msgspec.structs.replace(
                    made, round=sum(one.nodes == made.nodes for one in study.runs)
                )
                paid += cost(made.nodes, made.seconds)
                study = msgspec.structs.replace(study, runs=(*study.runs, numbered))
        regret = true_costs[advice.best - 1] / true_costs.min() - 1
        spent.append(paid / whole)
        lost.append(regret)
        good += regret <= 0.02 and paid <= whole / 2
    print(f"{good} of {truths} truths within 2 % of the least cost for at most half of the money")
    print(f"money: median {np.median(spent):.0%} of the ladder's, largest {max(spent):.0%}")
    print(f"regret: median {np.median(lost):.2%}, 90th percentile {np.quantile(lost, 0.9):.2%}")


if __name__ == "__main__":
    main()
