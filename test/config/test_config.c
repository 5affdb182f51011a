/* test_config.c - DeepSpeed's files as they are, overrides, defaults, refusals, the batch triple; schedules and the
 * loss scale against their formulas; the documentation against the table. */
#include "base/file.h"
#include "config/config.h"
#include "config/schedule.h"
#include "harness.h"

#include <stdio.h>
#include <unistd.h>

static const char *golden(const char *name)
{
    static char path[600];
    (void)snprintf(path, sizeof path, "%s/test/golden/config/%s", ZT_SOURCE_DIR, name);
    return path;
}

static zt_status with(const char *file, const char *const *overrides, zt_config **c)
{
    int n = 0;
    while (overrides && overrides[n])
        n++;
    return zt_config_load(file, n, (char *const *)(uintptr_t)overrides, c);
}
#define WITH(file, c, ...) with(file, (const char *const[]){__VA_ARGS__, NULL}, c)

static void deepspeed_files_as_they_are(void **state)
{
    (void)state;
    zt_config *c;
    OK(with(golden("ds_zero3_auto.json"), NULL, &c));
    assert_int_equal(c->stage, 3);
    assert_true(!c->fp16 && !c->bf16 && c->lr == 1e-3 && c->beta2 == 0.999 &&
                c->prefetch == 50000000);
    assert_true(c->notes.n >= 6); /* what does nothing here is said */
    assert_false(zt_config_given(c, "gradient_clipping"));
    zt_config_free(&c);
    OK(with(golden("ds_zero2.json"), NULL, &c));
    assert_true(c->stage == 2 && c->fp16 && c->lr == 0.00015 && c->beta1 == 0.8 &&
                c->weight_decay == 3e-7);
    assert_true(c->gradient_clipping == 1 && c->loss_scale_window == 100 &&
                c->total_num_steps == 100);
    assert_string_equal(c->scheduler, "WarmupDecayLR");
    assert_int_equal(zt_config_type(c), ZT_F16);
    OK(zt_config_batch(c, 4));
    assert_int_equal(c->micro_batch, 2);
    zt_config_free(&c);
}

/* What is off may have any further keys. */
static void sections_that_are_off(void **state)
{
    (void)state;
    static const char *const off[] = {
        "flops_profiler={\"enabled\": false, \"profile_step\": 1, \"module_depth\": -1}",
        "tensorboard={\"job_name\": \"x\"}", "amp={\"enabled\": \"auto\", \"opt_level\": \"auto\"}",
        "elasticity={\"enabled\": false, \"micro_batch_sizes\": [2, 4]}",
        "zero_optimization={\"offload_param\": {\"device\": \"none\", \"nvme_path\": \"/x\", "
        "\"buffer_count\": 5}}"};
    zt_config *c;
    for (int i = 0; i < 5; i++) {
        OK(with(NULL, (const char *const[]){off[i], NULL}, &c));
        assert_int_equal(c->notes.n, 1);
        zt_config_free(&c);
    }
    FAILS(WITH(NULL, &c, "flops_profiler={\"enabled\": true, \"profile_step\": 1}"), ZT_ERR_CONFIG,
          "flops_profiler");
    FAILS(WITH(NULL, &c, "zero_optimization={\"offload_param\": {\"device\": \"cpu\"}}"),
          ZT_ERR_CONFIG, "offload_param.device = cpu");
    OK(WITH(NULL, &c, "train_batch_size=4294967296", "train_micro_batch_size_per_gpu=1"));
    FAILS(zt_config_batch(c, 1), ZT_ERR_CONFIG, "neither may exceed");
    zt_config_free(&c);
}

static void overrides_win(void **state)
{
    (void)state;
    zt_config *c;
    OK(WITH(golden("ds_zero2.json"), &c, "zero_optimization.stage=1", "fp16.enabled=false",
            "bf16={\"enabled\": true}", "data.train=a.txt,b.txt", "data.validation=[\"c d.txt\"]",
            "optimizer.params.betas=0.7,0.8", "seed=\"7\"", "max_steps=1e3", "output_dir=x=y"));
    assert_true(c->stage == 1 && c->bf16 && !c->fp16 && c->seed == 7 && c->max_steps == 1000);
    assert_true(c->train.n == 2 && c->validation.n == 1 && c->beta1 == 0.7 && c->beta2 == 0.8);
    assert_string_equal(c->train.items[1], "b.txt");
    assert_string_equal(c->validation.items[0], "c d.txt");
    assert_string_equal(c->output_dir, "x=y");
    zt_config_free(&c);
    OK(WITH(NULL, &c, "bf16=true", "max_grad_norm=2", "zero_optimization.overlap_comm=false"));
    assert_true(c->bf16 && c->gradient_clipping == 2 && c->prefetch == 0);
    zt_config_free(&c);
    /* names are taken as they are written */
    OK(WITH(NULL, &c, "output_dir=1.10", "model=1e3", "freeze=1.50,true", "data.text_field=auto",
            "tokenizer=null", "data.separator=\"\\n\""));
    assert_string_equal(c->output_dir, "1.10");
    assert_string_equal(c->model, "1e3");
    assert_string_equal(c->freeze.items[0], "1.50");
    assert_string_equal(c->text_field, "auto");
    assert_string_equal(c->tokenizer, "null");
    assert_string_equal(c->separator, "\n");
    zt_config_free(&c);
}

