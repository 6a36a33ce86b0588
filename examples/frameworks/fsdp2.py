"""Sharded parameters: FSDP2's fully_shard, with gradients clipped over all ranks."""

import torch
import torch.distributed as dist
from common import Model, Tokens, arguments
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler

options = arguments()
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
data = Tokens(options.rows)
loader = DataLoader(data, options.batch_per_device, sampler=DistributedSampler(data))
model = Model()
fully_shard(model.layers, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
