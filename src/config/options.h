/* options.h - the shape of the option table. */
#ifndef ZT_OPTIONS_H
#define ZT_OPTIONS_H
#include "config/config.h"

typedef enum { ZT_OPT_BOOL, ZT_OPT_INT, ZT_OPT_REAL, ZT_OPT_STRING, ZT_OPT_LIST } zt_opt_kind;
typedef enum {
    ZT_OPT_HONOURED,
    ZT_OPT_NO_EFFECT, /* accepted, with a note that says why it does nothing here */
    ZT_OPT_LIMITED /* only the values in `choices` are accepted; others are refused, with the reason */
} zt_opt_effect;

typedef struct {
    const char *key;
    zt_opt_kind kind;
    size_t offset; /* in zt_config; HONOURED only */
    const char *fallback;
    double low, high;    /* INT, REAL: the range; both 0 = any finite number */
    const char *choices; /* "a|b|c" */
    const char *meaning; /* NO_EFFECT, LIMITED: why */
    zt_opt_effect effect;
} zt_option;

extern const zt_option zt_options[];
extern const int zt_n_options;

/* Keys that stand for another. */
extern const struct zt_alias {
    const char *key, *is;
} zt_aliases[];
extern const int zt_n_aliases;
#endif
