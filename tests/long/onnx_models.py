"""Networks for the comparison of imports with PyTorch: what users of its default exporter have."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 8


class Flat(nn.Module):
    """A CNN whose features become rows in one of the ways that people write."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.fc = nn.Linear(8 * 2 * 2, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        if self.way == "view":
            x = x.view(x.size(0), -1)
        elif self.way == "view back":
            x = x.view(-1, 32)
        elif self.way == "reshape":
            x = x.reshape(x.shape[0], 32)
        else:
            x = torch.flatten(x, 1)
        return self.fc(x)


class Residual(nn.Module):
    def __init__(self, inner, outer, stride=1, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = norm(outer), norm(outer)
        self.down = nn.Identity()
        if stride != 1 or inner != outer:
            self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), norm(outer))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.down(x))


def resnet():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                         Residual(8, 8), Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(16, 5))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 3, padding=1)
        self.c = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(3, 4, 1))
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        x = torch.cat([self.a(x), self.b(x), self.c(x)], 1)
        return self.fc(F.relu(x).mean((2, 3)))


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(3, 8, 3), nn.Linear(8, 4), nn.Linear(4, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = F.silu(self.conv(x))
        s = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        x = x * s[:, :, None, None]
        return self.fc(F.adaptive_max_pool2d(x, 1).flatten(1))


class Bag(nn.Module):
    def __init__(self, how="mean"):
        super().__init__()
        self.how = how
        self.table, self.fc = nn.Embedding(50, 8), nn.Linear(8, 5)

    def forward(self, ids):
        x = self.table(ids)
        x = x.mean(1) if self.how == "mean" else x.sum(1) if self.how == "sum" else x.amax(1)
        return self.fc(x)


class EmbeddingBag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.fc = nn.EmbeddingBag(50, 8, mode="mean"), nn.Linear(8, 5)

    def forward(self, ids):
        return self.fc(self.bag(ids))


class MaskedBag(nn.Module):
    """The mean over ids that are not padding."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(50, 8, padding_idx=0), nn.Linear(8, 5)

    def forward(self, ids):
        there = (ids != 0).float().unsqueeze(-1)
        x = (self.table(ids) * there).sum(1) / there.sum(1).clamp(min=1)
        return self.fc(x)


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(20, 4) for _ in range(3)])
        self.deep = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, ids):
        x = torch.cat([table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        return self.deep(x)


class Encoder(nn.Module):
    def __init__(self, layers=1, norm_first=False, activation="relu", pool="mean", batch_first=True):
        super().__init__()
        self.pool, self.batch_first = pool, batch_first
        self.table = nn.Embedding(50, 16)
        self.place = nn.Parameter(torch.zeros(1, 6, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation=activation,
                                           batch_first=batch_first, norm_first=norm_first)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.fc = nn.Linear(16, 5)

    def forward(self, ids):
        x = self.table(ids) + self.place
        if not self.batch_first:
            x = x.transpose(0, 1)
        x = self.layers(x)
        if not self.batch_first:
            x = x.transpose(0, 1)
        x = x.mean(1) if self.pool == "mean" else x[:, 0]
        return self.fc(x)


class Attention(nn.Module):
    """nn.MultiheadAttention over rows that are given as numbers."""

    def __init__(self):
        super().__init__()
        self.attention, self.fc = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Gpt(nn.Module):
    """Causal attention as nanoGPT writes it; a softmax for every position."""

    def __init__(self, how="sdpa"):
        super().__init__()
        self.how = how
        self.table, self.place = nn.Embedding(30, 16), nn.Embedding(6, 16)
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).view(1, 1, 6, 6))
        self.fc = nn.Linear(16, 30, bias=False)

    def forward(self, ids):
        b, t = ids.size()
        x = self.table(ids) + self.place(torch.arange(t, device=ids.device))
        q, k, v = self.qkv(self.norm(x)).split(16, dim=2)
        q = q.view(b, t, 2, 8).transpose(1, 2)
        k = k.view(b, t, 2, 8).transpose(1, 2)
        v = v.view(b, t, 2, 8).transpose(1, 2)
        if self.how == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.how == "masked_fill":
            s = (q @ k.transpose(-2, -1)) * (8 ** -0.5)
            s = s.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(s, -1) @ v
        else:
            s = (q @ k.transpose(-2, -1)) / 8 ** 0.5
            s = s + torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
            y = F.softmax(s, -1) @ v
        y = y.transpose(1, 2).contiguous().view(b, t, 16)
        x = x + self.out(y)
        x = x + self.mlp(x)
        return self.fc(x)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.place = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True,
                                                norm_first=True, activation="gelu")
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.place
        return self.fc(self.norm(self.layer(x))[:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind, layers=1, bidirectional=False, how="last", embedded=True,
                 batch_first=True):
        super().__init__()
        self.how, self.embedded, self.batch_first = how, embedded, batch_first
        self.table = nn.Embedding(50, 6)
        self.rnn = kind(6, 7, layers, batch_first=batch_first, bidirectional=bidirectional)
        self.fc = nn.Linear(7 * (2 if bidirectional else 1), 5)

    def forward(self, x):
        x = self.table(x) if self.embedded else x
        x = x if self.batch_first else x.transpose(0, 1)
        y, h = self.rnn(x)
        if self.how == "last":
            y = y[:, -1] if self.batch_first else y[-1]
        elif self.how == "mean":
            y = y.mean(1 if self.batch_first else 0)
        elif self.how == "hidden":
            y = h[0][-1] if isinstance(h, tuple) else h[-1]
        elif self.how == "all":
            return self.fc(y)
        return self.fc(y)


class Tagger(nn.Module):
    """Where: rows of ids that are padding are replaced by a vector."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(50, 8), nn.Linear(8, 5)
        self.filler = nn.Parameter(torch.zeros(8))

    def forward(self, ids):
        x = self.table(ids)
        x = torch.where((ids == 0).unsqueeze(-1), self.filler, x)
        return self.fc(torch.tanh(x).mean(1))


class GroupNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))

    def forward(self, x):
        return self.net(x)


