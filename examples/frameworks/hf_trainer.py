"""The Trainer of Hugging Face transformers."""

import tempfile

from common import Tokens, arguments
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

options = arguments()
model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=32, n_embd=64, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        folder,
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_per_device,
        gradient_accumulation_steps=options.accumulation,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    Trainer(model=model, args=settings, train_dataset=Tokens(options.rows)).train()
