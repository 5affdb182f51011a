/* fuzz_model_config.c - a model's config.json from strangers, up to the graph of a small one. */
#include "model/models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *j;
    zt_model_config c;
    if (zt_json_parse((const char *)data, size, "config.json", &j) != ZT_OK) return 0;
    if (zt_model_config_parse(j, "config.json", &c) == ZT_OK) {
        zt_graph *g;
        if (c.layers < 100 && zt_model_build(&c, &g) == ZT_OK) zt_graph_destroy(&g);
        zt_model_config_deinit(&c);
    }
    json_decref(j);
    return 0;
}
