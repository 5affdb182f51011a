/* test_hf_config.c - config.json: what real models say, what is refused by name, and what is saved. */
#include "base/file.h"
#include "harness.h"
#include "model/models.h"

#include <stdio.h>
#include <unistd.h>

#define LLAMA                                                                                      \
    "\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": 2048, "                   \
    "\"num_hidden_layers\": 16, "                                                                  \
    "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 8192"

static zt_status parse(const char *text, zt_model_config *c)
{
    json_t *j;
    ZT_TRY(zt_json_parse(text, strlen(text), "config.json", &j));
    zt_status s = zt_model_config_parse(j, "config.json", c);
    json_decref(j);
    return s;
}

static int64_t parameters(const zt_model_config *c)
{
    zt_graph *g;
    OK(zt_model_build(c, &g));
    int64_t n = zt_graph_numel(g, false);
    zt_graph_destroy(&g);
    return n;
}

/* Sizes as published. */
static void real_models(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int64_t parameters;
    } models[] = {
        {"{\"model_type\": \"gpt2\"}", 124439808},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25}",
         1557611200},
        {"{" LLAMA ", \"tie_word_embeddings\": true, \"rope_theta\": 500000.0, "
         "\"max_position_embeddings\": 131072,"
         "\"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0,"
         "\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}}",
         1235814400}, /* Llama 3.2 1B */
        {"{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 4096, "
         "\"num_hidden_layers\": 32,"
         "\"num_attention_heads\": 32, \"intermediate_size\": 11008, \"pretraining_tp\": 1}",
         6738415616}, /* Llama 2 7B */
        {"{\"model_type\": \"llama\", \"vocab_size\": 49152, \"hidden_size\": 576, "
         "\"num_hidden_layers\": 30,"
         "\"num_attention_heads\": 9, \"num_key_value_heads\": 3, \"intermediate_size\": 1536,"
         "\"tie_word_embeddings\": true}",
         134515008}, /* SmolLM2 135M */
        {"{\"model_type\": \"qwen2\", \"vocab_size\": 151936, \"hidden_size\": 896, "
         "\"num_hidden_layers\": 24,"
         "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"intermediate_size\": 4864, "
         "\"sliding_window\": 32768,"
         "\"use_sliding_window\": false, \"tie_word_embeddings\": true}",
         494032768}, /* Qwen2 0.5B */
        {"{\"model_type\": \"mistral\", \"vocab_size\": 32000, \"hidden_size\": 4096, "
         "\"num_hidden_layers\": 32,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
         "\"sliding_window\": null,"
         "\"max_position_embeddings\": 32768}",
         7241732096}, /* Mistral 7B */
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        zt_model_config c;
        OK(parse(models[i].json, &c));
        assert_int_equal(parameters(&c), models[i].parameters);
        zt_model_config_deinit(&c);
    }
}

static void both_spellings_of_rope(void **state)
{
    (void)state;
    zt_model_config a, b;
    float x[32], y[32];
    OK(parse(
        "{" LLAMA
        ", \"rope_theta\": 500000.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}}",
        &a));
    OK(parse("{" LLAMA ", \"dtype\": \"bfloat16\", \"rope_parameters\": {\"rope_type\": "
             "\"linear\", \"factor\": 4.0, "
             "\"rope_theta\": 500000.0}}",
             &b));
    zt_model_config_inv_freq(&a, x);
    zt_model_config_inv_freq(&b, y);
    SAME_BITS(x, y, sizeof x);
    assert_true(x[0] == 0.25f);
    assert_true(fabs((double)x[31] * 4 - pow(500000, -62.0 / 64)) < 1e-10);
    zt_model_config_deinit(&a);
    zt_model_config_deinit(&b);
}