class Conv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2),
                                 nn.Conv1d(8, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
                                 nn.Flatten(), nn.Linear(8, 5))

    def forward(self, x):
        return self.net(x)


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.convs = nn.ModuleList([nn.Conv1d(8, 4, k) for k in (2, 3)])
        self.fc = nn.Linear(8, 5)

    def forward(self, ids):
        x = self.table(ids).transpose(1, 2)
        return self.fc(torch.cat([F.relu(c(x)).amax(2) for c in self.convs], 1))


class DotAttentionPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.score, self.fc = nn.Embedding(50, 8), nn.Linear(8, 1), nn.Linear(8, 5)

    def forward(self, ids):
        x = self.table(ids)
        weight = torch.softmax(self.score(x).squeeze(-1), 1)
        return self.fc((x * weight.unsqueeze(-1)).sum(1))


class Rms(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 16), nn.Linear(16, 5)
        self.norm = nn.RMSNorm(16)

    def forward(self, x):
        return self.fc2(F.silu(self.norm(self.fc1(x))))


class Glu(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 32), nn.Linear(16, 5)

    def forward(self, x):
        a, b = self.fc1(x).chunk(2, -1)
        return self.fc2(a * torch.sigmoid(b))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(50, 8), nn.Linear(20, 5)

    def forward(self, x, ids):
        return self.fc(torch.cat([x, self.table(ids).mean(1)], -1))


def mlp(act, *more):
    return nn.Sequential(nn.Linear(12, 16), act, *more, nn.Linear(16, 5))


def cnn(*middle, channels=8, size=None):
    size = size or channels
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *middle, nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(size, 5))


ROWS, IMAGE, GREY, IDS, SEQ = ("f", 12), ("f", 3, 8, 8), ("f", 1, 14, 14), ("i", 50, 6), ("f", 6, 8)
SIX = ("f", 6, 6)

