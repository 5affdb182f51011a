#!/usr/bin/env python3
"""Loads a checkpoint with transformers: no tensor missing or unexpected, and the same loss as zeroth's.

    tools/check_hf.py FOLDER [TEXT [SEQUENCE_LENGTH]]

Prints the loss on the text's packed sequences (tokenizer.json, or plain bytes without one) and a greedy
continuation; exit status 1 when something does not fit. To be compared with zeroth eval FOLDER TEXT."""
import os
import sys

import torch
from transformers import AutoModelForCausalLM

folder = os.path.abspath(sys.argv[1])
model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
bad = {k: v for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")}
print("loaded", type(model).__name__, "with", bad or "nothing missing or unexpected")
if len(sys.argv) > 2:
    T = int(sys.argv[3]) if len(sys.argv) > 3 else 256
    path = os.path.join(folder, "tokenizer.json")
    raw = open(sys.argv[2], "rb").read()
    if os.path.exists(path):
        from tokenizers import Tokenizer
        t = Tokenizer.from_file(path)
        t.no_truncation()
        ids = t.encode(raw.decode("utf8", "replace"), add_special_tokens=False).ids
    else:
        ids = list(raw)
    ids = torch.tensor(ids)
    n, total, count = (len(ids) - 1) // T, 0.0, 0
    with torch.no_grad():
        for i in range(0, n, 8):
            k = min(8, n - i)
            x = ids[i * T:(i + k) * T].reshape(k, T)
            y = ids[i * T + 1:(i + k) * T + 1].reshape(k, T)
            logits = model(input_ids=x).logits.float()
            total += torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1),
                                                       reduction="sum").item()
            count += k * T
    print("loss %.6f over %d tokens" % (total / count, count))
    print("greedy", model.generate(ids[None, :8], max_new_tokens=16, do_sample=False)[0].tolist())
sys.exit(1 if bad else 0)
