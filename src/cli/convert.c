/* convert.c - the convert command. */
#include "base/file.h"
#include "cli/cli.h"
#include "io/gguf.h"

zt_status zt_cli_convert(zt_comm *comm, int argc, char **argv)
{
    zt_flag f = {"dtype", NULL};
    zt_args a;
    const zt_command_line line = {.usage = "convert MODEL.gguf FOLDER [--dtype bf16|fp16|fp32]",
                                  .flags = &f,
                                  .n_flags = 1,
                                  .least = 2,
                                  .most = 2};
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_dtype type = ZT_DTYPES;
    static const zt_dtype types[] = {ZT_F32, ZT_BF16, ZT_F16};
    for (int i = 0; i < 3; i++)
        if (strcmp(f.value ? f.value : "bf16", zt_dtype_name(types[i])) == 0) type = types[i];
    zt_status status = ZT_OK;
    if (type == ZT_DTYPES)
        status = ZT_FAIL(ZT_ERR_ARG, "--dtype %s: there are bf16, fp16 and fp32", f.value);
    else if (zt_comm_rank(comm) == 0)
        status = zt_gguf_convert(a.rest[0], a.rest[1], type);
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK) zt_log(ZT_LOG_INFO, "wrote %s", a.rest[1]);
    zt_args_free(&a);
    return status;
}
