"""What waiting costs: the share of a run in which its nodes are idle, as a part of its bill."""

import msgspec

from nodewise.decide.decide import Decision
from nodewise.explain.attribute import Attribution


class Idling(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The idle time of the nodes at one scale, and what is paid for it."""

    nodes: int
    share: float  # of the wall time, mean over the nodes
    cost: float  # of a run
    run_cost: float


def idling(attribution: Attribution, decision: Decision) -> Idling | None:
    """At the largest scale; None if no idle time is recorded."""
    row = attribution.rows[-1]
    share = row.time_shares.get("idle", 0.0)
    if not share:
        return None
    bill = decision.row(row.nodes).cost
    return Idling(nodes=row.nodes, share=share, cost=share * bill, run_cost=bill)
