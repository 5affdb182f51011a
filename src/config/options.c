/* options.c - every option there is. */
#include "config/options.h"

#include <stddef.h>

#define AT(field) offsetof(zt_config, field)
#define BIG       9e15

#define STRING(key, field, fallback, meaning)                                                      \
    {                                                                                              \
        key, ZT_OPT_STRING, AT(field), fallback, 0, 0, NULL, meaning, ZT_OPT_HONOURED              \
    }
#define CHOICE(key, field, fallback, choices, meaning)                                             \
    {                                                                                              \
        key, ZT_OPT_STRING, AT(field), fallback, 0, 0, choices, meaning, ZT_OPT_HONOURED           \
    }
#define LIST(key, field, meaning)                                                                  \
    {                                                                                              \
        key, ZT_OPT_LIST, AT(field), "", 0, 0, NULL, meaning, ZT_OPT_HONOURED                      \
    }
#define BOOL(key, field, fallback, meaning)                                                        \
    {                                                                                              \
        key, ZT_OPT_BOOL, AT(field), fallback, 0, 0, NULL, meaning, ZT_OPT_HONOURED                \
    }
#define INT(key, field, fallback, low, high, meaning)                                              \
    {                                                                                              \
        key, ZT_OPT_INT, AT(field), fallback, low, high, NULL, meaning, ZT_OPT_HONOURED            \
    }
#define REAL(key, field, fallback, low, high, meaning)                                             \
    {                                                                                              \
        key, ZT_OPT_REAL, AT(field), fallback, low, high, NULL, meaning, ZT_OPT_HONOURED           \
    }
#define NOTHING(key, why)                                                                          \
    {                                                                                              \
        key, ZT_OPT_STRING, 0, "", 0, 0, NULL, why, ZT_OPT_NO_EFFECT                               \
    }
#define ONLY(key, choices, why)                                                                    \
    {                                                                                              \
        key, ZT_OPT_STRING, 0, "", 0, 0, choices, why, ZT_OPT_LIMITED                              \
    }