static void what_is_given_in_vain_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *override[3], *says;
    } cases[] = {
        {{"optimizer.params.momentum=0.9"}, "momentum has no effect: optimizer.type is AdamW"},
        {{"optimizer.params.betas=0.9,0.9", "optimizer.type=SGD"}, "betas has no effect"},
        {{"scheduler.params.cos_min_ratio=0.1", "scheduler.type=WarmupLR"}, "cos_min_ratio"},
        {{"fp16.loss_scale=4"}, "fp16.loss_scale has no effect: fp16.enabled is false"},
        {{"eval_steps=4"}, "there is no data.validation"},
        {{"data.validation=a", "data.validation_split=0.1"}, "data.validation_split"},
        {{"data.text_field=x", "data.format=text"}, "data.format is text"},
        {{"zero_optimization.overlap_comm=false"}, "zero_optimization.stage is 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zt_config *c;
        OK(with(NULL, cases[i].override, &c));
        assert_int_equal(c->notes.n, 1);
        assert_non_null(strstr(c->notes.items[0], cases[i].says));
        zt_config_free(&c);
    }
    zt_config *c;
    OK(WITH(NULL, &c, "optimizer.type=SGD", "optimizer.params.momentum=0.9", "fp16.enabled=true",
            "fp16.loss_scale=4", "eval_steps=2", "data.validation=a", "zero_optimization.stage=3",
            "zero_optimization.stage3_prefetch_bucket_size=5"));
    assert_int_equal(c->notes.n, 0);
    zt_config_free(&c);
}

