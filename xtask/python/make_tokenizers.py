"""Tokenizers of every kind, trained on this repository's own texts, and what they give for drawn texts.

python make_tokenizers.py FILE.json      (needs tokenizers==0.23.3)
TENSORGRID_TOKENIZERS=FILE.json cargo test -p tg-text drawn
"""

import glob
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, models, trainers, normalizers, pre_tokenizers, processors, decoders

random.seed(15)
ROOT = pathlib.Path(__file__).parents[2]
# corpora: text of the repository's own documents and sources
corpus = []
for f in sorted(ROOT.glob("docs/**/*.md"))[:40] + sorted(ROOT.glob("crates/*/src/*.rs"))[:60]:
    corpus += open(f).read().splitlines()
corpus += [
    "été français naïve coöperate Straße 東京都 こんにちは Привет мир مرحبا بالعالم 안녕하세요 😀👍🏽 ½ ﬁ ㎏ Ａ"
] * 50


def bert(lower):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(
        corpus,
        trainers.WordPieceTrainer(
            vocab_size=3000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
        ),
    )
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    t.decoder = decoders.WordPiece()
    t.enable_padding(pad_id=0, pad_token="[PAD]", direction="right" if lower else "left")
    return t


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=3000,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return t


def llama3():
    from tokenizers import Regex

    t = Tokenizer(models.BPE(ignore_merges=True))
    pat = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pat), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=3000,
            special_tokens=["<|begin_of_text|>", "<|end_of_text|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                special_tokens=[("<|begin_of_text|>", 0)],
            ),
        ]
    )
    t.decoder = decoders.ByteLevel()
    t.enable_padding(pad_id=1, pad_token="<|end_of_text|>", direction="left")
    return t


def roberta():
    t = gpt2()
    t.add_special_tokens(["<s>", "</s>", "<pad>"])
    t.post_processor = processors.RobertaProcessing(
        ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), trim_offsets=True, add_prefix_space=False
    )
    return t


def xlmr():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.train_from_iterator(
        corpus,
        trainers.UnigramTrainer(
            vocab_size=2000, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
        ),
    )
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    t.enable_padding(pad_id=1, pad_token="<pad>")
    return t


def llama2():
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    base = gpt_like_chars()
    merges = []
    for c in base:
        vocab.setdefault(c, len(vocab))
    for a, b in [
        ("▁", "t"),
        ("h", "e"),
        ("▁t", "he"),
        ("i", "n"),
        ("a", "n"),
        ("▁", "a"),
        ("e", "r"),
        ("o", "n"),
        ("▁", "w"),
        ("o", "r"),
        ("▁", "o"),
        ("▁o", "f"),
    ]:
        vocab.setdefault(a + b, len(vocab))
        merges.append((a, b))
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    t.enable_padding(pad_id=0, pad_token="<unk>")
    return t


def gpt_like_chars():
    return ["▁"] + [chr(c) for c in range(33, 127)]


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    t.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=2000,
            special_tokens=["<|startoftext|>", "<|endoftext|>"],
            end_of_word_suffix="</w>",
            show_progress=False,
        ),
    )
    t.post_processor = processors.TemplateProcessing(
        single="<|startoftext|> $A <|endoftext|>", special_tokens=[("<|startoftext|>", 0), ("<|endoftext|>", 1)]
    )
    return t


toks = {
    "bert": bert(True),
    "bert-cased-left": bert(False),
    "gpt2": gpt2(),
    "llama3": llama3(),
    "roberta": roberta(),
    "xlmr": xlmr(),
    "llama2": llama2(),
    "clip": clip(),
}
alphabet = "abcdefghijklmnopqrstuvwxyz     ABC0123456789.,;:!?'\"-_()[]{}<>/\\\n\t éèüßñçøåΩжДش中文東京日本語한국😀👍🏽\u200d\u0301\u00a0\u3000½ﬁ㎏Ａ\u0000\u0007"
words = [w for l in corpus for w in l.split()]


def text():
    k = random.random()
    if k < 0.4:
        return " ".join(random.choice(words) for _ in range(random.randint(1, 30)))
    if k < 0.8:
        return "".join(random.choice(alphabet) for _ in range(random.randint(1, 80)))
    return random.choice([" ", "  "]).join(
        random.choice(words) + random.choice(["", "'s", "<s>", "[SEP]", "<|endoftext|>", "</s>", " \n"])
        for _ in range(random.randint(1, 12))
    )


cases = []
n = 0
for name, t in toks.items():
    p = t.to_str()
    t = Tokenizer.from_str(p)
    pad = t.padding
    t.no_padding()
    t.no_truncation()
    fallback = {"gpt2": "<|endoftext|>", "roberta": "<pad>", "clip": "<|endoftext|>"}
    if pad is None:
        pad = {
            "direction": "right",
            "pad_id": t.token_to_id(fallback[name]),
            "pad_type_id": 0,
            "pad_token": fallback[name],
        }
    pad = {k: pad[k] for k in ("direction", "pad_id", "pad_type_id", "pad_token")}
    texts = []
    for i in range(600):
        one = {"a": text(), "b": text() if i % 3 == 0 and name != "clip" else None}
        t.no_padding()
        t.no_truncation()
        m = i % 4
        full = t.encode(one["a"], one["b"]) if one["b"] is not None else t.encode(one["a"])
        if len(full.ids) == 0:
            continue
        if m == 1:
            one["most"] = random.randint(6, 20)
            t.enable_truncation(one["most"])
        if m == 2:
            one["exact"] = random.randint(6, 60)
            t.enable_truncation(one["exact"])
            t.enable_padding(length=one["exact"], **pad)
        e = t.encode(one["a"], one["b"]) if one["b"] is not None else t.encode(one["a"])
        one["want"] = [e.ids, e.attention_mask, e.type_ids, t.decode(e.ids)]
        texts.append(one)
        n += 1
    cases.append({"name": name, "file": p, "texts": texts})
json.dump(cases, open(sys.argv[1], "w"))
print(n, {k: t.get_vocab_size() for k, t in toks.items()})
