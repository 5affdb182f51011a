/* test_train.c - whole runs: resumed as if never stopped, over ranks and stages; what a crash, a full disk or a
 * failing allocation leaves behind; numbers that are not finite; bad input. Ranks are threads. */
#include "base/file.h"
#include "harness.h"
#include "io/safetensors.h"
#include "train/session.h"

#include <stdio.h>
#include <unistd.h>

static char dir[64]; /* everything of a test lies here */

static const char model_json[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 24, \"num_hidden_layers\": "
    "2,"
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 40,"
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true}";

static const char gpt2_json[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 257, \"n_embd\": 20, \"n_layer\": 2, \"n_head\": 4,"
    "\"n_positions\": 32, \"embd_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"attn_pdrop\": 0}";

static int setup(void **state)
{
    (void)state;
    (void)strcpy(dir, "/tmp/zeroth-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    char path[128], text[6000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "It was the best of times, it was the worst of times;\n"[(i * i / 7 + i) % 53];
    (void)snprintf(path, sizeof path, "%s/text.txt", dir);
    OK(zt_file_write_all(path, text, sizeof text));
    (void)snprintf(path, sizeof path, "%s/llama.json", dir);
    OK(zt_file_write_all(path, model_json, sizeof model_json - 1));
    (void)snprintf(path, sizeof path, "%s/gpt2.json", dir);
    OK(zt_file_write_all(path, gpt2_json, sizeof gpt2_json - 1));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    OK(zt_folder_remove(dir));
    return 0;
}

/* ---- a run: a base of options and more of them, "a=b c=d" with %s for the folder ---- */
typedef struct {
    char text[2000];
    char *list[64];
    int n;
} options;

static void add(options *o, const char *more)
{
    char *to = o->n ? o->list[o->n - 1] + strlen(o->list[o->n - 1]) + 1 : o->text;
    for (const char *p = more; *p;) {
        size_t n = strcspn(p, " ");
        const char *mark = memchr(p, '@', n);
        int used = mark ? snprintf(to, 300, "%.*s%s%.*s", (int)(mark - p), p, dir,
                                   (int)(p + n - mark - 1), mark + 1)
                        : snprintf(to, 300, "%.*s", (int)n, p);
        o->list[o->n++] = to;
        to += used + 1;
        p += n + (p[n] == ' ');
    }
}

static zt_status run_rank(zt_comm *comm, void *arg)
{
    const options *o = arg;
    zt_config *c;
    ZT_TRY(zt_config_load(NULL, o->n, (char *const *)o->list, &c));
    zt_status status = zt_train(comm, c);
    zt_config_free(&c);
    return status;
}

static zt_status run(int ranks, const char *more)
{
    options o = {.n = 0};
    add(&o, "model=@/llama.json from_scratch=true tokenizer=bytes data.train=@/text.txt "
            "data.cache_dir=@/cache "
            "data.sequence_length=16 output_dir=@/out seed=3 max_steps=12 save_steps=6 threads=1 "
            "timeout=60 "
            "train_micro_batch_size_per_gpu=2 optimizer.params.lr=0.01 "
            "optimizer.params.weight_decay=0.1 "
            "gradient_clipping=1 scheduler.type=WarmupCosineLR scheduler.params.warmup_num_steps=3 "
            "logging_steps=100");
    add(&o, more);
    return zt_comm_run_threads(ranks, run_rank, &o);
}

static char *in_dir(const char *name)
{
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    (void)snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
    return path[next];
}

/* The same tensors, bit for bit. */
static void same_files(const char *a, const char *b)
{
    zt_weights *x, *y;
    OK(zt_weights_open(in_dir(a), &x));
    OK(zt_weights_open(in_dir(b), &y));
    assert_int_equal(zt_weights_count(x), zt_weights_count(y));
    for (int i = 0; i < zt_weights_count(x); i++) {
        const zt_tensor *t = zt_weights_at(x, i), *u = zt_weights_at(y, i);
        assert_string_equal(t->name, u->name);
        if (memcmp(t->data, u->data, t->bytes) != 0)
            fail_msg("%s and %s differ in %s", a, b, t->name);
    }
    zt_weights_close(&x);
    zt_weights_close(&y);
}

static double last_loss(const char *out)
{
    char path[256], *text;
    size_t size;
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    OK(zt_file_read_all(in_dir(path), &text, &size));
    double loss = NAN;
    for (const char *p = text; (p = strstr(p, "\"loss\": ")) != NULL; p += 8)
        loss = strtod(p + 8, NULL);
    zt_free(text);
    return loss;
}

/* ---- resuming ---- */
static void resumed_bit_for_bit(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        const char *options;
    } cases[] = {
        {1, "model=@/llama.json"},
        {2, "model=@/llama.json zero_optimization.stage=3 bf16.enabled=true"},
        {3, "model=@/gpt2.json zero_optimization.stage=1 bf16.enabled=true "
            "gradient_accumulation_steps=2"},
        {2, "model=@/gpt2.json zero_optimization.stage=2 fp16.enabled=true "
            "fp16.initial_scale_power=20 "
            "fp16.hysteresis=1"},
        {2, "model=@/gpt2.json zero_optimization.stage=3 optimizer.type=SGD "
            "optimizer.params.momentum=0.9 "
            "freeze=wpe"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char again[400], files[2][100];
        OK(run(cases[i].ranks, cases[i].options));
        (void)snprintf(again, sizeof again,
                       "%s output_dir=@/again resume_from_checkpoint=@/out/checkpoint-6",
                       cases[i].options);
        OK(run(cases[i].ranks, again));
        same_files("out/checkpoint-12/model.safetensors", "again/checkpoint-12/model.safetensors");
        for (int r = 1; r <= cases[i].ranks; r++) {
            for (int k = 0; k < 2; k++)
                (void)snprintf(files[k], sizeof files[k],
                               "%s/checkpoint-12/optimizer-%05d-of-%05d.safetensors",
                               k ? "again" : "out", r, cases[i].ranks);
            same_files(files[0], files[1]);
        }
        assert_true(last_loss("out") == last_loss("again"));
        OK(zt_folder_remove(in_dir("out")));
        OK(zt_folder_remove(in_dir("again")));
    }
}

/* The same samples in other hands: the same losses within rounding. */
static void resumed_on_other_ranks_and_stages(void **state)
{
    (void)state;
    OK(run(2, "zero_optimization.stage=3 train_batch_size=12 train_micro_batch_size_per_gpu=6"));
    const double want = last_loss("out");
    static const struct {
        int ranks;
        const char *options;
    } others[] = {{1, "zero_optimization.stage=0 train_micro_batch_size_per_gpu=12"},
                  {3, "zero_optimization.stage=2 train_micro_batch_size_per_gpu=4"},
                  {4, "zero_optimization.stage=1 train_micro_batch_size_per_gpu=3"},
                  {2, "zero_optimization.stage=3 train_micro_batch_size_per_gpu=3"}};
    for (int i = 0; i < 4; i++) {
        char text[400];
        (void)snprintf(text, sizeof text,
                       "%s train_batch_size=12 output_dir=@/other "
                       "resume_from_checkpoint=@/out/checkpoint-6",
                       others[i].options);
        OK(run(others[i].ranks, text));
        assert_true(fabs(last_loss("other") - want) < 1e-4 * want);
        OK(zt_folder_remove(in_dir("other")));
    }
}

static void a_checkpoint_is_a_model(void **state)
{
    (void)state;
    OK(run(2, "bf16.enabled=true max_shard_size=4000"));
    assert_true(zt_path_exists(in_dir("out/checkpoint-12/model.safetensors.index.json")));
    /* a model folder like any other, in a new run */
    OK(run(1, "model=@/out/checkpoint-12 from_scratch=false output_dir=@/tuned max_steps=2"));
    assert_true(last_loss("tuned") < 5);
}

static void resumed_in_another_type(void **state)
{
    (void)state;
    static const char *const types[] = {"bf16.enabled=false", "bf16.enabled=true",
                                        "fp16.enabled=true"};
    for (int i = 0; i < 9; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "output_dir=@/from save_steps=6 %s", types[i / 3]);
        OK(run(2, text));
        const double want = last_loss("from");
        (void)snprintf(text, sizeof text, "%s resume_from_checkpoint=@/from/checkpoint-6",
                       types[i % 3]);
        OK(run(2, text));
        assert_true(fabs(last_loss("out") - want) < 2e-2 * want);
        OK(zt_folder_remove(in_dir("from")));
        OK(zt_folder_remove(in_dir("out")));
    }
}

/* Numbers of a damaged trainer_state.json. */
static void absurd_counters_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"\"samples_seen\"", "\"samples_seen\": -7, \"x\""},
        {"\"global_step\"", "\"global_step\": -3, \"x\""},
        {"\"global_step\"", "\"global_step\": 9223372036854775807, \"x\""},
        {"\"samples_seen\"", "\"x\""},
        {"\"hysteresis\"", "\"x\""}};
    OK(run(1, "max_steps=6"));
    char *text, changed[20000];
    size_t size;
    OK(zt_file_read_all(in_dir("out/checkpoint-6/trainer_state.json"), &text, &size));
    for (int i = 0; i < 5; i++) {
        const char *at = strstr(text, bad[i][0]);
        assert_non_null(at);
        int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, bad[i][1],
                         at + strlen(bad[i][0]));
        OK(zt_file_write_all(in_dir("out/checkpoint-6/trainer_state.json"), changed, (size_t)n));
        FAILS(run(1, "resume_from_checkpoint=true"), ZT_ERR_FORMAT, "trainer_state.json");
    }
    zt_free(text);
    OK(zt_folder_remove(in_dir("out")));
}

