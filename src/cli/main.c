/* main.c - the program: which command, and how failures reach the user. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name;
    zt_command_fn *fn;
    const char *usage, *help;
} commands[] = {
    {"train", zt_cli_train, "CONFIG.json [key=value ...]",
     "Trains or fine-tunes a model. Alone, or on many ranks:\n"
     "    zeroth train config.json\n"
     "    mpirun -n 4 zeroth train config.json zero_optimization.stage=3\n"
     "The configuration has DeepSpeed's key names; zeroth info lists every option. SIGTERM, SIGINT "
     "or SIGUSR1\n"
     "saves a checkpoint and ends; resume_from_checkpoint=true goes on from the last one. (mpirun "
     "kills its\n"
     "ranks one second after a SIGTERM: send SIGUSR1, or raise odls_base_sigkill_timeout.)\n"},
    {"eval", zt_cli_eval, "MODEL FILE... [key=value ...]",
     "Loss and perplexity of a model (a Hugging Face folder, or a training run's output_dir: its "
     "last "
     "checkpoint) on\nfiles, in the model's own type unless bf16.enabled or fp16.enabled says "
     "otherwise. Only whole "
     "samples of\ndata.sequence_length (512) tokens count; with data.packing=false a document is "
     "one.\n"
     "    zeroth eval models/SmolLM2-135M held.txt data.sequence_length=1024\n"},
    {"generate", zt_cli_generate, "MODEL --prompt TEXT [options] [key=value ...]",
     "Continues a text. Greedy unless a temperature, top-k or top-p is given.\n"
     "    --prompt TEXT          what to continue\n"
     "    --max-new-tokens N     default 100, or what the positions allow\n"
     "    --temperature X        0 = greedy (default); 1 = as the model says\n"
     "    --top-k N              only the N best tokens; 0 = all\n"
     "    --top-p X              only the best tokens that make up X of the probability; 1 = all\n"
     "    --seed N               the same seed gives the same text\n"},
    {"plan", zt_cli_plan, "CONFIG.json [--ranks N] [--rank R] [key=value ...]",
     "What a run would hold in memory and send a step on each rank, without allocating it.\n"
     "    zeroth plan config.json --ranks 64 zero_optimization.stage=3\n"
     "    zeroth plan --zero-table     the ZeRO paper's tables of memory by formula\n"},
    {"inspect", zt_cli_inspect, "PATH",
     "What is in a model folder, a checkpoint, a .safetensors or .gguf file, a .bin token shard, a "
     "token "
     "cache.\n"},
    {"convert", zt_cli_convert, "MODEL.gguf FOLDER [--dtype bf16|fp16|fp32]",
     "Makes a Hugging Face folder of a GGUF file (GPT-2, Llama family, Qwen2; F32, F16, BF16, "
     "Q8_0, Q4_0, Q4_1,\n"
     "Q5_0, Q5_1, Q4_K, Q5_K, Q6_K): weights, config.json and tokenizer.json.\n"},
    {"info", zt_cli_info, "[--format text|markdown]",
     "Version, CPU, kernels, MPI, and every option with its default and meaning.\n"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *f)
{
    (void)fprintf(f, "zeroth %s: trains transformer language models that do not fit in memory.\n\n",
                  ZT_VERSION);
    for (int i = 0; i < COMMANDS; i++)
        (void)fprintf(f, "  zeroth %s %s\n", commands[i].name, commands[i].usage);
    (void)fprintf(f, "\nzeroth COMMAND --help tells more about a command. --debug before a command "
                     "shows where a "
                     "failure came from.\n");
}

/* Prints the failure: of one that the ranks agreed on, the rank that had it first; any other, each rank, except that
 * peers who only heard of it keep quiet. */
static void report(zt_comm *comm, zt_status status, bool debug)
{
    const int speaker = comm ? zt_comm_speaker(comm) : -1;
    if (comm && !debug && zt_comm_size(comm) > 1 &&
        (speaker >= 0 ? speaker != zt_comm_rank(comm)
                      : status == ZT_ERR_PEER && zt_comm_rank(comm) > 0))
        return;
    zt_log(ZT_LOG_ERROR, "%s", zt_error_message());
    if (debug) (void)fprintf(stderr, "%s (%s)\n", zt_error_trace(), zt_status_text(status));
}

static int run(int c, int argc, char **argv, bool debug)
{
    zt_comm *comm = NULL;
    zt_status status = zt_signals_take();
    if (status == ZT_OK) status = zt_comm_world(&argc, &argv, &comm);
    if (status == ZT_OK) {
        zt_log_setup(debug ? ZT_LOG_DEBUG : ZT_LOG_INFO, zt_comm_rank(comm));
        status = commands[c].fn(comm, argc, argv);
    }
    if (status == ZT_OK) {
        zt_comm_destroy(&comm);
        if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
        zt_log(ZT_LOG_ERROR, "the output cannot be written: %s", strerror(errno));
        return 1;
    }
    report(comm, status, debug);
    (void)fflush(stdout);
    /* a failure that all ranks agreed on ends in order; any other must not leave ranks behind */
    if (comm && zt_comm_size(comm) > 1 && zt_comm_speaker(comm) < 0) {
        usleep(200000); /* let the peers' messages through before the launcher ends them */
        zt_comm_abort(comm, 1);
    }
    zt_comm_destroy(&comm);
    return 1;
}

int main(int argc, char **argv)
{
    bool debug = false;
    int at = 1;
    if (at < argc && strcmp(argv[at], "--debug") == 0) {
        debug = true;
        at++;
    }
    if (at >= argc) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0 ||
        strcmp(argv[at], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[at], "--version") == 0) {
        (void)printf("zeroth %s\n", ZT_VERSION);
        return 0;
    }
    for (int c = 0; c < COMMANDS; c++) {
        if (strcmp(argv[at], commands[c].name) != 0) continue;
        for (int i = at + 1; i < argc; i++)
            if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
                (void)printf("zeroth %s %s\n\n%s", commands[c].name, commands[c].usage,
                             commands[c].help);
                return 0;
            }
        return run(c, argc - at - 1, argv + at + 1, debug);
    }
    (void)fprintf(stderr, "error: there is no command \"%s\"; zeroth --help lists them\n",
                  argv[at]);
    return 2;
}
