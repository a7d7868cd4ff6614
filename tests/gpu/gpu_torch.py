"""PyTorch's side of the GPU list: samples a second of one model, eager or compiled, as one line of
JSON. usage: gpu_torch.py MODEL BATCH eager|compile STEPS     exit code 77: there is no torch.

Images travel channels last, under autocast bf16, with cudnn.benchmark; optimizer and shapes are
those of gpu_jobs.py."""

import json
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SEQUENCE = 128


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        out = 4 * width
        self.convs = nn.ModuleList((nn.Conv2d(inside, width, 1, bias=False),
                                    nn.Conv2d(width, width, 3, stride, 1, bias=False),
                                    nn.Conv2d(width, out, 1, bias=False)))
        self.norms = nn.ModuleList((nn.BatchNorm2d(width), nn.BatchNorm2d(width),
                                    nn.BatchNorm2d(out)))
        self.short = None
        if stride != 1 or inside != out:
            self.short = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False),
                                       nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norms[0](self.convs[0](x)))
        y = F.relu(self.norms[1](self.convs[1](y)))
        return F.relu(self.norms[2](self.convs[2](y)) + (x if self.short is None else self.short(x)))


def resnet50():
    layers, inside = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                      nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


class Layer(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.fcs = nn.ModuleList((nn.Linear(width, 3 * width), nn.Linear(width, width),
                                  nn.Linear(width, 4 * width), nn.Linear(4 * width, width)))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.fcs[0](self.norms[0](x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.fcs[1](heads.transpose(1, 2).reshape(batch, length, width))
        return x + self.fcs[3](F.gelu(self.fcs[2](self.norms[1](x))))


class Transformer(nn.Module):
    """`predicted`: positions whose words are told, the first ones; 0: all."""

    def __init__(self, layers, width, heads, words, predicted):
        super().__init__()
        self.predicted = predicted or SEQUENCE
        self.tokens = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(SEQUENCE, width))
        self.layers = nn.Sequential(*(Layer(width, heads, predicted == 0) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids):
        x = self.layers(self.tokens(ids) + self.places)[:, :self.predicted]
        return self.head(self.norm(x)).flatten(0, 1)


class DeepFM(nn.Module):
    """Guo et al., IJCAI 2017, over 39 ids of Criteo's form, with sparse gradients."""

    FIELDS, DIM, ROWS = 39, 16, 13 * 512 + 26 * 65536

    def __init__(self):
        super().__init__()
        self.wide = nn.Embedding(self.ROWS, 1, sparse=True)
        self.vectors = nn.Embedding(self.ROWS, self.DIM, sparse=True)
        layers, widths = [], (self.FIELDS * self.DIM, 400, 400, 400)
        for inside, out in zip(widths, widths[1:]):
            layers += [nn.Linear(inside, out), nn.ReLU()]
        self.deep = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, ids):
        v = self.vectors(ids)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True)
        return self.wide(ids).sum(1) + pairs + self.deep(v.flatten(1))


def model_and_batch(name, batch, device):
    if name == "deepfm":
        ids = torch.randint(0, DeepFM.ROWS, (batch, DeepFM.FIELDS), device=device)
        return DeepFM().to(device), ids, torch.randint(0, 2, (batch, 1), device=device).float()
    if name == "resnet50":
        model = resnet50().to(device, memory_format=torch.channels_last)
        images = torch.randn(batch, 3, 224, 224, device=device)
        labels = torch.randint(0, 1000, (batch,), device=device)
        return model, images.to(memory_format=torch.channels_last), labels
    shape = (12, 768, 12, 30522, 20) if name == "bert_base" else (4, 256, 4, 256, 0)
    model = Transformer(*shape).to(device)
    ids = torch.randint(0, shape[3], (batch, SEQUENCE), device=device)
    return model, ids, ids[:, :model.predicted].flatten()


def main():
    name, batch, how, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    model, inputs, labels = model_and_batch(name, batch, device)
    clicks = name == "deepfm"  # plain SGD, in f32, like the job of the list
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0 if clicks else 0.9)
    measure = F.binary_cross_entropy_with_logits if clicks else F.cross_entropy
    run = torch.compile(model) if how == "compile" else model
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=not clicks):
            loss = measure(run(inputs), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    middle = statistics.median(seconds[len(seconds) // 2:])
    print(json.dumps({"model": name, "batch": batch, "how": how, "torch": torch.__version__,
                      "samples_per_s": batch / middle, "ms": middle * 1e3}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
