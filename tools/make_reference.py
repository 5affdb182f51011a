#!/usr/bin/env python3
"""Golden values of small random models, from PyTorch and transformers (tools/requirements-reference.txt).

    tools/make_reference.py test/golden/models          all models, each a Hugging Face folder
    tools/make_reference.py --real FOLDER OUT.json      loss and gradient norms of a real model

Each folder holds config.json, model.safetensors (fp32) and golden.safetensors:
    input_ids, labels [B, T]    labels[t] is what position t is to predict, -100 where masked
    logits [B, T, V], loss      fp32; the loss is the mean over all target tokens
    grad.NAME, grad_norm        of every parameter
    adamw_losses [10], sgd_losses [10], adamw.NAME    ten steps on the same batch; the weights after them
    bf16_logits, bf16_loss      of the model cast to bf16
    greedy [16]                 continuation of the first five ids
"""
import json
import os
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

MODELS = {
    "gpt2": dict(model_type="gpt2", vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=40,
                 embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0),
    "gpt2-erf": dict(model_type="gpt2", vocab_size=61, n_embd=24, n_layer=1, n_head=2, n_positions=40,
                     embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
                     activation_function="gelu", n_inner=40),
    "llama": dict(model_type="llama", vocab_size=101, hidden_size=32, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2, intermediate_size=52,
                  max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False),
    "llama3": dict(model_type="llama", vocab_size=96, hidden_size=32, num_hidden_layers=2,
                   num_attention_heads=2, num_key_value_heads=1, intermediate_size=48,
                   max_position_embeddings=128, tie_word_embeddings=True, rope_theta=500000.0,
                   rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                     high_freq_factor=4.0, original_max_position_embeddings=32)),
    "qwen2": dict(model_type="qwen2", vocab_size=90, hidden_size=24, num_hidden_layers=2,
                  num_attention_heads=3, num_key_value_heads=1, intermediate_size=40,
                  max_position_embeddings=64, tie_word_embeddings=True),
    "mistral": dict(model_type="mistral", vocab_size=80, hidden_size=24, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, intermediate_size=36, head_dim=8,
                    max_position_embeddings=64, sliding_window=None),
}


def batch(vocab, B=3, T=19):
    rng = np.random.default_rng(7)
    ids = rng.integers(0, vocab, (B, T + 1))
    labels = ids[:, 1:].copy()
    for b in range(B):
        labels[b, T - 4 * b:] = -100
    labels[0, 3] = -100
    return torch.tensor(ids[:, :-1]), torch.tensor(labels)


def loss_of(model, ids, labels):
    logits = model(input_ids=ids).logits
    loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]),
                                             labels.reshape(-1), ignore_index=-100)
    return logits, loss


def steps(folder, ids, labels, make):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    opt = make(model.parameters())
    losses = []
    for _ in range(10):
        opt.zero_grad()
        loss = loss_of(model, ids, labels)[1]
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return torch.tensor(losses), dict(model.named_parameters())


def write(name, options, out):
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    config = AutoConfig.for_model(**options)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():  # so that norms, biases and small weights all matter
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.eval()
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    ids, labels = batch(config.vocab_size)
    logits, loss = loss_of(model, ids, labels)
    loss.backward()
    g = {"input_ids": ids.int(), "labels": labels.int(), "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    total = 0.0
    for n, p in model.named_parameters():
        g["grad." + n] = p.grad.clone()
        total += p.grad.double().pow(2).sum().item()
    g["grad_norm"] = torch.tensor([total ** 0.5])
    g["adamw_losses"], after = steps(folder, ids, labels, lambda p: torch.optim.AdamW(
        p, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1))
    for n, p in after.items():
        if p.dim() == 1 and "1" in n:
            g["adamw." + n] = p.detach().clone()
    g["sgd_losses"], _ = steps(folder, ids, labels, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    lo, l = loss_of(half, ids, labels)
    g["bf16_logits"], g["bf16_loss"] = lo.detach().float(), l.detach().float().reshape(1)
    seq = ids[:1, :5]
    with torch.no_grad():
        for _ in range(16):
            seq = torch.cat([seq, model(input_ids=seq).logits[:, -1].argmax(-1, keepdim=True)], 1)
    g["greedy"] = seq[0, 5:].int()
    save_file({k: v.contiguous() for k, v in g.items()}, os.path.join(folder, "golden.safetensors"))
    print(name, "loss", loss.item(), sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)))


def real(folder, out):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    ids, labels = batch(model.config.vocab_size)
    _, loss = loss_of(model, ids, labels)
    loss.backward()
    norms = {n: p.grad.double().norm().item() for n, p in model.named_parameters()}
    json.dump({"loss": loss.item(), "input_ids": ids.tolist(), "labels": labels.tolist(),
               "gradient_norms": norms}, open(out, "w"), indent=1)


if __name__ == "__main__":
    if sys.argv[1] == "--real":
        real(sys.argv[2], sys.argv[3])
    else:
        for name, options in MODELS.items():
            write(name, options, sys.argv[1])
