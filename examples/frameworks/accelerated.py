"""Hugging Face Accelerate around a loop of one's own."""

import torch
from accelerate import Accelerator
from common import Model, Tokens, arguments
from torch.utils.data import DataLoader

options = arguments()
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=options.accumulation)
model = Model()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Tokens(options.rows), options.batch_per_device, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch))
        optimizer.step()
        optimizer.zero_grad()
accelerator.end_training()
