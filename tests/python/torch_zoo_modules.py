"""The modules of torch_zoo.py, each with its data: ordinary modules of torchvision and transformers of
small sizes."""

from typing import Any, Callable, NamedTuple

import torch
import torchvision.models as vision
import transformers
from torch import nn

CLASSES, WORDS, LENGTH, BATCH = 10, 120, 12, 8


class Case(NamedTuple):
    """A module and its data.

    Attributes:
        make: returns the module.
        draw: returns a batch: the list of inputs, and the labels.
        classes: the last dimension of the output.
        rate: the learning rate.
        grows: the roundings of float32 grow from step to step, because a normalisation divides by the
            deviation of few numbers: those of the last layers of an image network at a small batch.
    """

    make: Callable[[], Any]
    draw: Callable[[], Any]
    classes: int = CLASSES
    rate: float = 0.01
    grows: bool = False


class Logits(nn.Module):
    """A module of transformers whose only result is its logits."""

    def __init__(self, module, names=("input_ids",)):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs):
        return self.module(**dict(zip(self.names, inputs))).logits


class Pooled(nn.Module):
    """An encoder of transformers with a linear layer after the mean of its states."""

    def __init__(self, encoder, width):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(width, CLASSES)

    def forward(self, ids):
        return self.head(self.encoder(ids).last_hidden_state.mean(1))


def images(size, count=BATCH):
    return lambda: ([torch.randn(count, 3, size, size)], torch.randint(0, CLASSES, (count,)))


def sentences():
    return [torch.randint(3, WORDS, (BATCH, LENGTH))], torch.randint(0, CLASSES, (BATCH,))


def masked_sentences():
    """Sentences of different lengths, with the masks of their words."""
    words = torch.randint(3, WORDS, (BATCH, LENGTH))
    mask = (torch.arange(LENGTH) < torch.randint(4, LENGTH + 1, (BATCH, 1))).long()
    return [words * mask, mask], torch.randint(0, CLASSES, (BATCH,))


def texts():
    """Texts, the masks of their words, and their next words as labels."""
    words = torch.randint(3, WORDS, (BATCH, LENGTH + 1))
    inputs, labels = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    return [inputs, torch.ones_like(inputs)], labels


def convolutional(name, size=64, count=BATCH, **arguments):
    """A network of torchvision with its ordinary layers, for small images."""
    make = getattr(vision, name)
    return Case(lambda: make(weights=None, num_classes=CLASSES, **arguments), images(size, count),
                rate=0.001, grows=True)


def narrow(name, width):
    """A network of torchvision with 224 x 224 pixels, whose hidden linear layers have 64 units."""

    def make():
        net = getattr(vision, name)(weights=None, num_classes=CLASSES)
        linear = [i for i, part in enumerate(net.classifier) if isinstance(part, nn.Linear)]
        for i, (inside, outside) in zip(linear, [(width, 64), (64, 64), (64, CLASSES)]):
            net.classifier[i] = nn.Linear(inside, outside)
        return net

    return Case(make, images(224, 2), rate=0.001, grows=name.endswith("bn"))


def classifier(name, draw=sentences, **arguments):
    """A model of transformers that classifies sentences."""
    config = getattr(transformers, name + "Config")(**{
        "vocab_size": WORDS, "num_labels": CLASSES, "pad_token_id": 0, **arguments})
    make = getattr(transformers, name + "ForSequenceClassification")
    names = ("input_ids", "attention_mask")
    return Case(lambda: Logits(make(config), names), draw)


def writer(name, make=None, **arguments):
    """A model of transformers that predicts the next word."""
    config = getattr(transformers, name + "Config")(**{
        "vocab_size": WORDS, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, **arguments})
    kind = getattr(transformers, make or name + "ForCausalLM")
    return Case(lambda: Logits(kind(config), ("input_ids", "attention_mask")), texts, WORDS)


def t5_encoder():
    config = transformers.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2,
                                   num_heads=4, dropout_rate=0.0)
    return Pooled(transformers.T5EncoderModel(config), 32)