# name: (network, inputs); the batch is dynamic unless "static".
MODELS = {
    "mlp_relu": (lambda: mlp(nn.ReLU()), [ROWS]),
    "mlp_tanh_static": (lambda: mlp(nn.Tanh()), [ROWS]),
    "mlp_gelu": (lambda: mlp(nn.GELU()), [ROWS]),
    "mlp_gelu_tanh": (lambda: mlp(nn.GELU(approximate="tanh")), [ROWS]),
    "mlp_silu": (lambda: mlp(nn.SiLU()), [ROWS]),
    "mlp_leaky_relu": (lambda: mlp(nn.LeakyReLU()), [ROWS]),
    "mlp_elu": (lambda: mlp(nn.ELU()), [ROWS]),
    "mlp_hardswish": (lambda: mlp(nn.Hardswish()), [ROWS]),
    "mlp_relu6": (lambda: mlp(nn.ReLU6()), [ROWS]),
    "mlp_softplus": (lambda: mlp(nn.Softplus()), [ROWS]),
    "mlp_layer_norm": (lambda: mlp(nn.LayerNorm(16), nn.ReLU()), [ROWS]),
    "mlp_batch_norm": (lambda: mlp(nn.BatchNorm1d(16), nn.ReLU()), [ROWS]),
    "mlp_dropout_eval": (lambda: mlp(nn.ReLU(), nn.Dropout(0.5)), [ROWS]),
    "mlp_log_softmax": (lambda: nn.Sequential(mlp(nn.ReLU()), nn.LogSoftmax(1)), [ROWS]),
    "mlp_softmax": (lambda: nn.Sequential(mlp(nn.ReLU()), nn.Softmax(-1)), [ROWS]),
    "mlp_rms_norm": (Rms, [ROWS]),
    "mlp_glu": (Glu, [ROWS]),
    "mlp_flatten_first": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 5)), [IMAGE]),
    "cnn_flatten": (lambda: Flat("flatten"), [GREY]),
    "cnn_flatten_static": (lambda: Flat("flatten"), [GREY]),
    "cnn_view": (lambda: Flat("view"), [GREY]),
    "cnn_view_static": (lambda: Flat("view"), [GREY]),
    "cnn_view_back": (lambda: Flat("view back"), [GREY]),
    "cnn_reshape": (lambda: Flat("reshape"), [GREY]),
    "cnn_bn": (lambda: cnn(nn.BatchNorm2d(8), nn.ReLU()), [IMAGE]),
    "cnn_relu_bn": (lambda: cnn(nn.ReLU(), nn.BatchNorm2d(8)), [IMAGE]),
    "cnn_max_pool_padded": (lambda: cnn(nn.ReLU(), nn.MaxPool2d(3, 2, 1)), [IMAGE]),
    "cnn_max_pool_ceil": (lambda: cnn(nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)), [IMAGE]),
    "cnn_avg_pool": (lambda: cnn(nn.ReLU(), nn.AvgPool2d(2)), [IMAGE]),
    "cnn_avg_pool_padded": (lambda: cnn(nn.ReLU(), nn.AvgPool2d(3, 2, 1)), [IMAGE]),
    "cnn_depthwise": (lambda: cnn(nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.ReLU6(), nn.Conv2d(8, 8, 1)), [IMAGE]),
    "cnn_dilated": (lambda: cnn(nn.Conv2d(8, 8, 3, dilation=2), nn.ReLU()), [IMAGE]),
    "cnn_same": (lambda: cnn(nn.Conv2d(8, 8, 3, padding="same"), nn.ReLU()), [IMAGE]),
    "cnn_adaptive_2": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)), [IMAGE]),
    "cnn_zero_pad": (lambda: cnn(nn.ZeroPad2d(1), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU()), [IMAGE]),
    "cnn_transposed": (lambda: cnn(nn.ReLU(), nn.ConvTranspose2d(8, 8, 2, 2)), [IMAGE]),
    "cnn_upsample": (lambda: cnn(nn.ReLU(), nn.Upsample(scale_factor=2)), [IMAGE]),
    "cnn_group_norm": (GroupNorm, [IMAGE]),
    "cnn_instance_norm": (lambda: cnn(nn.InstanceNorm2d(8, affine=True), nn.ReLU()), [IMAGE]),
    "cnn_prelu": (lambda: cnn(nn.PReLU()), [IMAGE]),
    "cnn_prelu_channels": (lambda: cnn(nn.PReLU(8)), [IMAGE]),
    "cnn_selu_celu": (lambda: cnn(nn.SELU(), nn.Conv2d(8, 8, 3), nn.CELU(1.5)), [IMAGE]),
    "cnn_avg_pool_ceil": (lambda: cnn(nn.ELU(0.7), nn.AvgPool2d(3, 2, 1, ceil_mode=True)), [IMAGE]),
    "cnn_avg_pool_ceil_inside": (lambda: cnn(nn.ReLU(), nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)), [IMAGE]),
    "cnn_max_pool_ceil_padded": (lambda: cnn(nn.MaxPool2d((2, 3), (2, 3), (0, 1), ceil_mode=True)), [("f", 3, 9, 9)]),
    "cnn_same_even": (lambda: cnn(nn.Conv2d(8, 8, 4, padding="same"), nn.ReLU()), [IMAGE]),
    "cnn_transposed_grouped": (lambda: cnn(nn.ConvTranspose2d(8, 4, 3, 2, 1, 1, groups=2, bias=False), channels=4), [IMAGE]),
    "cnn_upsample_three": (lambda: cnn(nn.Upsample(scale_factor=(3, 2)), nn.Conv2d(8, 8, 3), nn.ReLU()), [IMAGE]),
    "cnn_upsample_linear": (lambda: cnn(nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear")), [IMAGE]),
    "cnn_1d_pools": (lambda: nn.Sequential(nn.Conv1d(3, 8, 3, 2, 1, groups=1), nn.InstanceNorm1d(8, affine=True), nn.AvgPool1d(2, ceil_mode=True), nn.GELU(), nn.ConvTranspose1d(8, 4, 3, 2), nn.Flatten(), nn.Linear(28, 5)), [("f", 3, 10)]),
    "resnet_group_norm": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), Residual(8, 16, 2, lambda n: nn.GroupNorm(4, n)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)), [IMAGE]),
    "cnn_group_norm_fresh": (lambda: cnn(nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 8, 3)), [IMAGE]),
    "cnn_1d": (Conv1d, [("f", 3, 10)]),
    "resnet": (resnet, [IMAGE]),
    "resnet_static": (resnet, [IMAGE]),
    "inception": (Inception, [IMAGE]),
    "squeeze_excite": (SqueezeExcite, [IMAGE]),
    "embedding_mean": (Bag, [IDS]),
    "embedding_sum_static": (lambda: Bag("sum"), [IDS]),
    "embedding_max": (lambda: Bag("max"), [IDS]),
    "embedding_bag": (EmbeddingBag, [IDS]),
    "embedding_masked_mean": (MaskedBag, [IDS]),
    "embedding_where": (Tagger, [IDS]),
    "embedding_wide_deep": (WideDeep, [("i", 20, 3)]),
    "embedding_attention_pool": (DotAttentionPool, [IDS]),
    "embedding_and_numbers": (TwoInputs, [ROWS, IDS]),
    "text_cnn": (TextCnn, [IDS]),
    "attention": (Attention, [SEQ]),
    "attention_static": (Attention, [SEQ]),
    "encoder": (Encoder, [IDS]),
    "encoder_static": (Encoder, [IDS]),
    "encoder_two_layers_gelu": (lambda: Encoder(2, True, "gelu", "first"), [IDS]),
    "encoder_sequence_first": (lambda: Encoder(batch_first=False), [IDS]),
    "gpt_sdpa": (Gpt, [("i", 30, 6)]),
    "gpt_masked_fill": (lambda: Gpt("masked_fill"), [("i", 30, 6)]),
    "gpt_triu": (lambda: Gpt("triu"), [("i", 30, 6)]),
    "gpt_sdpa_static": (Gpt, [("i", 30, 6)]),
    "vit": (Vit, [IMAGE]),
    "vit_static": (Vit, [IMAGE]),
    "lstm_last": (lambda: Recurrent(nn.LSTM), [IDS]),
    "lstm_last_static": (lambda: Recurrent(nn.LSTM), [IDS]),
    "lstm_hidden": (lambda: Recurrent(nn.LSTM, how="hidden"), [IDS]),
    "lstm_two_layers": (lambda: Recurrent(nn.LSTM, 2), [IDS]),
    "lstm_bidirectional_mean": (lambda: Recurrent(nn.LSTM, 1, True, "mean"), [IDS]),
    "lstm_tagger": (lambda: Recurrent(nn.LSTM, how="all"), [IDS]),
    "lstm_numbers_sequence_first": (lambda: Recurrent(nn.LSTM, embedded=False, batch_first=False), [SIX]),
    "gru_last": (lambda: Recurrent(nn.GRU), [IDS]),
    "gru_last_static": (lambda: Recurrent(nn.GRU), [IDS]),
    "gru_hidden_two_layers": (lambda: Recurrent(nn.GRU, 2, how="hidden"), [IDS]),
    "gru_bidirectional": (lambda: Recurrent(nn.GRU, 1, True, "mean"), [IDS]),
    "rnn_tanh": (lambda: Recurrent(nn.RNN), [IDS]),
}
