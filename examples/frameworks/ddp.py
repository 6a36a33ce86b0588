"""Plain DistributedDataParallel."""

import torch
import torch.distributed as dist
from common import Model, Tokens, arguments
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

options = arguments()
dist.init_process_group("gloo")
data = Tokens(options.rows)
loader = DataLoader(data, options.batch_per_device, sampler=DistributedSampler(data))
model = DistributedDataParallel(Model())
optimizer = torch.optim.AdamW(model.parameters())
for number, batch in enumerate(loader, 1):
    (model(**batch) / options.accumulation).backward()
    if number % options.accumulation == 0:
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
