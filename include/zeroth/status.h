/* status.h - how a call says that it failed, and how the story reaches the user.
 *
 * Every function that can fail returns a zt_status. The first place that knows what went wrong
 * records one message with ZT_FAIL (what, where, and what the user can do); callers pass the
 * status on with ZT_TRY or ZT_TRY_OUT. Only the program prints the record (zt_error_message). */
#ifndef ZT_STATUS_H
#define ZT_STATUS_H

/* Grouped by remedy: fix the call / the config / the memory / the file / the job / the numbers. */
/* clang-format off */
#define ZT_STATUS_LIST(X)                                                    \
    X(ZT_OK,           0, "success")                                         \
    X(ZT_ERR_ARG,     -1, "an argument is not usable")                       \
    X(ZT_ERR_SHAPE,   -2, "shapes do not fit together")                      \
    X(ZT_ERR_CONFIG,  -3, "the configuration cannot be honoured")            \
    X(ZT_ERR_NOMEM,   -4, "out of memory")                                   \
    X(ZT_ERR_IO,      -5, "reading or writing a file failed")                \
    X(ZT_ERR_FORMAT,  -6, "a file is damaged or of an unknown kind")         \
    X(ZT_ERR_COMM,    -7, "a communication call failed")                     \
    X(ZT_ERR_PEER,    -8, "another rank failed")                             \
    X(ZT_ERR_NUMERIC, -9, "a number is not finite")                          \
    X(ZT_ERR_STOPPED, -10, "stopped by a signal")
/* clang-format on */
typedef enum {
#define ZT_X(name, value, text) name = value,
    ZT_STATUS_LIST(ZT_X)
#undef ZT_X
} zt_status;

#define ZT_MUST_USE __attribute__((warn_unused_result))

/* Records the message of a new failure; adds a frame to the record. */
void zt_fail_at(const char *file, int line, const char *func, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void zt_pass_at(const char *file, int line, const char *func);

const char *zt_error_message(void); /* the calling thread's last failure: one line, no frames */
const char *zt_error_trace(void);   /* the frames it passed, one a line; for --debug */
void zt_error_clear(void);
const char *zt_status_text(zt_status code);

/* Both are the code, which a reader (and an analyser) sees to be a failure. */
#define ZT_FAIL(code, ...) (zt_fail_at(__FILE__, __LINE__, __func__, __VA_ARGS__), (code))
#define ZT_PASS(code)      (zt_pass_at(__FILE__, __LINE__, __func__), (code))

/* Leave now: for functions that hold nothing. */
#define ZT_TRY(call)                                                                               \
    do {                                                                                           \
        zt_status zt_st_ = (call);                                                                 \
        if (zt_st_ != ZT_OK) return ZT_PASS(zt_st_);                                               \
    } while (0)

/* Leave through the one cleanup label `out`: for functions that hold something. */
#define ZT_TRY_OUT(status, call)                                                                   \
    do {                                                                                           \
        (status) = (call);                                                                         \
        if ((status) != ZT_OK) {                                                                   \
            zt_pass_at(__FILE__, __LINE__, __func__);                                              \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)
#endif