/* An earlier run got further: its checkpoints are the old ones. Folders with other names are the user's. */
static void a_new_run_keeps_its_own(void **state)
{
    (void)state;
    OK(run(1, "max_steps=12 save_steps=6"));
    OK(zt_folder_make(in_dir("out/checkpoint-my-notes.tmp")));
    OK(run(1, "max_steps=4 save_total_limit=1"));
    assert_true(zt_path_exists(in_dir("out/checkpoint-4/trainer_state.json")));
    assert_true(zt_path_exists(in_dir("out/checkpoint-my-notes.tmp")));
    assert_false(zt_path_exists(in_dir("out/checkpoint-12")));
    OK(zt_folder_make(in_dir("out/checkpoint-88"))); /* not a whole one */
    OK(zt_folder_make(in_dir("out/checkpoint-99999999999999999999")));
    OK(zt_file_write_all(in_dir("out/checkpoint-7.tmp"), "mine", 4));
    OK(run(1, "max_steps=5 resume_from_checkpoint=true save_total_limit=1"));
    assert_true(zt_path_exists(in_dir("out/checkpoint-5")));
    static const char *const kept[] = {"out/checkpoint-88", "out/checkpoint-7.tmp",
                                       "out/checkpoint-99999999999999999999"};
    for (int i = 0; i < 3; i++)
        assert_true(zt_path_exists(in_dir(kept[i])));
    OK(zt_folder_make(in_dir("out/checkpoint-6")));
    FAILS(run(1, "max_steps=6 resume_from_checkpoint=true"), ZT_ERR_IO, "is no checkpoint");
    OK(zt_folder_remove(in_dir("out")));
}

