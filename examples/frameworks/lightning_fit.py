"""PyTorch Lightning."""

import os

import lightning
import torch
from common import Model, Tokens, arguments
from torch.utils.data import DataLoader


class Module(lightning.LightningModule):
    """The model with its optimizer."""

    def __init__(self):
        """As Lightning wants it."""
        super().__init__()
        self.model = Model()

    def training_step(self, batch, at):
        """The loss of a batch."""
        return self.model(**batch)

    def configure_optimizers(self):
        """One optimizer."""
        return torch.optim.AdamW(self.parameters())


options = arguments()
ranks = int(os.environ.get("WORLD_SIZE", "1"))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=ranks,
    strategy="ddp" if ranks > 1 else "auto",
    max_steps=options.steps,
    accumulate_grad_batches=options.accumulation,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Module(), DataLoader(Tokens(options.rows), options.batch_per_device, shuffle=True))
