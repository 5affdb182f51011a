/* keys.c - finding options by their keys. */
#include "config/options.h"

#include <stdio.h>

int zt_option_find(const char *key)
{
    for (int i = 0; i < zt_n_options; i++)
        if (strcmp(zt_options[i].key, key) == 0) return i;
    return -1;
}

/* Is there an option below this key? */
bool zt_option_is_section(const char *key)
{
    size_t n = strlen(key);
    for (int i = 0; i < zt_n_options; i++)
        if (strncmp(zt_options[i].key, key, n) == 0 && zt_options[i].key[n] == '.') return true;
    return false;
}

const char *zt_option_unalias(const char *key, bool is_object)
{
    for (int i = 0; i < zt_n_aliases; i++)
        if (!is_object && strcmp(zt_aliases[i].key, key) == 0) return zt_aliases[i].is;
    return key;
}

/* Letters to change, add or leave out to make b of a. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 96 };
    int row[MOST + 1];
    size_t n = strlen(b);
    if (n > MOST || strlen(a) > MOST) return MOST;
    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            int change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            int add = row[j - 1] + 1, drop = row[j] + 1;
            row[j] = change < add ? change : add;
            row[j] = row[j] < drop ? row[j] : drop;
        }
    }
    return row[n];
}

static const char *last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

/* "; did you mean X?" with the known key that is most like it, as a whole or by its last part (the right key in a
 * wrong place); what is little like any is not suggested. */
const char *zt_option_suggestion(const char *key, char *text, size_t size)
{
    const char *best = NULL;
    const int most = (int)strlen(key) / 3, most_part = (int)strlen(last_part(key)) / 2;
    int least = 1000;
    for (int i = 0; i < zt_n_options + zt_n_aliases; i++) {
        const char *known = i < zt_n_options ? zt_options[i].key : zt_aliases[i - zt_n_options].key;
        const int whole = distance(key, known);
        const int part = distance(last_part(key), last_part(known)) + 1;
        const int d = part <= most_part && part < whole ? part : whole;
        if (d < least && (d <= most || d <= most_part)) {
            least = d;
            best = i < zt_n_options ? known : zt_aliases[i - zt_n_options].is;
        }
    }
    if (best)
        (void)snprintf(text, size, "; did you mean \"%s\"?", best);
    else
        (void)snprintf(text, size, "; zeroth info lists all");
    return text;
}

bool zt_option_among(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices;; p++) {
        size_t length = strcspn(p, "|");
        if (length == n && strncmp(p, text, n) == 0) return true;
        p += length;
        if (!*p) return false;
    }
}
