/* mem.c - the ledger and the regions it books. Large regions come from mmap with huge pages asked
 * for and every page touched, since a fresh page inside a step costs more than the work on it. */
#include "store/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BIG = 1 << 21 }; /* one huge page */

typedef struct {
    size_t held, peak, payload;
} account;
typedef struct {
    void *p;
    size_t bytes, payload, mapped; /* mapped 0: from the C heap */
    zt_tier tier;
    zt_mem_kind kind;
    char owner[48];
} region;
struct zt_mem {
    account accounts[ZT_TIERS][ZT_MEM_KIND_COUNT];
    size_t total[ZT_TIERS], peak[ZT_TIERS];
    region *regions;
    int n, room;
    bool frozen;
};

static const char *const kind_names[] = {
#define ZT_X(id, word) word,
    ZT_MEM_KINDS(ZT_X)
#undef ZT_X
};

const char *zt_mem_kind_name(zt_mem_kind kind)
{
    return kind_names[kind];
}

zt_status zt_mem_create(zt_mem **out)
{
    zt_mem *mem = zt_calloc(1, sizeof *mem);
    if (!mem) return ZT_NOMEM();
    *out = mem;
    return ZT_OK;
}

static void release(region *r)
{
    if (r->mapped)
        (void)munmap(r->p, r->mapped);
    else
        zt_free(r->p);
}

void zt_mem_destroy(zt_mem **mem)
{
    if (!*mem) return;
    for (int i = 0; i < (*mem)->n; i++) {
        region *r = &(*mem)->regions[i];
        zt_log(ZT_LOG_ERROR, "bug: region \"%s\" of %zu bytes was never freed", r->owner, r->bytes);
        release(r);
    }
    zt_free((*mem)->regions);
    zt_free(*mem);
    *mem = NULL;
}

/* Maps so that the region starts at a huge page's border: only then can the first one be huge. */
static void *map_big(size_t bytes, size_t *mapped)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    char *p = mmap(NULL, size + BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t lead = (BIG - (uintptr_t)p % BIG) % BIG;
    if (lead) (void)munmap(p, lead);
    if (BIG - lead) (void)munmap(p + lead + size, BIG - lead);
    p += lead;
    (void)madvise(p, size, MADV_HUGEPAGE);
    for (size_t i = 0; i < size; i += page)
        ((volatile char *)p)[i] = 0;
    *mapped = size;
    return p;
}

void zt_mem_book(zt_mem *mem, zt_tier tier, zt_mem_kind kind, size_t bytes, size_t payload)
{
    account *a = &mem->accounts[tier][kind];
    a->held += bytes;
    a->payload += payload;
    if (a->held > a->peak) a->peak = a->held;
    mem->total[tier] += bytes;
    if (mem->total[tier] > mem->peak[tier]) mem->peak[tier] = mem->total[tier];
}

zt_status zt_mem_alloc(zt_mem *mem, zt_tier tier, zt_mem_kind kind, const char *owner, size_t bytes,
                       size_t payload, void **out)
{
    ZT_ASSERT(payload <= bytes);
    ZT_ASSERT(!mem->frozen); /* nothing is allocated inside a step */
    if (bytes == 0) {
        *out = NULL;
        return ZT_OK;
    }
    if (mem->n == mem->room) {
        int room = mem->room ? 2 * mem->room : 64;
        region *more = zt_realloc(mem->regions, (size_t)room * sizeof *more);
        if (!more) return ZT_NOMEM();
        mem->regions = more;
        mem->room = room;
    }
    region r = {.bytes = bytes, .payload = payload, .tier = tier, .kind = kind};
    (void)snprintf(r.owner, sizeof r.owner, "%s", owner);
    if (bytes >= BIG) {
        r.p = map_big(bytes, &r.mapped);
    } else {
        r.p = zt_malloc_aligned(bytes);
        if (r.p) memset(r.p, 0, bytes);
    }
    if (!r.p)
        return ZT_FAIL(
            ZT_ERR_NOMEM,
            "the system refused %.1f MiB for %s (%s), with %.1f MiB held; use more ranks, "
            "a higher zero_optimization.stage, a smaller micro-batch or recompute",
            (double)bytes / 0x1p20, owner, kind_names[kind], (double)mem->total[tier] / 0x1p20);
    mem->regions[mem->n++] = r;
    zt_mem_book(mem, tier, kind, bytes, payload);
    *out = r.p;
    return ZT_OK;
}

void zt_mem_free(zt_mem *mem, void *p)
{
    if (!p) return;
    for (int i = mem->n; i-- > 0;) {
        region *r = &mem->regions[i];
        if (r->p != p) continue;
        account *a = &mem->accounts[r->tier][r->kind];
        a->held -= r->bytes;
        a->payload -= r->payload;
        mem->total[r->tier] -= r->bytes;
        release(r);
        mem->regions[i] = mem->regions[--mem->n];
        return;
    }
    ZT_BUG("not a region of this ledger");
}

void zt_mem_freeze(zt_mem *mem, bool frozen)
{
    mem->frozen = frozen;
}

size_t zt_mem_held(const zt_mem *mem, zt_tier tier, zt_mem_kind kind)
{
    return mem->accounts[tier][kind].held;
}

size_t zt_mem_peak(const zt_mem *mem, zt_tier tier, zt_mem_kind kind)
{
    return mem->accounts[tier][kind].peak;
}

size_t zt_mem_payload(const zt_mem *mem, zt_tier tier, zt_mem_kind kind)
{
    return mem->accounts[tier][kind].payload;
}

size_t zt_mem_peak_total(const zt_mem *mem, zt_tier tier)
{
    return mem->peak[tier];
}

/* "VmRSS:   1234 kB" of /proc/self/status and the like, in bytes; 0 where there is none. */
static size_t field(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    char line[256];
    size_t kib = 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) kib = strtoull(line + strlen(key), NULL, 10);
    (void)fclose(f);
    return kib * 1024;
}

size_t zt_process_rss(void)
{
    return field("/proc/self/status", "VmRSS:");
}

size_t zt_process_rss_peak(void)
{
    return field("/proc/self/status", "VmHWM:");
}

/* A file with nothing but a number of bytes in it; SIZE_MAX: no such file, or no limit. */
static size_t bytes_in(const char *path)
{
    unsigned long long bytes = 0;
    FILE *f = fopen(path, "r");
    const bool there = f && fscanf(f, "%llu", &bytes) == 1;
    if (f) (void)fclose(f);
    return there ? (size_t)bytes : SIZE_MAX;
}

void zt_host_memory(size_t *all, size_t *available)
{
    *all = field("/proc/meminfo", "MemTotal:");
    *available = field("/proc/meminfo", "MemAvailable:");
    const size_t limit = bytes_in("/sys/fs/cgroup/memory.max"),
                 used = bytes_in("/sys/fs/cgroup/memory.current");
    if (limit >= *all || used == SIZE_MAX) return;
    *all = limit;
    if (limit - (used < limit ? used : limit) < *available)
        *available = limit - (used < limit ? used : limit);
}
