"""The peer of the training figures: the same network, first parameters, data and optimizer in
PyTorch on the CPU. Prints one JSON object; driver.py runs it beside tandem-figures.

usage: peer_torch.py NAME --data=DIR --threads=N --seconds=S --check_steps=N [--variants=a,b]
DIR: what tandem-figures --export_dir wrote (tests/bench/training_run.h).
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

import exported


class Export:
    """First parameters, data and options. Tensors share the memory of the arrays."""

    def __init__(self, folder):
        read = exported.Export(folder)
        self.params = [torch.from_numpy(array) for _, array in read.params]
        self.data = {name: torch.from_numpy(array) for name, array in read.data.items()}
        self.options = read.options


def mlp40():
    layers = []
    for _ in range(40):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


class DeepFM(nn.Module):
    """As trainer/models/click.cc; sparse: gradients of the tables are sparse tensors."""

    def __init__(self, rows, dim, fields, hidden, sparse):
        super().__init__()
        self.wide = nn.Embedding(rows, 1, sparse=sparse)
        self.vectors = nn.Embedding(rows, dim, sparse=sparse)
        layers, width = [], fields * dim
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, ids):
        v = self.vectors(ids)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True)
        return self.wide(ids).sum(1) + pairs + self.deep(v.flatten(1))


def deepfm(words):
    return DeepFM(1000000, 16, 39, [400, 400, 400], "sparse" in words)


class Block(nn.Module):
    """Modules stand in the order in which Tandem declares their parameters."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm0, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm0(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm1(x))))


class TransformerLm(nn.Module):
    """As trainer/models/transformer.cc."""

    def __init__(self, layers, width, heads, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm0 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1 = nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v)
        x = self.norm0(x + self.out(heads.transpose(1, 2).reshape(batch, length, width)))
        return self.norm1(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """As trainer/models/transformer.cc."""

    def __init__(self, length, layers=12, width=768, heads=12, vocabulary=30522):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(BertLayer(width, heads) for _ in range(layers)))
        self.last, self.last_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.layers(self.norm(self.tokens(ids) + self.places.weight))
        return self.head(self.last_norm(F.gelu(self.last(x)))).flatten(0, 1)


