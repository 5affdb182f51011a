/* dataset.h - from files to batches: tokenised once by all ranks together into a memory-mapped cache,
 * cut into sequences, shuffled by a seed; what sample i is depends on neither ranks nor batch size.
 * Ranks must share the folder of the cache.
 *
 * Formats: "text" (documents split by a separator line), "jsonl" (a text field), "bin" (llm.c shards:
 * header of 256 int32, magic 20240520, version 1, uint16 tokens; version 7 magic 20240801 uint32 where
 * llm.c has it), "uint16" (nanoGPT). "auto" decides by extension (.json too is taken as JSON lines) and
 * content: packed and binary files are refused. A byte order mark before JSON lines is skipped; before text it
 * belongs to the text, as Python's utf-8 has it. */
#ifndef ZT_DATASET_H
#define ZT_DATASET_H
#include "comm/comm.h"
#include "io/tokenizer.h"

typedef struct {
    const char *const *patterns; /* shell patterns or paths, n of them */
    int n_patterns;
    const char *format; /* "auto", "text", "jsonl", "bin", "uint16" */
    const char *field;  /* of jsonl; default "text" */
    const char
        *separator; /* of text: what stands between documents; empty: a file is one document */
    const char
        *cache_dir; /* where token files go; default: $XDG_CACHE_HOME/zeroth or ~/.cache/zeroth */
    int64_t sequence_length;
    int32_t vocab_size; /* of the model: an id at or above it is an error naming file and place */
    bool packing;       /* true: documents joined by eos and cut at sequence_length. false: one
                            document a sample, truncated, padded with masked labels (ragged) */
    bool isolate;       /* packed documents do not see each other (fills zt_batch.start) */
    bool shuffle;
    uint64_t seed;
    double take_from, take_to; /* part of the samples, in [0, 1): how a validation split is cut off
                                  (contiguous in unshuffled order); 0, 1 = all */
} zt_data_opt;

typedef struct zt_dataset zt_dataset;

/* Collective over comm (the work of tokenising is divided by ranks; a cache that is there and
 * matches (files' sizes and times, tokenizer hash, format) is used as it is; an unfinished or damaged one
 * is made anew). Errors: no files, no tokens, fewer tokens than one sequence, broken JSONL with line number. */
ZT_MUST_USE zt_status zt_dataset_open(const zt_data_opt *opt, const zt_tokenizer *tok,
                                      zt_comm *comm, zt_dataset **out);
void zt_dataset_close(zt_dataset **ds);
int64_t zt_dataset_samples(const zt_dataset *ds); /* in one epoch */
int64_t zt_dataset_tokens(const zt_dataset *ds);
const char *zt_dataset_describe(const zt_dataset *ds);

/* Sample number `index` of the endless, seeded stream (epoch = index / samples, each epoch shuffled
 * anew). Fills T ids and T labels (label t is the id that follows ids[t]; -100 where masked), and
 * start [T] (first position that t may see) when not NULL. Local, no allocation. */
void zt_dataset_sample(const zt_dataset *ds, int64_t index, int32_t *ids, int32_t *labels,
                       int32_t *start);
#endif