static void refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"[]", "object"},
        {"{}", "model_type"},
        {"{\"model_type\": \"bert\"}", "\"bert\""},
        {"{\"model_type\": \"llama\"}", "vocab_size is missing"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 100, \"n_head\": 12}", "n_head"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 0}", "n_layer"},
        {"{\"model_type\": \"gpt2\", \"n_layer\": \"many\"}", "n_layer"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 4000000000}", "n_embd"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}",
         "activation_function = \"relu\""},
        {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", "add_cross_attention"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}",
         "scale_attn_by_inverse_layer_idx"},
        {"{" LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act"},
        {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0}}", "yarn"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}", "dynamic"},
        {"{" LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
        {"{" LLAMA ", \"quantization_config\": {\"bits\": 4}}", "quantization_config"},
        {"{" LLAMA ", \"num_local_experts\": 8}", "num_local_experts"},
        {"{" LLAMA ", \"pretraining_tp\": 2}", "pretraining_tp"},
        {"{" LLAMA ", \"head_dim\": 63}", "head_dim"},
        {"{" LLAMA ", \"rms_norm_eps\": -1}", "rms_norm_eps"},
        {"{" LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
         "layer_types"},
        {"{" LLAMA ", \"layer_types\": \"full_attention\"}", "layer_types = \"full_attention\""},
        {"{" LLAMA ", \"sliding_window\": 16.0}", "sliding_window = 16.0"},
        {"{" LLAMA ", \"sliding_window\": \"16\"}", "\"sliding_window\" is a string"},
        {"{" LLAMA ", \"sliding_window\": [16]}", "\"sliding_window\" is a list"},
        {"{" LLAMA ", \"rope_scaling\": {\"factor\": 8.0}}", "factor is not known"},
        {"{" LLAMA ", \"rope_parameters\": {\"factor\": 8.0}}", "factor is not known"},
        {"{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [1, 2]}}",
         "mrope_section is not known"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "factor = (missing)"},
        {"{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}, "
         "\"rope_parameters\": {\"rope_type\": \"default\"}}",
         "rope_parameters"},
        {"{" LLAMA ", \"rope_scaling\": 8.0}", "rope_scaling = 8.0 should be an object"},
        {"{" LLAMA ", \"torch_dtype\": \"int8\"}", "torch_dtype = \"int8\""},
        {"{" LLAMA ", \"dtype\": 5}", "\"dtype\" is a whole number"},
        {"{" LLAMA ", \"eos_token_id\": \"2\"}", "eos_token_id = \"2\" should be"},
        {"{" LLAMA ", \"eos_token_id\": [2, \"3\"]}", "eos_token_id = [2,\"3\"]"},
        {"{" LLAMA ", \"bos_token_id\": 1152921504606846976}", "bos_token_id"},
        {"{" LLAMA ", \"is_causal\": false}", "is_causal = false is not supported; true is"},
        {"{" LLAMA ", \"tie_word_embeddings\": 1}", "tie_word_embeddings"},
        {"{\"model_type\": \"gpt2\", \"hidden_size\": 100}", "n_head"},
        {"{\"model_type\": \"gpt2\", \"num_hidden_layers\": 0}", "num_hidden_layers"},
        {"{\"model_type\": \"gpt2\", \"pruned_heads\": {\"0\": [1]}}", "pruned_heads"},
        {"{\"model_type\": \"mistral\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,"
         "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"attention_bias\": true}",
         "attention_bias = true"},
        {"{\"model_type\": \"mistral\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,"
         "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"max_position_embeddings\": 8192, "
         "\"sliding_window\": 4096}",
         "sliding_window = 4096"},
        {"{\"model_type\": \"mistral\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,"
         "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"max_position_embeddings\": 8192}",
         "sliding_window = (missing)"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,"
         "\"num_attention_heads\": 3, \"intermediate_size\": 8}",
         "num_attention_heads"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,"
         "\"num_attention_heads\": 4, \"num_key_value_heads\": 3, \"intermediate_size\": 8}",
         "num_key_value_heads"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_model_config c;
        zt_status s = parse(bad[i].json, &c);
        if (s == ZT_OK || !strstr(zt_error_message(), bad[i].says))
            fail_msg("%s: %s", bad[i].json, s == ZT_OK ? "accepted" : zt_error_message());
    }
}

/* What transformers writes or allows beside the usual. */
static void accepted(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{" LLAMA ", \"rope_scaling\": null, \"rope_parameters\": {\"rope_theta\": 10000.0}}",
        "{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"default\", \"type\": \"default\"}}",
        "{" LLAMA ", \"sliding_window\": 4096.0, \"layer_types\": null, \"dtype\": null}",
        "{" LLAMA ", \"bos_token_id\": -1, \"eos_token_id\": [7, 8], \"head_dim\": 64.0}",
        "{\"model_type\": \"gpt2\", \"pruned_heads\": {}, \"num_attention_heads\": 16}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        zt_model_config c;
        OK(parse(good[i], &c));
        assert_int_equal(c.eos, i == 3 ? 7 : -1);
        zt_model_config_deinit(&c);
    }
}

static void saved_as_it_came(void **state)
{
    (void)state;
    zt_model_config c, d;
    char path[] = "/tmp/zeroth-model-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    OK(parse("{" LLAMA ", \"torch_dtype\": \"float32\", \"something_else\": [1, 2]}", &c));
    OK(zt_model_config_save(&c, path, ZT_BF16));
    OK(zt_model_config_load(path, &d));
    assert_string_equal(json_string_value(json_object_get(d.source, "torch_dtype")), "bfloat16");
    assert_int_equal(json_array_size(json_object_get(d.source, "something_else")), 2);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(d.source, "architectures"), 0)),
        "LlamaForCausalLM");
    zt_model_config_deinit(&c);
    zt_model_config_deinit(&d);
    (void)unlink(path);
}

static void dropouts(void **state)
{
    (void)state;
    zt_model_config c;
    OK(parse("{\"model_type\": \"gpt2\"}", &c)); /* transformers' default is 0.1 */
    assert_true(c.resid_dropout == 0.1 && c.embd_dropout == 0.1 && c.attn_dropout == 0.1);
    zt_model_config_dropout(&c, 0.2);
    assert_true(c.resid_dropout == 0.2 && c.embd_dropout == 0.2 && c.attn_dropout == 0.2);
    zt_model_config_deinit(&c);
    OK(parse("{" LLAMA ", \"attention_dropout\": 0.1}", &c));
    assert_true(c.attn_dropout == 0.1);
    zt_model_config_dropout(&c, 0.2);
    assert_true(c.attn_dropout == 0.2 && c.resid_dropout == 0 && c.embd_dropout == 0);
    zt_model_config_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_models),     cmocka_unit_test(both_spellings_of_rope),
        cmocka_unit_test(refused_by_name), cmocka_unit_test(saved_as_it_came),
        cmocka_unit_test(dropouts),        cmocka_unit_test(accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
