"""Hugging Face transformers with random weights, of drawn sizes, with the library's default attention."""

import numpy
import torch
import transformers
from torch import nn

from exporters_common import CALIBRATION, TESTS, make, split
from exporters_torch import export


class Hidden(nn.Module):
    """The last hidden state, or the logits, as the only result."""

    def __init__(self, model, arguments):
        super().__init__()
        self.model, self.arguments = model, arguments

    def forward(self, *given):
        result = self.model(**dict(zip(self.arguments, given)), return_dict=True)
        return result.logits if "logits" in result else result.last_hidden_state


def words(draws, vocabulary, length):
    return draws.numpy().integers(3, vocabulary, size=(CALIBRATION + TESTS, length))


def sizes(draws):
    heads = draws.choice([2, 4])
    return heads, heads * draws.choice([8, 16]), draws.choice([1, 2]), draws.choice([97, 301]), draws.choice([8, 16])


def bert(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    kind = draws.choice([("Bert", "BertModel"), ("Bert", "BertForSequenceClassification"), ("Bert", "BertForMaskedLM")])
    config = transformers.BertConfig(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=2 * width, max_position_embeddings=64, hidden_act=draws.choice(["gelu", "gelu_new", "relu"]))
    return getattr(transformers, kind[1])(config), ["input_ids"], [words(draws, vocabulary, length)]


def roberta(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    config = transformers.RobertaConfig(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=2 * width, max_position_embeddings=66)
    return transformers.RobertaModel(config, add_pooling_layer=False), ["input_ids"], [words(draws, vocabulary, length)]


def distilbert(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    config = transformers.DistilBertConfig(vocab_size=vocabulary, dim=width, n_layers=layers, n_heads=heads, hidden_dim=2 * width, max_position_embeddings=64)
    kind = draws.choice([transformers.DistilBertModel, transformers.DistilBertForSequenceClassification])
    return kind(config), ["input_ids"], [words(draws, vocabulary, length)]


def gpt2(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    config = transformers.GPT2Config(vocab_size=vocabulary, n_positions=64, n_embd=width, n_layer=layers, n_head=heads, use_cache=False)
    return transformers.GPT2LMHeadModel(config), ["input_ids"], [words(draws, vocabulary, length)]


def llama(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    config = transformers.LlamaConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // draws.choice([1, 2]), max_position_embeddings=64, use_cache=False)
    return transformers.LlamaForCausalLM(config), ["input_ids"], [words(draws, vocabulary, length)]


def qwen2(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    config = transformers.Qwen2Config(vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2, max_position_embeddings=64, use_cache=False)
    return transformers.Qwen2ForCausalLM(config), ["input_ids"], [words(draws, vocabulary, length)]


def pictures(draws, size):
    return draws.numpy().normal(size=(CALIBRATION + TESTS, 3, size, size)).astype(numpy.float32)


def vit(draws):
    heads, width, layers, _, _ = sizes(draws)
    config = transformers.ViTConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=2 * width, image_size=32, patch_size=8)
    kind = draws.choice([transformers.ViTModel, transformers.ViTForImageClassification])
    return kind(config), ["pixel_values"], [pictures(draws, 32)]


def whisper(draws):
    heads, width, layers, vocabulary, _ = sizes(draws)
    frames = 24
    config = transformers.WhisperConfig(vocab_size=vocabulary, num_mel_bins=16, encoder_layers=layers, encoder_attention_heads=heads, decoder_layers=1, decoder_attention_heads=heads, d_model=width, encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width, max_source_positions=frames // 2, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    given = draws.numpy().normal(size=(CALIBRATION + TESTS, 16, frames)).astype(numpy.float32)
    return transformers.WhisperModel(config).get_encoder(), ["input_features"], [given]


def clip(draws):
    heads, width, layers, vocabulary, length = sizes(draws)
    config = transformers.CLIPTextConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=heads, max_position_embeddings=32, eos_token_id=2, bos_token_id=1, pad_token_id=0)
    return transformers.CLIPTextModel(config), ["input_ids"], [words(draws, vocabulary, length)]


KINDS = [bert, distilbert, roberta, gpt2, llama, qwen2, vit, whisper, clip]


def draw(draws, folder, number):
    torch.manual_seed(draws.getrandbits(31))
    kind = KINDS[(number // 2) % len(KINDS)]
    # TorchScript's exporter does not take the masks of the causal ones.
    dynamo = number % 2 == 1 or kind in (gpt2, llama, qwen2)
    network, arguments, samples = kind(draws)
    given = [torch.from_numpy(array) for array in samples]
    export(Hidden(network.eval(), arguments).eval(), given, folder, dynamo)
    few, some = split(samples)
    return f"{kind.__name__}, {'dynamo' if dynamo else 'torchscript'}", few, some


def graphs(root, seed, chosen):
    make(root, "transformers", seed, 4 * len(KINDS), draw, chosen)
