"""K ranks under torch's own launcher, one process each, on this machine."""

from collections.abc import Sequence

from nodewise.measure.engines.base import Job, LauncherEngine
from nodewise.measure.engines.commands import require_torch, torchrun


class Torchrun(LauncherEngine):
    """One `torchrun --standalone --nproc-per-node K` for each run."""

    def check(self, scales: Sequence[int]) -> None:
        """Torch must be installed beside us."""
        require_torch()

    def command(self, job: Job) -> list[str]:
        """The line of torchrun."""
        place = ["--standalone", "--nproc-per-node", str(job.nodes)]
        return torchrun(job, *place, *self._options)