const zt_option zt_options[] = {
    STRING("model", model, "", "Hugging Face folder, or a config.json with from_scratch"),
    BOOL("from_scratch", from_scratch, "false",
         "start from random weights; only config.json counts"),
    STRING("tokenizer", tokenizer, "",
           "tokenizer.json or its folder, or \"bytes\"; empty: the model's folder"),
    REAL("dropout", dropout, "-1", -1, 0.999,
         "overrides the dropouts of config.json; -1: as it says"),
    LIST("freeze", freeze, "parameters not to train: parts of their names, * for anything"),
    BOOL("gradient_checkpointing", recompute, "false",
         "keep only what leaves a block and compute the rest again in backward"),

    LIST("data.train", train, "files or patterns to train on"),
    LIST("data.validation", validation, "files or patterns to evaluate on"),
    REAL("data.validation_split", validation_split, "0", 0, 0.9,
         "share of the training samples (their end) held back when there are no validation files"),
    CHOICE("data.format", format, "auto", "auto|text|jsonl|bin|uint16",
           "text, JSON lines, llm.c's .bin shards, nanoGPT's uint16 tokens"),
    STRING("data.text_field", text_field, "text", "the field of JSON lines"),
    STRING("data.separator", separator, "",
           "text between documents; empty: one document a file. Line ends on the command line: "
           "'data.separator=\"\\n\\n\"'"),
    INT("data.sequence_length", sequence_length, "512", 2, 1e7, "tokens a sample"),
    BOOL("data.packing", packing, "true",
         "join documents and cut at sequence_length; false: one document a sample, padded or cut "
         "off"),
    BOOL("data.isolate_documents", isolate_documents, "false",
         "packed documents do not see each other"),
    BOOL("data.shuffle", shuffle, "true", "a new seeded order every epoch"),
    INT("data.seed", data_seed, "-1", -1, BIG, "of the shuffle; -1: seed"),
    STRING("data.cache_dir", cache_dir, "",
           "where token files are kept; empty: $XDG_CACHE_HOME/zeroth or ~/.cache/zeroth"),

    STRING("output_dir", output_dir, "runs/zeroth", "checkpoints and metrics.jsonl go here"),
    STRING("resume_from_checkpoint", resume, "false",
           "true: the last whole checkpoint in output_dir, if any; or a checkpoint's path"),
    INT("seed", seed, "42", 0, BIG, "of initial weights, dropout and shuffle"),
    INT("max_steps", max_steps, "-1", -1, BIG, "steps to train; -1: by num_train_epochs"),
    REAL("num_train_epochs", epochs, "3", 0, 1e6, "passes over the data when max_steps is -1"),
    INT("eval_steps", eval_steps, "0", 0, BIG,
        "evaluate at the start, every so many steps and at the end; 0: at the end"),
    INT("eval_max_samples", eval_max_samples, "0", 0, BIG, "samples of an evaluation; 0: all"),
    INT("save_steps", save_steps, "500", 0, BIG,
        "checkpoint every so many steps; 0: not on the way"),
    BOOL("save_at_end", save_at_end, "true", "checkpoint after the last step"),
    INT("save_total_limit", save_total_limit, "0", 0, BIG,
        "keep the last so many checkpoints; 0: all"),
    INT("max_shard_size", max_shard_bytes, "5000000000", 1, BIG, "bytes a file of saved weights"),
    INT("logging_steps", logging_steps, "1", 1, BIG, "print and log every so many steps"),

    INT("train_batch_size", train_batch_size, "0", 0, BIG,
        "samples a step over all ranks = micro x accumulation x ranks; 0: derived"),
    INT("train_micro_batch_size_per_gpu", micro_batch, "0", 0, 1e6,
        "samples a rank and micro-step"),
    INT("gradient_accumulation_steps", accumulation, "0", 0, 1e6, "micro-steps a step"),

    CHOICE("optimizer.type", optimizer, "AdamW", "AdamW|Adam|SGD", "the optimizer"),
    REAL("optimizer.params.lr", lr, "1e-3", 0, 1e6, "learning rate"),
    LIST("optimizer.params.betas", betas, "AdamW, Adam: the two decay rates; default 0.9, 0.999"),
    REAL("optimizer.params.eps", eps, "1e-8", 0, 1, "AdamW, Adam: added to the root"),
    REAL("optimizer.params.weight_decay", weight_decay, "0", 0, 1e3,
         "AdamW: decoupled; Adam and SGD: added to the gradient"),
    REAL("optimizer.params.momentum", momentum, "0", 0, 1, "SGD"),
    REAL("optimizer.params.dampening", dampening, "0", 0, 1, "SGD"),
    BOOL("optimizer.params.nesterov", nesterov, "false", "SGD"),
    BOOL(
        "optimizer.params.adam_w_mode", adam_w_mode, "true",
        "type Adam: decoupled weight decay, as DeepSpeed's Adam has it by default; false: added to "
        "the gradient"),
    BOOL("decay_norms_and_biases", decay_all, "true",
         "false: no weight decay on norms' scales and on biases"),
    REAL("gradient_clipping", gradient_clipping, "0", 0, 1e9,
         "largest global gradient norm; 0: none"),

    CHOICE("scheduler.type", scheduler, "constant",
           "constant|WarmupLR|WarmupDecayLR|WarmupCosineLR", "the course of the learning rate"),
    REAL("scheduler.params.warmup_min_lr", warmup_min_lr, "0", 0, 1e6,
         "WarmupLR, WarmupDecayLR: first"),
    REAL("scheduler.params.warmup_max_lr", warmup_max_lr, "-1", -1, 1e6,
         "WarmupLR, WarmupDecayLR: after warm-up; -1: optimizer.params.lr"),
    INT("scheduler.params.warmup_num_steps", warmup_num_steps, "-1", -1, BIG,
        "steps of warm-up; -1: 1000, and 0 for a constant rate"),
    CHOICE("scheduler.params.warmup_type", warmup_type, "log", "log|linear",
           "shape of the warm-up"),
    INT("scheduler.params.total_num_steps", total_num_steps, "-1", -1, BIG,
        "WarmupDecayLR, WarmupCosineLR: where it ends; -1: the run's steps"),
    REAL("scheduler.params.warmup_min_ratio", warmup_min_ratio, "0", 0, 1, "WarmupCosineLR: first"),
    REAL("scheduler.params.cos_min_ratio", cos_min_ratio, "0.0001", 0, 1, "WarmupCosineLR: last"),

    BOOL("bf16.enabled", bf16, "false", "compute in bfloat16; master weights stay fp32"),
    BOOL("fp16.enabled", fp16, "false", "compute in float16 with loss scaling"),
    REAL("fp16.loss_scale", loss_scale, "0", 0, 1e12, "0: dynamic"),
    INT("fp16.initial_scale_power", initial_scale_power, "16", 0, 40,
        "dynamic: starts at 2 to this"),
    INT("fp16.loss_scale_window", loss_scale_window, "1000", 1, BIG,
        "dynamic: doubled after so many good steps"),
    INT("fp16.hysteresis", hysteresis, "2", 1, 1e6, "dynamic: halved at the so-many-th overflow"),
    BOOL("fp16.consecutive_hysteresis", consecutive_hysteresis, "false",
         "dynamic: a good step restores the hysteresis"),
    REAL("fp16.min_loss_scale", min_loss_scale, "1", 0, 1e12, "dynamic: not below"),
    CHOICE("data_types.grad_accum_dtype", grad_accum_dtype, "auto", "auto|fp32|bf16|fp16",
           "gradients at rest; auto: fp32 with several micro-steps, otherwise the compute type"),

    INT("zero_optimization.stage", stage, "0", 0, 3,
        "sharded over ranks: 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters"),
    INT("zero_optimization.stage3_prefetch_bucket_size", prefetch, "5e7", 0, BIG,
        "gather the next block's parameters ahead if they are not more than this; 0: never"),
    INT("zero_optimization.stage3_param_persistence_threshold", persistence, "0", 0, BIG,
        "parameters of at most so many elements stay whole on every rank (DeepSpeed's default: "
        "1e5)"),
    BOOL("zero_optimization.overlap_comm", overlap_comm, "true",
         "false: gather only when needed, as stage3_prefetch_bucket_size = 0"),

    STRING("kernels", kernels, "auto", "auto, avx512_bf16, avx512, avx2, plain"),
    INT("threads", threads, "0", 0, 4096, "a rank; 0: the host's cores shared by its ranks"),
    REAL("timeout", timeout, "600", 0, 1e9, "seconds to wait for another rank; 0: for ever"),

    /* DeepSpeed's keys that describe buffers or habits of its implementation */
    NOTHING("zero_optimization.reduce_bucket_size", "a block's gradients are reduced as one"),
    NOTHING("zero_optimization.allgather_bucket_size", "a block's parameters are gathered as one"),
    NOTHING("zero_optimization.stage3_max_live_parameters",
            "a block's weights are released after it"),
    NOTHING("zero_optimization.stage3_max_reuse_distance",
            "a block's weights are released after it"),
    NOTHING("zero_optimization.sub_group_size",
            "optimizer state is updated in place, without a copy"),
    NOTHING("zero_optimization.allgather_partitions", "parameters are always all-gathered"),
    NOTHING("zero_optimization.reduce_scatter", "gradients are always reduce-scattered"),
    NOTHING("zero_optimization.contiguous_gradients", "gradients always lie in one region"),
    NOTHING("zero_optimization.round_robin_gradients",
            "every gradient is cut evenly over all ranks"),
    NOTHING("zero_optimization.ignore_unused_parameters", "the graph has no unused parameter"),
    NOTHING("zero_optimization.elastic_checkpoint", "checkpoints are read by any number of ranks"),
    NOTHING("zero_optimization.load_from_fp32_weights",
            "master weights are always restored in fp32"),
    NOTHING("zero_optimization.stage3_gather_16bit_weights_on_model_save",
            "every checkpoint holds whole weights"),
    NOTHING("zero_optimization.stage3_gather_fp16_weights_on_model_save",
            "every checkpoint holds whole weights"),
    NOTHING("zero_optimization.stage3_module_granularity_threshold",
            "parameters are gathered by block"),
    NOTHING("bf16.check_grad_overflow", "gradients that are not finite always end the run"),
    NOTHING("zero_optimization.log_trace_cache_warnings", "the order of blocks is known"),
    NOTHING("zero_optimization.leaf_module", "there are no modules"),
    NOTHING("dataloader_drop_last", "batches run on into the next epoch"),
    NOTHING("bf16.immediate_grad_update", "gradients are added up as soon as they are there"),
    NOTHING("seq_parallel_communication_data_type", "sequences are not split"),
    NOTHING("checkpoint.tag_validation", "a checkpoint's name is its step"),
    NOTHING("checkpoint.load_universal", "checkpoints are read by any number of ranks"),
    NOTHING("checkpoint.use_node_local_storage", "output_dir decides"),
    NOTHING("checkpoint.parallel_write.pipeline_stage", "there are no pipeline stages"),
    NOTHING("zero_optimization.legacy_stage1", "there is one implementation of all stages"),
    NOTHING("zero_optimization.override_module_apply", "there are no modules"),
    NOTHING("zero_optimization.memory_efficient_linear", "products never keep copies"),
    NOTHING("zero_optimization.use_all_reduce_for_fetch_params", "parameters are all-gathered"),
    NOTHING("zero_allow_untested_optimizer", "every optimizer here works at every stage"),
    NOTHING("zero_force_ds_cpu_optimizer", "the optimizer runs where its state is"),
    NOTHING("prescale_gradients",
            "gradients are scaled by the number of target tokens, in the loss"),
    NOTHING("gradient_predivide_factor", "gradients are scaled in the loss"),
    NOTHING("disable_allgather", "no all-gather could be left out"),
    NOTHING("steps_per_print", "logging_steps decides"),
    NOTHING("wall_clock_breakdown", "the end of a run always prints where time went"),
    NOTHING("memory_breakdown", "the end of a run always prints memory by kind"),
    NOTHING("dump_state", "the start of a run prints every option"),
    NOTHING("activation_checkpointing.contiguous_memory_optimization",
            "activations always lie at planned places of one region"),
    NOTHING("activation_checkpointing.number_checkpoints", "there is one a block"),
    NOTHING("activation_checkpointing.synchronize_checkpoint_boundary",
            "a CPU has nothing to wait for"),
    NOTHING("activation_checkpointing.profile", "the end of a run prints where time went"),
    NOTHING("aio.block_size", "nothing is on NVMe"),
    NOTHING("aio.queue_depth", "nothing is on NVMe"),
    NOTHING("aio.thread_count", "nothing is on NVMe"),
    NOTHING("aio.single_submit", "nothing is on NVMe"),
    NOTHING("aio.overlap_events", "nothing is on NVMe"),
    NOTHING("zero_optimization.offload_optimizer.pin_memory", "nothing is offloaded"),
    NOTHING("zero_optimization.offload_param.pin_memory", "nothing is offloaded"),
    NOTHING("optimizer.params.torch_adam", "there is one implementation"),
    NOTHING("optimizer.params.fused", "the update is always one fused pass"),
    NOTHING("optimizer.params.foreach", "the update is always one fused pass"),

    ONLY("zero_optimization.offload_optimizer.device", "none", "optimizer state stays in memory"),
    ONLY("zero_optimization.offload_param.device", "none", "parameters stay in memory"),
    ONLY("zero_optimization.cpu_offload", "false", "offloading is not supported"),
    ONLY("zero_optimization.zero_hpz_partition_size", "1", "no second copy is kept on a node"),
    ONLY("zero_optimization.zero_quantized_weights", "false", "weights travel in the compute type"),
    ONLY("zero_optimization.zero_quantized_nontrainable_weights", "false",
         "weights travel in the compute type"),
    ONLY("zero_optimization.zero_quantized_gradients", "false", "gradients travel unquantised"),
    ONLY("zero_optimization.mics_shard_size", "-1", "state is sharded over all ranks"),
    ONLY("activation_checkpointing.partition_activations", "false",
         "activations are not partitioned"),
    ONLY("activation_checkpointing.cpu_checkpointing", "false", "activations are not offloaded"),
    ONLY("fp16.auto_cast", "false", "the whole model computes in fp16"),
    ONLY("fp16.fp16_master_weights_and_grads", "false", "master weights are fp32"),
    ONLY("optimizer.params.amsgrad", "false", "AMSGrad is not supported"),
    ONLY("optimizer.params.maximize", "false", "losses are minimised"),
    ONLY("optimizer.params.freeze_step", "", "1-bit optimizers are not supported"),
    ONLY("communication_data_type", "",
         "gradients travel as they rest: data_types.grad_accum_dtype decides"),
    ONLY("sparse_gradients", "false", "gradients are dense"),
    ONLY("amp.enabled", "false", "bf16.enabled and fp16.enabled are there instead"),
    ONLY("flops_profiler.enabled", "false", "the end of a run prints FLOP/s"),
    ONLY("tensorboard.enabled", "false", "metrics go to metrics.jsonl"),
    ONLY("wandb.enabled", "false", "metrics go to metrics.jsonl"),
    ONLY("csv_monitor.enabled", "false", "metrics go to metrics.jsonl"),
    ONLY("comet.enabled", "false", "metrics go to metrics.jsonl"),
    ONLY("comms_logger.enabled", "false", "the end of a run prints what was sent"),
    ONLY("curriculum_learning.enabled", "false", "sequences have one length"),
    ONLY("autotuning.enabled", "false", "zeroth plan tells what a setting takes"),
    ONLY("tensor_parallel.autotp_size", "0|1", "layers are not split over ranks"),
    ONLY("tensor_parallel.tp_size", "0|1", "layers are not split over ranks"),
    ONLY("sequence_parallel_size", "1", "sequences are not split over ranks"),
    ONLY("pipeline.stages", "1|auto", "layers are not spread over ranks"),
    ONLY("torch_autocast.enabled", "false", "bf16.enabled and fp16.enabled are there instead"),
    ONLY("compile.deepcompile", "false", "nothing is compiled"),
    ONLY("nebula.enabled", "false", "checkpoints go to output_dir"),
    ONLY("compression_training.enabled", "false", "weights are not compressed"),
    ONLY("fp32_allreduce", "false", "data_types.grad_accum_dtype decides how gradients travel"),
    ONLY("bf16.bf16_master_weights_and_grads", "false", "master weights are fp32"),
    ONLY("bf16.bf16_optimizer_states", "false", "optimizer state is fp32"),
    ONLY("zero_optimization.mics_hierarchical_params_gather", "false",
         "state is sharded over all ranks"),
    ONLY("zero_optimization.zeropp_loco_param", "", "gradients travel unquantised"),
    ONLY("elasticity.enabled", "false", "checkpoints are read by any number of ranks instead"),
    ONLY("data_efficiency.enabled", "false", "samples come in one seeded order"),
    ONLY("hybrid_engine.enabled", "false", "zeroth generate is for that"),
    ONLY("optimizer.params.bias_correction", "true", "moments are always corrected"),
    ONLY("scheduler.params.last_batch_iteration", "-1", "a checkpoint holds the schedule's place"),
    ONLY("progressive_layer_drop.enabled", "false", "all layers are trained"),
    ONLY("eigenvalue.enabled", "false", "curvature is not measured"),
};
const int zt_n_options = (int)(sizeof zt_options / sizeof *zt_options);

const struct zt_alias zt_aliases[] = {
    {"bf16", "bf16.enabled"},
    {"fp16", "fp16.enabled"},
    {"bfloat16", "bf16.enabled"},
    {"bfloat16.enabled", "bf16.enabled"},
    {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
    {"max_grad_norm", "gradient_clipping"},
    {"learning_rate", "optimizer.params.lr"},
    {"weight_decay", "optimizer.params.weight_decay"},
    {"amp", "amp.enabled"},
};
const int zt_n_aliases = (int)(sizeof zt_aliases / sizeof *zt_aliases);
