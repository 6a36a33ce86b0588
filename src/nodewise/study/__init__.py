"""What is measured, what is asked, and what was recorded; the files it is stored in."""

from nodewise.base.old_names import forward

__getattr__ = forward(__name__, f"{__name__}.study", "Run", "Rank", "Study")
