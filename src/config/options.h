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

/* ---- keys.c ---- */
int zt_option_find(const char *key);        /* its place in the table; -1: none */
bool zt_option_is_section(const char *key); /* is there an option below this key? */
const char *zt_option_unalias(const char *key, bool is_object); /* what the key stands for */
bool zt_option_among(const char *choices, const char *text);    /* choices: "a|b|c" */
/* What to say about a key that is not there, written to text. */
const char *zt_option_suggestion(const char *key, char *text, size_t size);
/* ---- print.c ---- */
char *zt_option_value(const zt_config *c, const zt_option *o); /* as text; free it */
#endif
