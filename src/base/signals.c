/* signals.c - the wish to end, taken by a thread of its own. */
#include "base/base.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

volatile int zt_stop_requested;

/* The signals of the program's end, which every thread but one has blocked. */
static sigset_t wanted(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGUSR1);
    return set;
}

/* Launchers repeat a signal within moments; one that comes later is from somebody who does not want to wait. */
static void *take(void *unused)
{
    static const char text[] = "error: a second signal: ended at once, nothing was saved\n";
    const double PATIENCE = 3; /* seconds */
    const sigset_t set = wanted();
    double first = 0;
    int number;
    (void)unused;
    while (sigwait(&set, &number) == 0) {
        if (zt_stop_requested && zt_now() - first > PATIENCE) {
            if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
            _exit(128 + number);
        }
        if (!zt_stop_requested) first = zt_now();
        zt_stop_requested = 1;
    }
    return NULL;
}

zt_status zt_signals_take(void)
{
    pthread_t thread;
    const sigset_t set = wanted();
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 ||
        pthread_create(&thread, NULL, take, NULL) != 0)
        return ZT_FAIL(ZT_ERR_NOMEM, "cannot start a thread for signals");
    (void)pthread_detach(thread);
    return ZT_OK;
}