/* Overwrites four bytes of the first tensor that begins so. */
static void poke(const char *file, const char *name, float x)
{
    zt_weights *w;
    OK(zt_weights_open(in_dir(file), &w));
    const zt_tensor *t = NULL;
    for (int i = 0; i < zt_weights_count(w) && !t; i++)
        if (strncmp(zt_weights_at(w, i)->name, name, strlen(name)) == 0) t = zt_weights_at(w, i);
    assert_non_null(t);
    char *data;
    size_t size;
    OK(zt_file_read_all(in_dir(file), &data, &size));
    for (size_t at = 0; at + t->bytes <= size; at++)
        if (memcmp(data + at, t->data, t->bytes) == 0) {
            memcpy(data + at, &x, sizeof x);
            break;
        }
    zt_weights_close(&w);
    OK(zt_file_write_all(in_dir(file), data, size));
    zt_free(data);
}

static void damaged_optimizer_state_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float x;
    } bad[] = {{"exp_avg_sq/", -1}, {"exp_avg/", NAN}, {"master/", INFINITY}};
    for (int i = 0; i < 3; i++) {
        OK(run(1, "max_steps=6 bf16.enabled=true"));
        poke("out/checkpoint-6/optimizer-00001-of-00001.safetensors", bad[i].name, bad[i].x);
        FAILS(run(1, "bf16.enabled=true resume_from_checkpoint=true"), ZT_ERR_FORMAT, "damaged");
        OK(zt_folder_remove(in_dir("out")));
    }
}

