/* status.c - one error record per thread: a message and the frames it passed. */
#include "zeroth/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[2048];
static _Thread_local char trace[2048];
static _Thread_local size_t used;

static void frame(const char *file, int line, const char *func)
{
    if (used >= sizeof trace - 1) return;
    int n = snprintf(trace + used, sizeof trace - used, "  at %s (%s:%d)\n", func, file, line);
    if (n > 0) used = used + (size_t)n < sizeof trace ? used + (size_t)n : sizeof trace - 1;
}

/* Into the message, which stays one line whatever names the files of strangers hold. */
static void set_message(const char *text)
{
    size_t n = 0;
    for (; *text && n + 5 <= sizeof message; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            n += (size_t)snprintf(message + n, sizeof message - n, "\\x%02x", (unsigned)c);
        else
            message[n++] = *text;
    }
    message[n] = '\0';
}

void zt_fail_at(const char *file, int line, const char *func, const char *fmt, ...)
{
    char text[sizeof message]; /* the arguments may point into the old message */
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    set_message(text);
    used = 0;
    trace[0] = '\0';
    frame(file, line, func);
}

void zt_pass_at(const char *file, int line, const char *func)
{
    frame(file, line, func);
}

const char *zt_error_message(void)
{
    return message;
}

const char *zt_error_trace(void)
{
    return trace;
}

void zt_error_clear(void)
{
    message[0] = trace[0] = '\0';
    used = 0;
}

const char *zt_status_text(zt_status code)
{
    switch (code) {
#define ZT_X(name, value, text)                                                                    \
    case name:                                                                                     \
        return text;
        ZT_STATUS_LIST(ZT_X)
#undef ZT_X
    }
    return "unknown status";
}