class Translator(nn.Module):
    """An encoder and a decoder of transformers. The decoder gets the same words as the encoder."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, ids, mask):
        return self.module(input_ids=ids, attention_mask=mask, decoder_input_ids=ids,
                           decoder_attention_mask=mask, use_cache=False).logits


def translator(config, model):
    """A model of transformers that writes texts from texts, with one table for all words."""
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
             "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
             "max_position_embeddings": 64}
    if config == "T5Config":
        sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                 "dropout_rate": 0.0}
    made = getattr(transformers, config)(
        vocab_size=WORDS, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        forced_eos_token_id=None, **sizes)
    return Case(lambda: Translator(getattr(transformers, model)(made)), texts, WORDS)


def clip_text():
    config = transformers.CLIPTextConfig(vocab_size=WORDS, bos_token_id=1, eos_token_id=2,
                                         pad_token_id=0, **SMALL, **SHORT)
    return Pooled(transformers.CLIPTextModel(config), 32)


def masked_words():
    """A model that predicts each word, with an embedding table that is also the output layer."""
    config = transformers.BertConfig(vocab_size=WORDS, pad_token_id=0, **SMALL, **STILL, **SHORT)
    return Logits(transformers.BertForMaskedLM(config), ("input_ids", "attention_mask"))


def seer(name, **arguments):
    """A model of transformers that classifies images of 32 x 32 pixels."""
    config = getattr(transformers, name + "Config")(**{
        "image_size": 32, "num_labels": CLASSES, **arguments})
    make = getattr(transformers, name + "ForImageClassification")
    return Case(lambda: Logits(make(config), ("pixel_values",)), images(32))


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SHORT = {"max_position_embeddings": 64}

CASES = {
    "resnet18": convolutional("resnet18"),
    "resnet50": convolutional("resnet50"),
    "vgg11": narrow("vgg11", 25088),
    "vgg11_bn": narrow("vgg11_bn", 25088),
    "alexnet": narrow("alexnet", 9216),
    "squeezenet1_0": convolutional("squeezenet1_0"),
    "squeezenet1_1": convolutional("squeezenet1_1"),
    "mobilenet_v2": convolutional("mobilenet_v2"),
    "mobilenet_v3_small": convolutional("mobilenet_v3_small"),
    "densenet121": convolutional("densenet121"),
    "googlenet": convolutional("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": convolutional("inception_v3", 96, aux_logits=False, init_weights=False),
    "shufflenet_v2": convolutional("shufflenet_v2_x0_5"),
    "efficientnet_b0": convolutional("efficientnet_b0"),
    "mnasnet0_5": convolutional("mnasnet0_5"),
    "regnet_y_400mf": convolutional("regnet_y_400mf"),
    "convnext_tiny": convolutional("convnext_tiny"),
    "vit": Case(lambda: vision.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=CLASSES),
                images(32)),
    "swin_t": Case(lambda: vision.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4],
                                                  stochastic_depth_prob=0.0, num_classes=CLASSES),
                   images(32)),
    "bert": classifier("Bert", **SMALL, **STILL, **SHORT),
    "bert with masks": classifier("Bert", masked_sentences, **SMALL, **STILL, **SHORT),
    "distilbert": classifier("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                             dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, **SHORT),
    "roberta": classifier("Roberta", **SMALL, **STILL, **SHORT),
    "albert": classifier("Albert", embedding_size=16, classifier_dropout_prob=0.0, **SMALL, **STILL,
                         **SHORT),
    "electra": classifier("Electra", embedding_size=16, **SMALL, **STILL, **SHORT),
    "gpt2": writer("GPT2", "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=64,
                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "opt": writer("OPT", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                  word_embed_proj_dim=32, dropout=0.0, attention_dropout=0.0, **SHORT),
    "gpt_neox": writer("GPTNeoX", **SMALL, **SHORT, hidden_dropout=0.0, attention_dropout=0.0),
    "llama": writer("Llama", **SMALL, **SHORT, num_key_value_heads=4),
    "gpt_neo": writer("GPTNeo", hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64,
                      attention_types=[[["global", "local"], 1]], window_size=4, resid_dropout=0.0,
                      embed_dropout=0.0, attention_dropout=0.0, **SHORT),
    "gptj": writer("GPTJ", n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4,
                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "bloom": writer("Bloom", hidden_size=32, n_layer=2, n_head=4, hidden_dropout=0.0,
                    attention_dropout=0.0),
    "falcon": writer("Falcon", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                     hidden_dropout=0.0, attention_dropout=0.0),
    "gpt_bigcode": writer("GPTBigCode", n_embd=32, n_layer=2, n_head=4, n_positions=64,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "phi3": writer("Phi3", **SMALL, **SHORT, num_key_value_heads=2),
    "mistral": writer("Mistral", **SMALL, **SHORT, num_key_value_heads=2),
    "qwen2": writer("Qwen2", **SMALL, **SHORT, num_key_value_heads=2, tie_word_embeddings=True),
    "gemma": writer("Gemma", **SMALL, **SHORT, num_key_value_heads=1, head_dim=8),
    "phi": writer("Phi", **SMALL, **SHORT, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0),
    "mobilebert": classifier("MobileBert", embedding_size=16, intra_bottleneck_size=16,
                             **SMALL, **STILL, **SHORT),
    "mpnet": classifier("MPNet", **SMALL, **STILL, **SHORT),
    "deberta_v2": classifier("DebertaV2", **SMALL, **STILL, **SHORT),
    "xlnet": classifier("XLNet", d_model=32, n_layer=2, n_head=4, d_inner=64, dropout=0.0,
                        summary_last_dropout=0.0),
    "funnel": classifier("Funnel", d_model=32, n_head=4, d_head=8, d_inner=64, block_sizes=[1, 1],
                         hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0),
    "bert of masked words": Case(masked_words, texts, WORDS),
    "t5": translator("T5Config", "T5ForConditionalGeneration"),
    "bart": translator("BartConfig", "BartForConditionalGeneration"),
    "marian": translator("MarianConfig", "MarianMTModel"),
    "clip text": Case(clip_text, sentences),
    "t5_encoder": Case(t5_encoder, sentences),
    "vit of transformers": seer("ViT", patch_size=8, **SMALL, **STILL),
    "deit": seer("DeiT", patch_size=8, **SMALL, **STILL),
    "beit": seer("Beit", patch_size=8, drop_path_rate=0.0, **SMALL, **STILL),
    "dinov2": seer("Dinov2", patch_size=8, drop_path_rate=0.0, **SMALL, **STILL),
    "convnext of transformers": seer("ConvNext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                                     drop_path_rate=0.0),
    "poolformer": seer("PoolFormer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                       drop_path_rate=0.0),
    "segformer": seer("Segformer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                      num_attention_heads=[1, 1, 2, 2], drop_path_rate=0.0,
                      classifier_dropout_prob=0.0, **STILL),
}
