"""What the examples share: arguments, and a data set of random tokens or vectors."""

import argparse
import os

import torch


def arguments():
    """The steps, and either the batch of each device or that of all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch-per-device", type=int)
    parser.add_argument("--global-batch", type=int)
    parser.add_argument("--accumulation", type=int, default=1)
    options = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if options.global_batch:
        options.batch_per_device = options.global_batch // ranks // options.accumulation
    options.batch_per_device = options.batch_per_device or 8
    options.rows = options.steps * options.batch_per_device * ranks * options.accumulation
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return options


class Tokens(torch.utils.data.Dataset):
    """Sequences of random tokens, as a language model takes them."""

    def __init__(self, rows, length=32, vocabulary=128):
        """The same rows whoever asks."""
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(0, vocabulary, (rows, length), generator=generator)

    def __len__(self):
        """The number of rows."""
        return len(self.tokens)

    def __getitem__(self, at):
        """One row, with itself as the label."""
        return {"input_ids": self.tokens[at], "labels": self.tokens[at]}


class Model(torch.nn.Module):
    """A small language model: the next token from the last one."""

    def __init__(self, width=256, vocabulary=128):
        """Two layers behind an embedding."""
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, vocabulary)
        )

    def forward(self, input_ids, labels):
        """The loss."""
        scores = self.layers(self.embedding(input_ids[:, :-1]))
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels[:, 1:].flatten())
