"""nodewise: how many nodes is this job worth, and why not more?"""

from nodewise.base.old_names import install

__version__ = "0.1.0"

install()
