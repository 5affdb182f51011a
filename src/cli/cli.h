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

/* ---- the command line: --name VALUE, key=value overrides, and the rest ---- */
typedef struct {
    const char *name;
    const char *value; /* set when given */
} zt_flag;
typedef struct {
    const char *usage;
    zt_flag *flags;
    int n_flags, least, most; /* of the rest */
    const char
        *overrides; /* beginnings of the keys that count: "a|b"; "": all; NULL: there are none */
} zt_command_line;
typedef struct {
    char **overrides, **rest;
    int n_overrides, n_rest;
} zt_args;
/* Collective: a mistake is reported once. */
ZT_MUST_USE zt_status zt_args_parse(zt_comm *comm, int argc, char **argv,
                                    const zt_command_line *line, zt_args *out);
void zt_args_free(zt_args *a);
/* *out stays as it is when the flag was not given. */
ZT_MUST_USE zt_status zt_flag_real(const zt_flag *f, double low, double high, double *out);
ZT_MUST_USE zt_status zt_flag_whole(const zt_flag *f, int64_t low, int64_t high, int64_t *out);
/* A folder that is an output_dir stands for its last checkpoint. zt_free it. */
ZT_MUST_USE zt_status zt_cli_model_path(const char *path, char **out);
/* A configuration without a file, from a model and overrides; a model's own dtype unless they say. */
ZT_MUST_USE zt_status zt_cli_model_config(const char *model, const zt_args *a, zt_config **out);
#endif