static void another_cut_of_the_data_cannot_go_on(void **state)
{
    (void)state;
    OK(run(1, "max_steps=6"));
    FAILS(run(1, "resume_from_checkpoint=true data.sequence_length=32"), ZT_ERR_CONFIG,
          "was saved with 16");
    FAILS(run(1, "resume_from_checkpoint=true data.packing=false"), ZT_ERR_CONFIG,
          "data.packing = false");
    /* what has another name is none of it */
    OK(zt_file_write_all(in_dir("out/checkpoint-6/optimizer-00001-of-00001.safetensors.bak"), "x",
                         1));
    OK(run(1, "resume_from_checkpoint=true optimizer.params.lr=0.02"));
    OK(zt_folder_remove(in_dir("out")));
}

/* Nothing is left to do: the checkpoint is not written again. */
static void a_finished_run_is_left_alone(void **state)
{
    (void)state;
    OK(run(1, "max_steps=6"));
    OK(zt_file_write_all(in_dir("out/checkpoint-6/note"), "mine", 4));
    OK(run(1, "max_steps=6 resume_from_checkpoint=true"));
    assert_true(zt_path_exists(in_dir("out/checkpoint-6/note")));
    OK(zt_folder_remove(in_dir("out")));
    OK(zt_folder_make(in_dir("out")));
    OK(zt_file_write_all(in_dir("out/checkpoint-6"), "a file", 6));
    FAILS(run(1, "max_steps=6"), ZT_ERR_IO, "move it away");
    OK(zt_folder_remove(in_dir("out")));
    /* asked to end before the first step, and in the evaluation */
    zt_stop_requested = 1;
    OK(run(2, "max_steps=6 data.validation_split=0.2 eval_steps=2"));
    zt_stop_requested = 0;
    assert_false(zt_path_exists(in_dir("out/checkpoint-0")));
    OK(zt_folder_remove(in_dir("out")));
}

/* A header whose length is no multiple of 4: tensors are copied, and reading one leaves the others alone. */
static void misaligned_weights_are_the_same(void **state)
{
    (void)state;
    OK(run(1, "max_steps=2"));
    const char *more = "model=@/out/checkpoint-2 from_scratch=false output_dir=@/tuned max_steps=3";
    OK(run(1, more));
    const double want = last_loss("tuned");
    char *data;
    size_t size;
    OK(zt_file_read_all(in_dir("out/checkpoint-2/model.safetensors"), &data, &size));
    char *moved = malloc(size + 1);
    assert_non_null(moved);
    uint64_t length;
    memcpy(&length, data, 8);
    memcpy(moved, data, 8 + length);
    moved[8 + length] = ' ';
    memcpy(moved + 9 + length, data + 8 + length, size - 8 - length);
    length++;
    memcpy(moved, &length, 8);
    OK(zt_file_write_all(in_dir("out/checkpoint-2/model.safetensors"), moved, size + 1));
    OK(run(1, more));
    assert_true(last_loss("tuned") == want);
    free(moved);
    zt_free(data);
    OK(zt_folder_remove(in_dir("out")));
    OK(zt_folder_remove(in_dir("tuned")));
}

static void old_ones_and_leftovers_go(void **state)
{
    (void)state;
    OK(zt_folder_make(in_dir("out/checkpoint-99.tmp")));
    OK(zt_file_write_all(in_dir("out/checkpoint-99.tmp/config.json"), "{", 1));
    OK(run(1, "save_steps=2 save_total_limit=2 resume_from_checkpoint=true"));
    assert_true(zt_path_exists(in_dir("out/checkpoint-12")) &&
                zt_path_exists(in_dir("out/checkpoint-10")));
    assert_false(zt_path_exists(in_dir("out/checkpoint-8")));
    assert_false(zt_path_exists(in_dir("out/checkpoint-99.tmp")));
    FAILS(run(1, "resume_from_checkpoint=true optimizer.type=SGD"), ZT_ERR_CONFIG, "AdamW");
    FAILS(run(1, "resume_from_checkpoint=@/nowhere"), ZT_ERR_CONFIG, "nowhere");
    OK(zt_folder_remove(in_dir("out/checkpoint-12/optimizer-00001-of-00001.safetensors")));
    FAILS(run(1, "resume_from_checkpoint=true max_steps=14"), ZT_ERR_FORMAT, "optimizer files");
}

