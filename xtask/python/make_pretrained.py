"""Folders as `save_pretrained` writes them, with random weights of drawn sizes, and what transformers computes with them.

make_pretrained.py FOLDER SEED COUNT [--tiny]: COUNT folders of each kind; each gets a `case.json` with inputs and outputs.
"""

import json
import os
import random
import sys

import safetensors.torch
import torch
import transformers

transformers.logging.set_verbosity_error()


def pick(draws, tiny, some, small):
    return small if tiny else draws.choice(some)


def sizes(draws, tiny):
    heads = pick(draws, tiny, [2, 4], 2)
    return {
        "heads": heads,
        "width": heads * pick(draws, tiny, [4, 8, 16], 4),
        "layers": pick(draws, tiny, [1, 2, 3], 1),
        "vocabulary": pick(draws, tiny, [50, 97, 301], 24),
        "act": draws.choice(["gelu", "gelu_new", "relu", "silu"]),
        "eps": draws.choice([1e-12, 1e-5, 1e-3]),
        "tied": draws.choice([True, False]),
    }


def encoder_sizes(s, places):
    return dict(vocab_size=s["vocabulary"], hidden_size=s["width"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"], intermediate_size=2 * s["width"] + 3, max_position_embeddings=places, hidden_act=s["act"], layer_norm_eps=s["eps"])


def labels(draws):
    count = draws.choice([2, 3, 5])
    return {index: f"class {index}" for index in range(count)}


def bert(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.BertConfig(**encoder_sizes(s, 16), type_vocab_size=draws.choice([1, 2]), id2label=labels(draws), tie_word_embeddings=s["tied"])
    kind = draws.choice([transformers.BertModel, transformers.BertForSequenceClassification, transformers.BertForMaskedLM, transformers.BertForTokenClassification])
    return kind(config), "mask"


def roberta(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.RobertaConfig(**encoder_sizes(s, 18), type_vocab_size=1, pad_token_id=1, id2label=labels(draws), tie_word_embeddings=s["tied"])
    kind = draws.choice([transformers.RobertaModel, transformers.RobertaForSequenceClassification, transformers.RobertaForMaskedLM])
    return kind(config), "mask"


def distilbert(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.DistilBertConfig(vocab_size=s["vocabulary"], dim=s["width"], n_layers=s["layers"], n_heads=s["heads"], hidden_dim=2 * s["width"] + 3, max_position_embeddings=16, activation=draws.choice(["gelu", "relu"]), id2label=labels(draws), tie_word_embeddings=s["tied"])
    kind = draws.choice([transformers.DistilBertModel, transformers.DistilBertForSequenceClassification, transformers.DistilBertForMaskedLM])
    return kind(config), "mask"


def gpt2(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.GPT2Config(vocab_size=s["vocabulary"], n_positions=16, n_embd=s["width"], n_layer=s["layers"], n_head=s["heads"], n_inner=draws.choice([None, 3 * s["width"]]), activation_function=s["act"], layer_norm_epsilon=s["eps"], scale_attn_by_inverse_layer_idx=draws.choice([True, False]), tie_word_embeddings=s["tied"], bos_token_id=0, eos_token_id=0)
    return draws.choice([transformers.GPT2Model, transformers.GPT2LMHeadModel])(config), "ids"


def rotary(draws, s):
    scaling = draws.choice(["default", "linear", "llama3"])
    rope = {"rope_type": scaling, "rope_theta": draws.choice([10000.0, 500000.0])}
    if scaling == "linear":
        rope["factor"] = 2.0
    if scaling == "llama3":
        rope |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}
    return dict(vocab_size=s["vocabulary"], hidden_size=s["width"], intermediate_size=2 * s["width"] + 3, num_hidden_layers=s["layers"], num_attention_heads=s["heads"], num_key_value_heads=s["heads"] // draws.choice([1, 2]), max_position_embeddings=16, rms_norm_eps=s["eps"], rope_parameters=rope, tie_word_embeddings=s["tied"])


def llama(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.LlamaConfig(**rotary(draws, s), attention_bias=draws.choice([True, False]), mlp_bias=draws.choice([True, False]), head_dim=draws.choice([None, 6]))
    return draws.choice([transformers.LlamaModel, transformers.LlamaForCausalLM])(config), "ids"


def qwen2(draws, tiny):
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**rotary(draws, sizes(draws, tiny)))), "ids"


def qwen3(draws, tiny):
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**rotary(draws, sizes(draws, tiny)), head_dim=8)), "ids"


def mistral(draws, tiny):
    return transformers.MistralForCausalLM(transformers.MistralConfig(**rotary(draws, sizes(draws, tiny)), sliding_window=None)), "ids"


def vit(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.ViTConfig(hidden_size=s["width"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"], intermediate_size=2 * s["width"], image_size=8, patch_size=draws.choice([2, 4]), num_channels=draws.choice([1, 3]), hidden_act=s["act"], layer_norm_eps=s["eps"], qkv_bias=draws.choice([True, False]), id2label=labels(draws))
    return draws.choice([transformers.ViTModel, transformers.ViTForImageClassification])(config), "picture"


def clip(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.CLIPTextConfig(**{**encoder_sizes(s, 16), "hidden_act": draws.choice(["quick_gelu", "gelu"])}, eos_token_id=draws.choice([2, 5]), bos_token_id=0, pad_token_id=1)
    return transformers.CLIPTextModel(config), "ids"


def whisper(draws, tiny):
    s = sizes(draws, tiny)
    config = transformers.WhisperConfig(vocab_size=s["vocabulary"], num_mel_bins=6, encoder_layers=s["layers"], encoder_attention_heads=s["heads"], decoder_layers=1, decoder_attention_heads=s["heads"], d_model=s["width"], encoder_ffn_dim=2 * s["width"], decoder_ffn_dim=8, max_source_positions=8, activation_function=s["act"], pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return transformers.WhisperModel(config).get_encoder(), "sound"


def classes(draws, tiny):
    """A class of the sequence by the state at its last token that is not padding."""
    s = sizes(draws, tiny)
    pad = pick(draws, tiny, [None, 1], 1)
    kind = pick(draws, tiny, ["gpt2", "llama", "qwen2"], "gpt2")
    of_sequence = pick(draws, tiny, [True, False], True)
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=s["vocabulary"], n_positions=16, n_embd=s["width"], n_layer=s["layers"], n_head=s["heads"], bos_token_id=0, eos_token_id=0, pad_token_id=pad, id2label=labels(draws))
        return (transformers.GPT2ForSequenceClassification if of_sequence else transformers.GPT2ForTokenClassification)(config), "padded"
    makers = {"llama": (transformers.LlamaConfig, transformers.LlamaForSequenceClassification, transformers.LlamaForTokenClassification), "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForSequenceClassification, transformers.Qwen2ForTokenClassification)}
    config, *kinds = makers[kind]
    return kinds[0 if of_sequence else 1](config(**rotary(draws, s), pad_token_id=pad, id2label=labels(draws))), "padded"


def questions(draws, tiny):
    """The first and the last token of an answer."""
    s = sizes(draws, tiny)
    kind = draws.choice(["bert", "roberta", "distilbert", "gpt2", "llama", "qwen3"])
    if kind == "bert":
        return transformers.BertForQuestionAnswering(transformers.BertConfig(**encoder_sizes(s, 16), type_vocab_size=2)), "mask"
    if kind == "roberta":
        return transformers.RobertaForQuestionAnswering(transformers.RobertaConfig(**encoder_sizes(s, 18), type_vocab_size=1, pad_token_id=1)), "mask"
    if kind == "distilbert":
        config = transformers.DistilBertConfig(vocab_size=s["vocabulary"], dim=s["width"], n_layers=s["layers"], n_heads=s["heads"], hidden_dim=2 * s["width"] + 3, max_position_embeddings=16)
        return transformers.DistilBertForQuestionAnswering(config), "mask"
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=s["vocabulary"], n_positions=16, n_embd=s["width"], n_layer=s["layers"], n_head=s["heads"], bos_token_id=0, eos_token_id=0)
        return transformers.GPT2ForQuestionAnswering(config), "ids"
    if kind == "llama":
        return transformers.LlamaForQuestionAnswering(transformers.LlamaConfig(**rotary(draws, s))), "ids"
    return transformers.Qwen3ForQuestionAnswering(transformers.Qwen3Config(**rotary(draws, s), head_dim=8)), "ids"


def window(draws, tiny):
    """Queries that look at a few keys before them, in all layers or some."""
    s = sizes(draws, tiny)
    size = draws.choice([2, 3, 4, 20])
    if draws.random() < 0.5:
        return transformers.MistralForCausalLM(transformers.MistralConfig(**rotary(draws, s), sliding_window=size)), "ids"
    config = draws.choice([transformers.Qwen2Config, transformers.Qwen3Config])
    maker = transformers.Qwen2ForCausalLM if config is transformers.Qwen2Config else transformers.Qwen3ForCausalLM
    return maker(config(**rotary(draws, s), use_sliding_window=True, sliding_window=size, max_window_layers=draws.choice([0, 1]))), "ids"


def yarn(draws, tiny):
    """Rotary positions stretched by YaRN."""
    s = sizes(draws, tiny)
    rope = {"rope_type": "yarn", "rope_theta": draws.choice([1000.0, 10000.0]), "factor": draws.choice([2.0, 4.0, 8.0]), "original_max_position_embeddings": draws.choice([4, 8])}
    rope |= draws.choice([{}, {"attention_factor": 1.3}, {"beta_fast": 4, "beta_slow": 0.5}, {"mscale": 0.7, "mscale_all_dim": 1.2}, {"truncate": False}])
    config = draws.choice([transformers.LlamaConfig, transformers.Qwen2Config])
    maker = transformers.LlamaForCausalLM if config is transformers.LlamaConfig else transformers.Qwen2ForCausalLM
    return maker(config(**{**rotary(draws, s), "rope_parameters": rope})), "ids"


def pickled(draws, tiny):
    """Weights as PyTorch writes them."""
    s = sizes(draws, tiny)
    if draws.random() < 0.5:
        return transformers.BertForSequenceClassification(transformers.BertConfig(**encoder_sizes(s, 16), type_vocab_size=2, id2label=labels(draws))), "mask"
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**rotary(draws, s))), "ids"


KINDS = [bert, roberta, distilbert, gpt2, llama, qwen2, qwen3, mistral, vit, clip, whisper, classes, questions, window, yarn, pickled]
TYPES = [torch.float32, torch.float16, torch.bfloat16]


def inputs(model, form, draws):
    config = model.config
    batch = draws.choice([1, 2])
    if form == "picture":
        return {"pixel_values": torch.randn(batch, config.num_channels, config.image_size, config.image_size)}
    if form == "sound":
        return {"input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)}
    if form == "padded" and config.pad_token_id is None:
        batch = 1
    length = draws.choice([5, 7, 12])
    given = {"input_ids": torch.randint(2, config.vocab_size, (batch, length))}
    if form == "padded" and config.pad_token_id is not None:
        given["input_ids"][0, length - 2 :] = config.pad_token_id
    if form == "mask":
        given["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
        given["attention_mask"][0, length - 2 :] = 0
        if config.model_type == "roberta":
            given["input_ids"][0, length - 2 :] = config.pad_token_id
        if config.model_type == "bert" and config.type_vocab_size > 1:
            given["token_type_ids"] = torch.randint(0, 2, (batch, length))
    return given


def spread(model):
    """Weights far from the initial ones, so that nothing is near zero or one."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(1 + 0.3 * noise if "norm" in name.lower() and name.endswith("weight") else 0.4 * noise)


def write_pickled(folder, draws):
    """The folder's weights as one file of PyTorch or as two, instead of safetensors."""
    state = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            state |= safetensors.torch.load_file(os.path.join(folder, name))
        if ".safetensors" in name:
            os.remove(os.path.join(folder, name))
    names = sorted(state)
    # Views of larger tensors, turned ones, and parameters are how such files come, too.
    state[names[0]] = torch.nn.Parameter(state[names[0]])
    for name in names[1:]:
        if state[name].dim() == 2:
            state[name] = state[name].t().contiguous().t()
        elif draws.random() < 0.5:
            state[name] = torch.cat([state[name], state[name]])[len(state[name]) :]
    if draws.random() < 0.5:
        torch.save(state, os.path.join(folder, "pytorch_model.bin"))
        return
    parts = [names[::2], names[1::2]]
    files = [f"pytorch_model-0000{k + 1}-of-00002.bin" for k in range(2)]
    for file, part in zip(files, parts):
        torch.save({name: state[name] for name in part}, os.path.join(folder, file))
    index = {"metadata": {}, "weight_map": {name: file for file, part in zip(files, parts) for name in part}}
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as file:
        json.dump(index, file)


def plain(tensor):
    return {"shape": list(tensor.shape), "values": [float(f"{value:.7g}") for value in tensor.flatten().tolist()]}


def make(folder, kind, seed, tiny):
    draws = random.Random(f"{kind.__name__} {seed}")
    torch.manual_seed(draws.getrandbits(31))
    model, form = kind(draws, tiny)
    spread(model)
    dtype = draws.choice(TYPES)
    model.to(dtype).save_pretrained(folder, max_shard_size=draws.choice(["3KB", "1GB"]))
    # The judge computes in float32 with the weights as they are stored; what is not stored is made in float32.
    model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    if kind is pickled:
        write_pickled(folder, draws)
    given = inputs(model, form, draws)
    with torch.no_grad():
        result = model(**given, return_dict=True)
    names = [name for name in ("logits", "start_logits", "end_logits", "last_hidden_state", "pooler_output") if result.get(name) is not None]
    case = {"inputs": {name: plain(value) for name, value in given.items()}, "outputs": {name: plain(result[name]) for name in names}}
    for name in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    with open(os.path.join(folder, "case.json"), "w") as file:
        json.dump(case, file)
        file.write("\n")


def main():
    root, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tiny = "--tiny" in sys.argv
    for kind in KINDS:
        for index in range(count):
            name = kind.__name__ if count == 1 else f"{kind.__name__}-{index}"
            make(os.path.join(root, name), kind, f"{seed} {index}", tiny)


main()
