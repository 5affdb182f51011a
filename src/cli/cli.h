/* cli.h - the program's subcommands. Each gets what follows its name, and returns a status; messages are
 * printed by main alone. */
#ifndef ZT_CLI_H
#define ZT_CLI_H
#include "comm/comm.h"
#include "config/config.h"

#define ZT_VERSION "0.1.0"

typedef zt_status zt_command_fn(zt_comm *comm, int argc, char **argv);
zt_command_fn zt_cli_train, zt_cli_eval, zt_cli_generate, zt_cli_plan, zt_cli_inspect, zt_cli_info,
    zt_cli_convert;

/* Sorts arguments into options (--name VALUE, where `names` lists the names that take one), key=value
 * overrides, and the rest. */
typedef struct {
    const char *name;
    const char *value; /* set when given */
} zt_flag;
typedef struct {
    char **overrides, **rest;
    int n_overrides, n_rest;
} zt_args;
ZT_MUST_USE zt_status zt_args_parse(int argc, char **argv, zt_flag *flags, int n_flags,
                                    zt_args *out);
void zt_args_free(zt_args *a);
ZT_MUST_USE zt_status zt_flag_number(const zt_flag *f, double low, double high, double *out);
/* A folder that is an output_dir stands for its last checkpoint. zt_free it. */
ZT_MUST_USE zt_status zt_cli_model_path(const char *path, char **out);
/* A configuration without a file, from a model and overrides; a model's own dtype unless they say. */
ZT_MUST_USE zt_status zt_cli_model_config(const char *model, const zt_args *a, zt_config **out);
#endif