/* ---- I/O and memory that fail: an error, no half-written checkpoint, the old one as it was ---- */
typedef struct {
    options o;
    int64_t io, alloc;
} faulty;

static zt_status run_faulty(zt_comm *comm, void *arg)
{
    faulty *f = arg;
    zt_fault_io(f->io);
    zt_fault_alloc(f->alloc);
    zt_status status = run_rank(comm, &f->o);
    zt_fault_io(-1);
    zt_fault_alloc(-1);
    return status;
}

static void failing(bool io, int step)
{
    OK(run(1, "max_steps=2 save_steps=0"));
    int failures = 0;
    for (int64_t nth = 1;; nth += nth > 40 ? step : 1) {
        faulty f = {.io = io ? nth : -1, .alloc = io ? -1 : nth};
        add(&f.o, "model=@/llama.json from_scratch=true tokenizer=bytes data.train=@/text.txt "
                  "data.cache_dir=@/cache2 "
                  "data.sequence_length=16 output_dir=@/out max_steps=3 save_steps=0 threads=1 "
                  "resume_from_checkpoint=@/out/checkpoint-2 logging_steps=100");
        zt_status status = zt_comm_run_threads(1, run_faulty, &f);
        assert_true(zt_path_exists(in_dir("out/checkpoint-2/trainer_state.json")));
        assert_false(zt_path_exists(in_dir("out/checkpoint-3.tmp")));
        if (status == ZT_OK) break;
        failures++;
        assert_true(status == ZT_ERR_IO || status == ZT_ERR_NOMEM || status == ZT_ERR_FORMAT);
        assert_true(strlen(zt_error_message()) > 5);
        OK(zt_folder_remove(in_dir("out/checkpoint-3")));
        OK(zt_folder_remove(in_dir("cache2")));
    }
    assert_true(failures > 10);
}

static void every_io_call_fails_once(void **state)
{
    (void)state;
    failing(true, 1);
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    failing(false, 7);
}

/* ---- numbers that are not finite ---- */
static void not_finite_is_named(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        FAILS(run(ranks, "optimizer.params.lr=1e6 scheduler.type=constant gradient_clipping=0 "
                         "bf16.enabled=true "
                         "optimizer.params.weight_decay=100 zero_optimization.stage=3"),
              ZT_ERR_NUMERIC, "step ");
        assert_non_null(strstr(zt_error_message(), "not finite"));
    }
}

static void poisoned_weights_are_refused(void **state)
{
    (void)state;
    OK(run(1, "max_steps=1"));
    zt_weights *w;
    OK(zt_weights_open(in_dir("out/checkpoint-1"), &w));
    int n = zt_weights_count(w);
    zt_tensor *t = calloc((size_t)n, sizeof *t);
    zt_weights_out *out;
    for (int i = 0; i < n; i++)
        t[i] = *zt_weights_at(w, i);
    OK(zt_folder_make(in_dir("bad")));
    OK(zt_weights_create(in_dir("bad/model.safetensors"), t, n, NULL, &out));
    for (int i = 0; i < n; i++) {
        float *copy = malloc(t[i].bytes);
        memcpy(copy, t[i].data, t[i].bytes);
        if (i == n - 2) copy[5] = NAN;
        OK(zt_weights_write(out, copy, t[i].bytes));
        free(copy);
    }
    OK(zt_weights_commit(&out));
    OK(zt_file_copy(in_dir("out/checkpoint-1/config.json"), in_dir("bad/config.json")));
    FAILS(run(2, "model=@/bad from_scratch=false"), ZT_ERR_NUMERIC, "element 5");
    /* one tensor fewer, one too many, another shape */
    OK(zt_weights_create(in_dir("bad/model.safetensors"), t, n - 1, NULL, &out));
    for (int i = 0; i < n - 1; i++)
        OK(zt_weights_write(out, t[i].data, t[i].bytes));
    OK(zt_weights_commit(&out));
    FAILS(run(1, "model=@/bad from_scratch=false"), ZT_ERR_FORMAT, t[n - 1].name);
    t[n - 1].name = "model.layers.7.extra";
    OK(zt_weights_create(in_dir("bad/model.safetensors"), t, n, NULL, &out));
    for (int i = 0; i < n; i++)
        OK(zt_weights_write(out, t[i].data, t[i].bytes));
    OK(zt_weights_commit(&out));
    FAILS(run(1, "model=@/bad from_scratch=false"), ZT_ERR_FORMAT, "no tensor");
    free(t);
    zt_weights_close(&w);
}

