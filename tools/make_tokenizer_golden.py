#!/usr/bin/env python3
"""Small tokenizers of every supported kind and what the tokenizers library (tools/requirements-reference.txt)
makes of a nasty corpus, for test/io/test_tokenizer.c.

    tools/make_tokenizer_golden.py TEXT test/golden/tokenizer     TEXT: a text to train on

NAME.json is a tokenizer.json, NAME.cases one case a line: the input's bytes in hex, ids without and with special
tokens, the decoded text in hex with and without special tokens; fields divided by tabs, = for the same again."""
import os
import random
import sys
import unicodedata

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(text, pre, normalizer=None, special=("<|endoftext|>",), size=500, **options):
    t = Tokenizer(models.BPE(**options))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def sentencepiece(text, normalizer, pre, size=500):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    t.train_from_iterator(text.split("\n"), trainers.BpeTrainer(vocab_size=size + 259, special_tokens=special))
    import json
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if a["id"] < 3]
    j["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(j))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def tokenizers(text):
    bl, seq = pre_tokenizers.ByteLevel, pre_tokenizers.Sequence
    yield "gpt2", byte_level(text, bl(add_prefix_space=False))
    yield "prefix", byte_level(text, bl(add_prefix_space=True))
    t = byte_level(text, seq([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), bl(add_prefix_space=False, use_regex=False)]),
                   special=("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"), ignore_merges=True)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    yield "llama3", t
    t = byte_level(text, seq([pre_tokenizers.Digits(individual_digits=True), bl(add_prefix_space=False)]),
                   special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"))
    t.add_tokens([AddedToken("hello", normalized=True, single_word=True), AddedToken("wor ld", lstrip=True, rstrip=True)])
    yield "smollm2", t
    yield "qwen2", byte_level(text, seq([pre_tokenizers.Split(Regex(QWEN2), "isolated"), bl(add_prefix_space=False, use_regex=False)]),
                              normalizer=normalizers.NFC(), special=("<|endoftext|>", "<|im_start|>"))
    t = sentencepiece(text, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    yield "llama2", t
    t = sentencepiece(text, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    yield "metaspace", t
    # What real tokenizers seldom have: every behaviour of Split, cuts without matches, unknown characters, normalised
    # added tokens, text without a decoder.
    def split(pattern, behavior, invert=False):
        return pre_tokenizers.Split(Regex(pattern), behavior, invert)
    t = byte_level(text, seq([split(r"(?<=\p{Ll})(?=\p{Lu})", "isolated"), split(r"[\d_]+", "merged_with_previous"),
                              split(r"[!-/]", "merged_with_next"), split(r"\w|a*", "contiguous"), split("~", "removed"),
                              bl(add_prefix_space=False, use_regex=False)]), size=400)
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 2, 0)])
    t.add_tokens([AddedToken("<", rstrip=True), AddedToken("<s>", lstrip=True), AddedToken("\n\n"), AddedToken(" b")])
    yield "splits", t
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator([text[:100000]], trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"]))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend("▁"), normalizers.Replace("ab", ""),
                                         normalizers.Replace(" ", "▁")])
    t.add_tokens([AddedToken("hello", normalized=True), AddedToken("don't", normalized=True, single_word=True)])
    t.post_processor = processors.TemplateProcessing(single="$A <unk>", special_tokens=[("<unk>", 0)])
    yield "unknown", t


def corpus(text):
    rng = random.Random(3)
    fixed = ["", " ", "  ", "\n", "\n\n\n", "\t \n \r\n x", " " * 100 + "a", "a" + " " * 60, "1234567890 12 345 6789", "①②Ⅷ½ ٣٤٥",
             "e\u0301e\u0301 \u0301 o\u0302\u0323", "\u1e9b\u0323", "한국어 각 \u1100\u1161\u11a8", "日本語のテキスト。", "🇩🇪🇫🇷 👩‍👩‍👧‍👦 👍🏽",
             "\u200b\u200d\ufeff\u00a0\u2003x\u3000y\u180ez", "I'll don't we've IT'S you'RE", "\u0085a\u2028b\u2029c", "ﬁ ﬀ Ǆ ı İ ß ẞ",
             "\x01\x02\x7f", "ä" * 80, "a" * 300, "ab" * 100 + " ", "<|endoftext|>", "x<|endoftext|> y <s></s><unk>", "<s> hi",
             "▁▁a ▁b", "a\u0300\u0316\u0300", "مرحبا بالعالم", "हिन्दी नमस्ते", "ไทยภาษา", "don't\n\n  stop\r\n\r\n", "_foo__bar 3.14e-10",
             "http://a.b/c?d=e&f=g#h", "\u0f73\u0f71\u0f72\u0f74", "\u0340\u0341\u0343\u0344", "\u2126\u212b", "\uac00\u11a7\uac00\u11a8",
             "hello hellothere hello, wor ld  wor ld!", "<|im_start|>user\nhi<|im_end|>\n", "<|begin_of_text|>x<|eot_id|>",
             "fooBar a__b !c ~d~ 12ab34 xYz (a) [b]", "< s> <s>  <<s>\n\n\n b  b", "hello don't", "\u0897 \ua7cb\U00016d67x \U00010d40\U00011de3 1\u0301",
             "x\u0300\u0316\u0300\u07fd\u0301\U0001e5ec", "²³¹¼Ⅷ①②\u24b6🅰", text[1000:1400], text[5000:5400].upper()]
    pool = [chr(c) for c in range(0x20, 0x30000, 37) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    for _ in range(60):
        k, n = rng.random(), rng.randint(0, 24)
        if k < .3:
            i = rng.randrange(len(text))
            fixed.append(text[i:i + rng.randint(0, 120)])
        elif k < .6:
            fixed.append("".join(rng.choice(pool + [" ", "\n"] * 200) for _ in range(n)))
        else:
            fixed.append("".join(rng.choice([" ", "  ", "\n", "\t", "a", "Z", "é", "1", "23", "'s", "!", "...", "\r\n", "ab", "\u3000",
                                             "한", "🙂", "\u0301", "<s>", "<|endoftext|>", "hello"]) for _ in range(n)))
    out = [s.encode() for s in fixed]
    out += [b"\xff\xfe", b"a\xc3", b"\xe2\x82", b"\xf0\x9f\x98x", b"\xed\xa0\x80", b"\xc0\xaf\x80", b"ok\xf4\x90\x80\x80end", bytes(range(128, 256))]
    out += [bytes(rng.randrange(256) for _ in range(rng.randint(0, 20))) for _ in range(16)]
    return out


if __name__ == "__main__":
    source = open(sys.argv[1], encoding="utf8").read()[:300000]
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, t in tokenizers(source):
        t.save(os.path.join(sys.argv[2], name + ".json"), pretty=False)
        t = Tokenizer.from_file(os.path.join(sys.argv[2], name + ".json"))
        with open(os.path.join(sys.argv[2], name + ".cases"), "w") as f:
            for raw in corpus(source):
                s = raw.decode("utf8", "replace")
                plain, special = (t.encode(s, add_special_tokens=b).ids for b in (False, True))
                texts = [t.decode(special, skip_special_tokens=b).encode("utf8").hex() for b in (False, True)]
                fields = [raw.hex(), " ".join(map(str, plain)), " ".join(map(str, special))] + texts
                for i in (4, 2):
                    fields[i] = "=" if fields[i] == fields[i - 1] else fields[i]
                f.write("\t".join(fields) + "\n")
        print(name, t.get_vocab_size())
