"""nodewise: how many nodes is this job worth, and why not more?

In a notebook, the order of the modules is the order of the work:

    from pathlib import Path
    from nodewise.table import parse_table
    from nodewise.scaling import scale
    from nodewise.attribute import attribute
    from nodewise.decide import decide
    from nodewise.prices import Price

    study = parse_table(Path("timings.csv").read_text())
    scale(study), attribute(study), decide(study, Price(per_node_hour=3.20))
"""

__version__ = "0.1.0"