static void bad_input_is_one_clear_line(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        zt_status code;
        const char *says;
    } cases[] = {
        {"model=@/nothing", ZT_ERR_CONFIG, "nothing"},
        {"model=@/text.txt", ZT_ERR_FORMAT, "text.txt:1"},
        {"from_scratch=false", ZT_ERR_CONFIG, "from_scratch=true"},
        {"from_scratch=false model=@", ZT_ERR_IO, "config.json"},
        {"data.train=@/missing.txt", ZT_ERR_IO, "missing.txt"},
        {"data.sequence_length=7000", ZT_ERR_CONFIG, "fewer than one sequence"},
        {"train_batch_size=7", ZT_ERR_CONFIG, "train_batch_size 7"},
        {"optimizer.params.lr=nan", ZT_ERR_CONFIG, "optimizer.params.lr"},
        {"optimizer.params.lr=inf", ZT_ERR_CONFIG, "optimizer.params.lr"},
        {"optimizer.params.lr=fast", ZT_ERR_CONFIG, "fast"},
        {"zero_optimization.stage=4", ZT_ERR_CONFIG, "from 0 to 3"},
        {"zero_optimisation.stage=1", ZT_ERR_CONFIG, "zero_optimization.stage"},
        {"zero_optimization.offload_param.device=cpu", ZT_ERR_CONFIG, "offload_param"},
        {"freeze=nosuchname", ZT_ERR_CONFIG, "nosuchname"},
        {"output_dir=/proc/none", ZT_ERR_IO, "/proc/none"},
        {"data.cache_dir=/proc/none", ZT_ERR_IO, "data.cache_dir"},
        {"kernels=fast", ZT_ERR_CONFIG, "fast"},
        {"bf16.enabled=true fp16.enabled=true", ZT_ERR_CONFIG, "both"},
        {"tokenizer=@/text.txt", ZT_ERR_FORMAT, "text.txt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            zt_status status = run(ranks, cases[i].options);
            if (status != cases[i].code && status != ZT_ERR_PEER)
                fail_msg("%s: %s: %s", cases[i].options, zt_status_text(status),
                         zt_error_message());
            if (!strstr(zt_error_message(), cases[i].says) || strchr(zt_error_message(), '\n'))
                fail_msg("%s: \"%s\"", cases[i].options, zt_error_message());
            assert_false(zt_path_exists(in_dir("out/checkpoint-6")));
        }
}

int main(void)
{
    zt_log_setup(ZT_LOG_ERROR, 0);
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(resumed_bit_for_bit),
        TEST(resumed_on_other_ranks_and_stages),
        TEST(a_checkpoint_is_a_model),
        TEST(resumed_in_another_type),
        TEST(absurd_counters_are_refused),
        TEST(damaged_optimizer_state_is_refused),
        TEST(another_cut_of_the_data_cannot_go_on),
        TEST(a_finished_run_is_left_alone),
        TEST(a_new_run_keeps_its_own),
        TEST(misaligned_weights_are_the_same),
        TEST(old_ones_and_leftovers_go),
        TEST(every_io_call_fails_once),
        TEST(every_allocation_fails_once),
        TEST(not_finite_is_named),
        TEST(poisoned_weights_are_refused),
        TEST(bad_input_is_one_clear_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
