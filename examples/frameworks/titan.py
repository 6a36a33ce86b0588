"""The debug Llama of torchtitan 0.2.2 on CPUs, with its own Trainer.

Without an accelerator torchtitan takes "cuda" as the device, and asks it for its memory. Both
are answered here for the CPU. The tokenizer and the text, which its package lacks, are generated.
"""

import json
import os
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
import torch._utils
from common import arguments
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PEAKS = ("active_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")
torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.get_device_name = lambda *_: "cpu"
torch.cpu.current_device = lambda: 0
torch.cpu.get_device_properties = lambda *_: SimpleNamespace(total_memory=2**34, name="cpu")
torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda *_: None
torch.cpu.memory_stats = lambda *_: dict.fromkeys(PEAKS, 0)


def write_text(folder):
    """Lines of made-up words, and a tokenizer of them."""
    draws = random.Random(0)
    letters = "abcdefghijklmnop"
    words = ["".join(draws.choices(letters, k=draws.randint(2, 6))) for _ in range(800)]
    lines = [" ".join(draws.choices(words, k=60)) for _ in range(2000)]
    (folder / "text").mkdir()
    (folder / "text" / "lines.json").write_text(
        "\n".join(json.dumps({"text": line}) for line in lines)
    )
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=1000, special_tokens=special, show_progress=False)
    )
    assets = folder / "assets"
    assets.mkdir()
    tokenizer.save(str(assets / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>"}
    (assets / "tokenizer_config.json").write_text(json.dumps(named))
    return assets


def main():
    """Train."""
    from torchtitan.config import JobConfig
    from torchtitan.tools.logging import init_logger
    from torchtitan.train import Trainer

    options = arguments()
    init_logger()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = JobConfig()
        job.job.dump_folder = name
        job.model.name, job.model.flavor = "llama3", "debugmodel"
        job.model.hf_assets_path = str(write_text(folder))
        job.training.dataset_path = str(folder / "text")
        job.training.local_batch_size = options.batch_per_device
        job.training.seq_len, job.training.steps = 64, options.steps
        # Its FSDP asks for a reduction that gloo lacks, so the ranks are replicas.
        job.parallelism.data_parallel_replicate_degree = int(os.environ["WORLD_SIZE"])
        job.parallelism.data_parallel_shard_degree = 1
        if options.global_batch:
            job.training.global_batch_size = options.global_batch
        trainer = Trainer(job)
        trainer.train()
        trainer.close()
    torch.distributed.destroy_process_group()


main()