static void refusals_name_key_and_way_out(void **state)
{
    (void)state;
    static const struct {
        const char *override, *says;
    } bad[] = {
        {"zero_optimisation.stage=1", "did you mean \"zero_optimization.stage\""},
        {"stage=1", "zero_optimization.stage"},
        {"learning_rates=1", "optimizer.params.lr"},
        {"data.train={\"a\": 1}", "data.train = {\"a\":1}: should be a list"},
        {"optimizer=AdamW", "optimizer is a section"},
        {"mezo=1", "zeroth info lists all"},
        {"tensor_parallel={\"autotp_size\": 4}", "autotp_size = 4 is not supported"},
        {"optimizer={\"type\": \"AdamW\", \"parms\": {\"lr\": 1}}", "optimizer.params"},
        {"zero_optimization.stage=5", "from 0 to 3"},
        {"zero_optimization.stage=1.5", "whole number"},
        {"zero_optimization.stage=two", "whole number"},
        {"zero_optimization.stage=[1]", "whole number"},
        {"zero_optimization=3", "command line: "},
        {"dropout=-0.5", "-1 or from 0 to 0.999"},
        {"scheduler.params.warmup_max_lr=-0.1", "-1 or from 0"},
        {"output_dir=", "output_dir is empty"},
        {"bf16.enabled=1", "true or false"},
        {"bf16.enabled=yes", "true or false"},
        {"optimizer.type=Lamb", "AdamW|Adam|SGD"},
        {"optimizer.params.lr=NaN", "finite"},
        {"optimizer.params.lr=1e999", "finite"},
        {"optimizer.params.lr=-1", "from 0"},
        {"optimizer.params.betas=0.9", "two numbers"},
        {"optimizer.params.betas=0.9,1.5", "1.5"},
        {"optimizer.params.nesterov=true", "momentum"},
        {"zero_optimization.offload_optimizer.device=cpu",
         "offload_optimizer.device = cpu is not supported"},
        {"zero_optimization.zero_quantized_weights=true", "not supported"},
        {"tensorboard.enabled=true", "metrics.jsonl"},
        {"activation_checkpointing.partition_activations=true", "not supported"},
        {"max_steps", "key=value"},
        {"=3", "key=value"},
        {"data={\"train\": {\"a\": 1}}", "data.train"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_config *c = NULL;
        FAILS(WITH(NULL, &c, bad[i].override), ZT_ERR_CONFIG, bad[i].says);
        assert_null(c);
    }
    zt_config *lenient = NULL;
    OK(WITH(NULL, &lenient, "zero_optimization={\"offload_param\": null}",
            "compression_training={}", "optimizer.params.lr=auto", "bfloat16={\"enabled\": true}"));
    assert_true(lenient->bf16);
    assert_int_equal(lenient->notes.n, 2);
    assert_non_null(strstr(lenient->notes.items[1], "lr is auto: the default, 1e-3"));
    zt_config_free(&lenient);
    OK(WITH(NULL, &lenient, "seed=7", "max_steps=5", "learning_rate=auto",
            "optimizer.params.lr=5e-4", "seed=null", "max_steps=auto"));
    assert_true(lenient->seed == 42 && lenient->max_steps == -1 && lenient->lr == 5e-4);
    assert_int_equal(lenient->notes.n, 1); /* max_steps is auto */
    zt_config_free(&lenient);
    char path[] = "/tmp/zeroth-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    static const char broken[] = "{\n  // a comment\n  \"seed\": 1,\n  \"max_steps\": oops\n}\n";
    OK(zt_file_write_all(path, broken, sizeof broken - 1));
    zt_config *c = NULL;
    FAILS(with(path, NULL, &c), ZT_ERR_FORMAT, ":4:");
    static const char twice[] = "{\"seed\": 1, \"seed\": 2}";
    OK(zt_file_write_all(path, twice, sizeof twice - 1));
    FAILS(with(path, NULL, &c), ZT_ERR_FORMAT, "duplicate");
    static const char named[] =
        "{\"per_device_train_batch_size\": 2, \"train_micro_batch_size_per_gpu\": 4}";
    OK(zt_file_write_all(path, named, sizeof named - 1));
    FAILS(with(path, NULL, &c), ZT_ERR_CONFIG, "twice, once by another name");
    (void)unlink(path);
    FAILS(with("/nowhere.json", NULL, &c), ZT_ERR_IO, "/nowhere.json");
}

static void batch_triple(void **state)
{
    (void)state;
    static const struct {
        int all, micro, steps, ranks, want_micro, want_steps; /* want 0: refused */
    } cases[] = {{0, 0, 0, 3, 1, 1},  {24, 0, 0, 3, 8, 1}, {24, 2, 0, 3, 2, 4}, {24, 0, 4, 3, 2, 4},
                 {0, 2, 5, 3, 2, 5},  {24, 2, 4, 3, 2, 4}, {24, 3, 4, 3, 0, 0}, {25, 0, 0, 3, 0, 0},
                 {24, 5, 0, 3, 0, 0}, {24, 0, 5, 3, 0, 0}, {0, 4, 0, 2, 4, 1},  {0, 0, 4, 2, 1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zt_config *c;
        OK(with(NULL, NULL, &c));
        c->train_batch_size = cases[i].all;
        c->micro_batch = cases[i].micro;
        c->accumulation = cases[i].steps;
        if (cases[i].want_micro) {
            OK(zt_config_batch(c, cases[i].ranks));
            assert_int_equal(c->micro_batch, cases[i].want_micro);
            assert_int_equal(c->accumulation, cases[i].want_steps);
            assert_int_equal(c->train_batch_size,
                             cases[i].want_micro * cases[i].want_steps * cases[i].ranks);
        } else {
            FAILS(zt_config_batch(c, cases[i].ranks), ZT_ERR_CONFIG, "train_batch_size");
        }
        zt_config_free(&c);
    }
}

static void rates(void **state)
{
    (void)state;
    zt_config *c;
    OK(WITH(NULL, &c, "optimizer.params.lr=0.1"));
    assert_true(zt_lr_at(c, 1, 10) == 0.1 && zt_lr_at(c, 10, 10) == 0.1);
    zt_config_free(&c);
    OK(WITH(NULL, &c, "scheduler.type=WarmupLR", "optimizer.params.lr=0.1",
            "scheduler.params.warmup_num_steps=10", "scheduler.params.warmup_min_lr=0.01"));
    assert_true(fabs(zt_lr_at(c, 1, 50) - 0.01) < 1e-12);
    assert_true(fabs(zt_lr_at(c, 5, 50) - (0.01 + 0.09 * log(5) / log(10))) < 1e-12);
    assert_true(zt_lr_at(c, 11, 50) == 0.1 && zt_lr_at(c, 50, 50) == 0.1);
    zt_config_free(&c);
    OK(WITH(NULL, &c, "scheduler.type=WarmupDecayLR", "optimizer.params.lr=1",
            "scheduler.params.warmup_num_steps=4", "scheduler.params.total_num_steps=12",
            "scheduler.params.warmup_type=linear"));
    const double decay[] = {0,      .25,    .5,     .75,    1,      7 / 8., 6 / 8.,
                            5 / 8., 4 / 8., 3 / 8., 2 / 8., 1 / 8., 0,      0};
    for (int s = 1; s <= 14; s++)
        assert_true(fabs(zt_lr_at(c, s, 14) - decay[s - 1]) < 1e-12);
    zt_config_free(&c);
    OK(WITH(NULL, &c, "scheduler.type=WarmupCosineLR", "optimizer.params.lr=2",
            "scheduler.params.warmup_num_steps=2", "scheduler.params.warmup_type=linear",
            "scheduler.params.warmup_min_ratio=0.1", "scheduler.params.cos_min_ratio=0.2"));
    for (int s = 1; s <= 10; s++) {
        double part = (s - 1 - 2 + 1) / 8.0;
        double want = s <= 2 ? 0.1 + 0.9 * (s - 1) / 2 : 0.2 + 0.8 * (1 + cos(M_PI * part)) / 2;
        assert_true(fabs(zt_lr_at(c, s, 10) - 2 * want) < 1e-12);
    }
    assert_true(fabs(zt_lr_at(c, 10, 10) - 0.4) < 1e-12); /* ends at the least */
    zt_config_free(&c);
    /* no warm-up, warm-up as long as the run or longer: no division by zero */
    const char *types[] = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    for (int t = 0; t < 3; t++)
        for (int warm = 0; warm < 30; warm += 10) {
            char type[64], steps[64];
            (void)snprintf(type, sizeof type, "scheduler.type=%s", types[t]);
            (void)snprintf(steps, sizeof steps, "scheduler.params.warmup_num_steps=%d", warm);
            OK(WITH(NULL, &c, type, steps));
            for (int s = 1; s <= 12; s++) {
                double lr = zt_lr_at(c, s, 10);
                assert_true(isfinite(lr) && lr >= 0 && lr <= 1e-3);
            }
            zt_config_free(&c);
        }
}

/* The table of states was made by hand from DeepSpeed's rules. */
static void loss_scale(void **state)
{
    (void)state;
    zt_config *c;
    OK(WITH(NULL, &c, "fp16.enabled=true", "fp16.initial_scale_power=4", "fp16.loss_scale_window=3",
            "fp16.hysteresis=2", "fp16.min_loss_scale=2"));
    zt_loss_scale s = zt_loss_scale_start(c);
    assert_true(s.scale == 16);
    const struct {
        bool overflow;
        double scale;
    } steps[] = {{false, 16}, {false, 16}, {false, 32}, {true, 32},  {true, 16},
                 {true, 8},   {false, 8},  {false, 8},  {false, 16}, {true, 16},
                 {true, 8},   {true, 4},   {true, 2},   {true, 2}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        zt_loss_scale_update(c, &s, steps[i].overflow);
        if (s.scale != steps[i].scale)
            fail_msg("step %zu: scale %g, wanted %g", i, s.scale, steps[i].scale);
    }
    zt_config_free(&c);
    OK(WITH(NULL, &c, "fp16.enabled=true", "fp16.loss_scale=128"));
    s = zt_loss_scale_start(c);
    zt_loss_scale_update(c, &s, true);
    assert_true(s.scale == 128);
    zt_config_free(&c);
}

static void documentation_is_the_table(void **state)
{
    (void)state;
    char path[600], *page, *text = NULL;
    size_t n, size = 0;
    (void)snprintf(path, sizeof path, "%s/docs/config.md", ZT_SOURCE_DIR);
    OK(zt_file_read_all(path, &page, &n));
    FILE *f = open_memstream(&text, &size);
    zt_config_write_docs(f, true);
    (void)fclose(f);
    if (!strstr(page, text)) fail_msg("docs/config.md is not up to date: make docs");
    free(text);
    zt_free(page);
}

static void failing_allocations(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        zt_config *c = NULL;
        zt_fault_alloc(nth);
        zt_status s = WITH(golden("ds_zero3_auto.json"), &c, "data.train=a,b", "seed=3");
        zt_fault_alloc(-1);
        if (s == ZT_OK) {
            zt_config_free(&c);
            break;
        }
        assert_int_equal(s, ZT_ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepspeed_files_as_they_are),
        cmocka_unit_test(sections_that_are_off),
        cmocka_unit_test(overrides_win),
        cmocka_unit_test(what_is_given_in_vain_is_said),
        cmocka_unit_test(refusals_name_key_and_way_out),
        cmocka_unit_test(batch_triple),
        cmocka_unit_test(rates),
        cmocka_unit_test(loss_scale),
        cmocka_unit_test(documentation_is_the_table),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