class ResBlock(nn.Module):
    """As trainer/models/resnet.cc: relu(convs(x) + shortcut(x)); convs: (channels, kernel, stride)."""

    def __init__(self, channels, convs, project):
        super().__init__()
        layers, c, stride = [], channels, 1
        for i, (out, kernel, step) in enumerate(convs):
            layers += [nn.Conv2d(c, out, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(out)]
            layers += [nn.ReLU(inplace=True)] if i + 1 < len(convs) else []
            c, stride = out, stride * step
        self.convs = nn.Sequential(*layers)
        self.shortcut = nn.Sequential(
            nn.Conv2d(channels, c, 1, stride, bias=False), nn.BatchNorm2d(c)) if project else None

    def forward(self, x):
        y = self.convs(x)
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


def resnet(blocks, bottleneck, stem, classes):
    layers = [nn.Conv2d(3, 64, stem, 2 if stem == 7 else 1, stem // 2, bias=False),
              nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers += [nn.MaxPool2d(3, 2, 1)] if stem == 7 else []
    channels = 64
    for stage, count in enumerate(blocks):
        c = 64 << stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            convs = [(c, 1, 1), (c, 3, stride), (4 * c, 1, 1)] if bottleneck else [
                (c, 3, stride), (c, 3, 1)]
            project = block == 0 and (bottleneck or stage > 0)
            layers.append(ResBlock(channels, convs, project))
            channels = convs[-1][0]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, classes))


def cross_entropy(logits, label):
    return F.cross_entropy(logits, label.reshape(-1))


def sigmoid_loss(logits, label):
    return F.binary_cross_entropy_with_logits(logits, label.float())


def momentum(params, options, how):
    return torch.optim.SGD(params, lr=options["learning_rate"], momentum=options["mu"], **how)


def adagrad(params, options, how):
    return torch.optim.Adagrad(params, lr=options["learning_rate"], eps=options["epsilon"], **how)


def adam(params, options, how):
    return torch.optim.Adam(params, lr=options["learning_rate"], eps=options["epsilon"], **how)


# Per figure: the network, its input, loss and optimizer, and the settings to try (optimizer, memory
# layout, sparse gradients, compiler).
FIGURES = {
    "mlp40_step": (lambda words: mlp40(), "img", cross_entropy, momentum,
                   ["foreach", "fused", "forloop"]),
    "lenet_train": (lambda words: lenet(), "img", cross_entropy, momentum,
                    ["foreach", "fused", "channels_last+foreach", "channels_last+fused"]),
    "transformer_lm": (lambda words: TransformerLm(4, 256, 8, 128), "ids", cross_entropy, adam,
                       ["foreach", "fused"]),
    "bert_base": (lambda words: Bert(128), "ids", cross_entropy, adam, ["foreach", "fused"]),
    "bert_base_512": (lambda words: Bert(512), "ids", cross_entropy, adam, ["foreach", "fused"]),
    "resnet18_cifar": (lambda words: resnet([2, 2, 2, 2], False, 3, 10), "img", cross_entropy,
                       momentum, ["foreach", "channels_last+foreach", "channels_last+fused"]),
    "resnet50_f32": (lambda words: resnet([3, 4, 6, 3], True, 7, 1000), "img", cross_entropy,
                     momentum, ["foreach", "channels_last+foreach", "channels_last+fused"]),
    "resnet50_bf16": (lambda words: resnet([3, 4, 6, 3], True, 7, 1000), "img", cross_entropy,
                      momentum, ["bf16+foreach", "bf16+channels_last+foreach",
                                 "bf16+channels_last+fused"]),
    "deepfm_dense": (deepfm, "ids", sigmoid_loss, adagrad,
                     ["sparse", "fused"]),
}


class Run:
    """One network with one setting."""

    def __init__(self, name, export, variant):
        words = variant.split("+")
        build, data, self.loss, self.make, _ = FIGURES[name]
        self.export = export
        self.model = build(words)
        self.x, self.y = export.data[data], export.data["label"]
        if "channels_last" in words:
            self.model = self.model.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.restore_params()
        self.optimizer = self.make_optimizer(words)
        self.forward = torch.compile(self.model) if "compile" in words else self.model
        self.bf16 = "bf16" in words

    def make_optimizer(self, words):
        how = {}
        if "fused" in words:
            how["fused"] = True
        elif "foreach" in words:
            how["foreach"] = True
        else:
            how["foreach"] = False
        return self.make(self.model.parameters(), self.export.options, how)

    def restore_params(self):
        """Parameters as exported; a fully connected layer's weight is [in, out] there."""
        params = list(self.model.parameters())
        linear = {id(m.weight) for m in self.model.modules() if isinstance(m, nn.Linear)}
        assert len(params) == len(self.export.params), "the networks differ"
        with torch.no_grad():
            for ours, theirs in zip(params, self.export.params):
                ours.copy_(theirs.t() if id(ours) in linear else theirs)

    def restore(self):
        self.restore_params()
        for state in self.optimizer.state.values():
            for slot in ("momentum_buffer", "sum", "exp_avg", "exp_avg_sq", "step"):
                if state.get(slot) is not None:
                    state[slot].zero_()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.loss(self.forward(self.x).float(), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def losses(self, steps):
        return [float(self.step().detach()) for _ in range(steps)]

    def micros_per_step(self, seconds):
        """Median over chunks of steps, each from the first parameters; the first is not counted."""
        chunk = int(self.export.options["chunk_steps"])
        micros, total, warm = [], 0.0, False
        while total < seconds or not micros:
            self.restore()
            start = time.perf_counter()
            for _ in range(chunk):
                self.step()
            taken = time.perf_counter() - start
            if warm:
                micros.append(taken * 1e6 / chunk)
                total += taken
            warm = True
        return statistics.median(micros)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(FIGURES))
    parser.add_argument("--data", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--check_steps", type=int, default=0)
    parser.add_argument("--variants", default="")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    variants = FIGURES[args.name][-1]
    if args.variants:
        variants = args.variants.split(",")
    export = Export(args.data)
    batch = export.data["label"].shape[0]
    results = {}
    for variant in variants:
        try:
            run = Run(args.name, export, variant)
            losses = run.losses(args.check_steps)
            micros = run.micros_per_step(args.seconds)
        except Exception as error:  # a setting that this version lacks must not stop the run
            results[variant] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
            continue
        results[variant] = {"us_per_step": micros, "samples_per_s": batch * 1e6 / micros,
                            "losses": losses}
    print(json.dumps({"version": torch.__version__, "variants": results}))


if __name__ == "__main__":
    main()
