"""transformer_lm on a text: Tandem's first 100 losses against PyTorch's from the same parameters.

The text is cut into samples here once more, from the description in trainer/reader/text.h.

usage: transformer_lm.py --build=DIR [--data=DIR] [--steps=100] [--only=adamw,...]
DIR of the data holds tiny_shakespeare.txt (default: $TANDEM_TEXT_DIR). Exit codes: 0 equal, 1 not
equal, 77 torch or the data are missing.
"""

import argparse
import os
import re
import sys
import tempfile

import job_run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(ROOT, "deploy", "examples", "transformer_lm.pbtxt")
TEXT = "tiny_shakespeare.txt"

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(job_run.EXIT_SKIPPED)

LAYERS, WIDTH, HEADS, SEQUENCE, BATCH = 2, 64, 4, 32, 16  # smaller than the example's


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.fcs = nn.ModuleList((nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH),
                                  nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)))

    def forward(self, x):
        batch = x.shape[0]
        qkv = self.fcs[0](self.norms[0](x)).reshape(batch, SEQUENCE, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
        future = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1)
        heads = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.fcs[1](heads.transpose(1, 2).reshape(batch, SEQUENCE, WIDTH))
        return x + self.fcs[3](F.gelu(self.fcs[2](self.norms[1](x))))


class TransformerLm(nn.Module):
    """GPT-2 (Radford et al. 2019) without tied embeddings."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(256, WIDTH)
        self.places = nn.Parameter(torch.zeros(SEQUENCE, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, ids):
        x = self.tokens(ids) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def load(self, arrays):
        """Tandem numbers its layers in the order in which they run."""
        norms = [norm for block in self.blocks for norm in block.norms] + [self.norm]
        fcs = [fc for block in self.blocks for fc in block.fcs] + [self.head]
        with torch.no_grad():
            self.tokens.weight.copy_(torch.from_numpy(arrays["embedding_0.w"]))
            self.places.copy_(torch.from_numpy(arrays["position.w"]))
            for i, norm in enumerate(norms):
                norm.weight.copy_(torch.from_numpy(arrays[f"layer_norm_{i}.w"]))
                norm.bias.copy_(torch.from_numpy(arrays[f"layer_norm_{i}.b"]))
            for i, fc in enumerate(fcs):
                fc.weight.copy_(torch.from_numpy(arrays[f"fc_{i}.w"].T))
                fc.bias.copy_(torch.from_numpy(arrays[f"fc_{i}.b"]))


def adamw(model):
    """Weight decay for matrices alone, as decay_exclude says in the job."""
    named = list(model.named_parameters())
    plain = [p for n, p in named if n.endswith("bias") or "norm" in n]
    decayed = [p for n, p in named if not (n.endswith("bias") or "norm" in n)]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                              {"params": plain, "weight_decay": 0.0}], lr=0.001)


# Name: optimizer of the job, PyTorch's, norm to which all gradients are clipped.
CASES = {
    "sgd": ('type: "sgd" learning_rate: 0.1',
            lambda m: torch.optim.SGD(m.parameters(), lr=0.1), None),
    "adamw": ('type: "adamw" learning_rate: 0.001 weight_decay: 0.1 decay_exclude: ".b" '
              'decay_exclude: "norm" clip_global_norm: 1', adamw, 1.0),
}


def batches(path, steps):
    text = np.fromfile(path, dtype=np.uint8).astype(np.int64)
    for step in range(steps):
        starts = (np.arange(BATCH) + step * BATCH)[:, None] * SEQUENCE + np.arange(SEQUENCE)
        yield torch.from_numpy(text[starts]), torch.from_numpy(text[starts + 1])


def torch_losses(model, optimizer, clip, data):
    def cut():
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)

    def loss_of(ids, labels):
        return F.cross_entropy(model(ids).reshape(-1, 256), labels.reshape(-1))

    return job_run.torch_losses(optimizer, data, loss_of, cut)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--data", default=os.environ.get("TANDEM_TEXT_DIR", ""))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", default=",".join(CASES))
    args = parser.parse_args()
    path = os.path.join(args.data, TEXT)
    if not os.path.exists(path):
        print(f"skipped: {TEXT} is not there; name its folder in TANDEM_TEXT_DIR")
        return job_run.EXIT_SKIPPED
    torch.set_num_threads(2)
    with open(JOB, encoding="utf-8") as file:
        job = file.read()
    for name, value in (("layers", LAYERS), ("width", WIDTH), ("heads", HEADS), ("dropout", 0),
                        ("sequence", SEQUENCE)):
        job = re.sub(rf'(name: "{name}" value: )"[^"]*"', rf'\g<1>"{value}"', job)
    job = re.sub(r"sequence: \d+", f"sequence: {SEQUENCE}", job)
    job = re.sub(r"global_batch_size: \d+", f"global_batch_size: {BATCH}", job)
    good = True
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        trainer = job_run.Trainer(args.build, folder, job, args.data)
        first = trainer.first_parameters()
        for name in args.only.split(","):
            optimizer, make, clip = CASES[name]
            ours = trainer.losses(optimizer, args.steps)
            model = TransformerLm()
            model.load(first)
            theirs = torch_losses(model, make(model), clip, batches(path, args.steps))
            good &= job_run.same(name, ours, theirs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
