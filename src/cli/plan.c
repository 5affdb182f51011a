/* plan.c - the plan command. */
#include "plan/plan.h"
#include "cli/cli.h"

zt_status zt_cli_plan(zt_comm *comm, int argc, char **argv)
{
    zt_flag f[] = {{"ranks", NULL}, {"rank", NULL}};
    zt_args a;
    zt_config *c = NULL;
    double ranks = zt_comm_size(comm), rank = 0;
    if (argc == 1 && strcmp(argv[0], "--zero-table") == 0) {
        if (zt_comm_rank(comm) == 0) zt_plan_zero_tables();
        return ZT_OK;
    }
    ZT_TRY(zt_args_parse(argc, argv, f, 2, &a));
    zt_status status = ZT_OK;
    if (a.n_rest != 1)
        status = ZT_FAIL(ZT_ERR_ARG, "usage: zeroth plan CONFIG.json [--ranks N] [key=value ...]");
    if (status == ZT_OK) status = zt_flag_number(&f[0], 1, 1e6, &ranks);
    if (status == ZT_OK) status = zt_flag_number(&f[1], 0, ranks - 1, &rank);
    if (status == ZT_OK) status = zt_config_load(a.rest[0], a.n_overrides, a.overrides, &c);
    if (status == ZT_OK) status = zt_plan_print(comm, c, (int)ranks, (int)rank);
    zt_config_free(&c);
    zt_args_free(&a);
    return status;
}
