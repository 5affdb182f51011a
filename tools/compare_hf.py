#!/usr/bin/env python3
"""Ten steps of a real model in zeroth and in PyTorch: the same text, the same batches, fp32, AdamW.

    tools/compare_hf.py ZEROTH FOLDER TEXT [SEQUENCE_LENGTH [mpirun -n 2 ...]]

Prints loss and gradient norm of every step side by side; exit status 1 when a loss or norm is off by more than
1e-4. Needs tools/requirements-reference.txt."""
import json
import os
import subprocess
import sys
import tempfile

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

zeroth, folder, text = sys.argv[1:4]
T = int(sys.argv[4]) if len(sys.argv) > 4 else 64
launch, B = sys.argv[5:], 4
out = tempfile.mkdtemp()
config = {"model": folder, "dropout": 0, "data": {"train": [text], "sequence_length": T, "shuffle": False, "cache_dir": out},
          "output_dir": out, "max_steps": 10, "save_steps": 0, "save_at_end": False, "train_batch_size": B,
          "zero_optimization": {"stage": 3},
          "optimizer": {"params": {"lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1}}}
path = os.path.join(out, "config.json")
json.dump(config, open(path, "w"))
subprocess.run(launch + [zeroth, "train", path], check=True, stdout=subprocess.DEVNULL)
ours = [json.loads(l) for l in open(os.path.join(out, "metrics.jsonl"))]

t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
t.no_truncation()
ids = torch.tensor(t.encode(open(text, encoding="utf8", newline="").read()).ids)  # begun as the tokenizer begins a text
model = AutoModelForCausalLM.from_pretrained(os.path.abspath(folder), dtype=torch.float32)
model.eval()  # no dropout
opt = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
worst = 0
for s in range(10):
    at = s * B * T
    x, y = ids[at:at + B * T].reshape(B, T), ids[at + 1:at + B * T + 1].reshape(B, T)
    logits = model(input_ids=x).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
    opt.zero_grad()
    loss.backward()
    norm = sum(p.grad.double().pow(2).sum().item() for p in model.parameters()) ** 0.5
    opt.step()
    off = max(abs(ours[s]["loss"] / loss.item() - 1), abs(ours[s]["grad_norm"] / norm - 1))
    worst = max(worst, off)
    print("step %2d  loss %.6f  torch %.6f   grad norm %.6f  torch %.6f   off by %.1e" % (
        s + 1, ours[s]["loss"], loss.item(), ours[s]["grad_norm"], norm, off))
print("worst", worst)
sys.exit(worst > 1e-4)
