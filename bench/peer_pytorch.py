#!/usr/bin/env python3
"""The peer: training steps of GPT-2 124M in PyTorch eager (transformers' GPT2LMHeadModel, sdpa attention),
AdamW, B = 4, random weights and tokens, as bench_train.c does it. Run through bench/peer_pytorch.sh, which
sets the allocator and OpenMP so that the comparison is fair.

    peer_pytorch.py [T [steps [fp32|bf16]]]"""
import os
import resource
import statistics
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

T = int(sys.argv[1]) if len(sys.argv) > 1 else 256
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 7
kinds = sys.argv[3:] or ["fp32", "bf16"]
torch.set_num_threads(int(os.environ.get("THREADS", os.cpu_count())))  # OpenMP may have bound this thread already
torch.manual_seed(1)
for kind in kinds:
    config = GPT2Config(embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    model = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
    model.train()
    try:
        opt = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    except RuntimeError:
        opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(0, 50257, (4, T + 1))
    times = []
    for i in range(steps + 2):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "bf16"):
            logits = model(input_ids=ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        if i >= 2:
            times.append(time.perf_counter() - start)
    t = statistics.median(times)
    print("torch %s %s T=%d %.1f tokens/s | step %.1f ms | resident peak %.0f MiB" % (
        torch.__version__, kind, T, 4 * T / t, t * 1e3, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), flush=True)
    del model, opt
