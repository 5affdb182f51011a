/* plan.c - the plan command. */
#include "plan/plan.h"
#include "cli/cli.h"

zt_status zt_cli_plan(zt_comm *comm, int argc, char **argv)
{
    zt_flag f[] = {{"ranks", NULL}, {"rank", NULL}};
    const zt_command_line line = {.usage =
                                      "plan CONFIG.json [--ranks N] [--rank R] [key=value ...]",
                                  .flags = f,
                                  .n_flags = 2,
                                  .least = 1,
                                  .most = 1,
                                  .overrides = ""};
    zt_args a;
    zt_config *c = NULL;
    int64_t ranks = zt_comm_size(comm), rank = 0;
    if (argc == 1 && strcmp(argv[0], "--zero-table") == 0) {
        if (zt_comm_rank(comm) == 0) zt_plan_zero_tables();
        return ZT_OK;
    }
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_status status = zt_flag_whole(&f[0], 1, 1000000, &ranks);
    if (status == ZT_OK) status = zt_flag_whole(&f[1], 0, ranks - 1, &rank);
    if (status == ZT_OK) status = zt_config_load(a.rest[0], a.n_overrides, a.overrides, &c);
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK) status = zt_plan_print(comm, c, (int)ranks, (int)rank);
    zt_config_free(&c);
    zt_args_free(&a);
    return status;
}
