"""DeepSpeed: ZeRO stage 1, whose engine makes the steps."""

import deepspeed
import torch
from common import Model, Tokens, arguments
from torch.utils.data import DataLoader, DistributedSampler

options = arguments()
deepspeed.init_distributed(dist_backend="gloo")
settings = {
    "train_micro_batch_size_per_gpu": options.batch_per_device,
    "gradient_accumulation_steps": options.accumulation,
    "zero_optimization": {"stage": 1},
}
model = Model()
optimizer = torch.optim.AdamW(model.parameters())
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
data = Tokens(options.rows)
for batch in DataLoader(data, options.batch_per_device, sampler=DistributedSampler(data)):
    engine.backward(engine(**batch))
    engine.step()
torch.distributed.destroy_process_group()
