/* models.c - which function describes which family. */
#include "model/models.h"

static zt_build_fn *const families[] = {
    [ZT_FAMILY_GPT2] = zt_build_gpt2,
    [ZT_FAMILY_LLAMA] = zt_build_llama,
};

zt_status zt_model_build(const zt_model_config *c, zt_graph **out)
{
    zt_graph *g;
    ZT_TRY(zt_graph_create(&g));
    families[c->family](g, c);
    zt_status status = zt_graph_status(g);
    if (status != ZT_OK)
        zt_graph_destroy(&g);
    else
        *out = g;
    return status;
}
