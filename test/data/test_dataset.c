/* test_dataset.c - formats, samples that do not depend on ranks, shuffles, splits, the cache, and bad data. */
#include "base/file.h"
#include "data/dataset.h"
#include "harness.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static zt_tokenizer *bytes;

static int setup(void **state)
{
    (void)state;
    (void)strcpy(dir, "/tmp/zeroth-data-XXXXXX");
    assert_non_null(mkdtemp(dir));
    OK(zt_tokenizer_load("bytes", &bytes));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    zt_tokenizer_free(&bytes);
    OK(zt_folder_remove(dir));
    return 0;
}

static const char *put(const char *name, const void *data, size_t size)
{
    static char path[8][128];
    static int next;
    char *p = path[next++ % 8];
    (void)snprintf(p, sizeof path[0], "%s/%s", dir, name);
    OK(zt_file_write_all(p, data, size));
    return p;
}

typedef struct {
    zt_data_opt o;
    const char *files[4];
    zt_tokenizer *tok;
    int64_t n, tokens;             /* results */
    int32_t *ids, *labels, *start; /* of the first `keep` samples of the stream */
    int keep;
} job;

static job new_job(const char *file)
{
    job j = {.o = {.format = "auto",
                   .separator = "",
                   .cache_dir = dir,
                   .sequence_length = 8,
                   .vocab_size = 257,
                   .packing = true,
                   .take_to = 1},
             .files = {file},
             .tok = bytes,
             .keep = 12};
    j.o.n_patterns = 1;
    return j;
}

static zt_status read_all(zt_comm *c, void *arg)
{
    job *j = arg;
    zt_dataset *d = NULL;
    zt_data_opt o = j->o;
    o.patterns = j->files;
    ZT_TRY(zt_dataset_open(&o, j->tok, c, &d));
    const int64_t T = o.sequence_length;
    if (zt_comm_rank(c) == zt_comm_size(c) - 1) {
        j->n = zt_dataset_samples(d);
        j->tokens = zt_dataset_tokens(d);
        for (int i = 0; i < j->keep; i++)
            zt_dataset_sample(d, i, j->ids + i * T, j->labels + i * T, j->start + i * T);
    }
    zt_dataset_close(&d);
    return ZT_OK;
}

static zt_status run(job *j, int ranks)
{
    const size_t n = (size_t)(j->keep * j->o.sequence_length);
    free(j->ids);
    free(j->labels);
    free(j->start);
    j->ids = calloc(n, 4);
    j->labels = calloc(n, 4);
    j->start = calloc(n, 4);
    return zt_comm_run_threads(ranks, read_all, j);
}

static void drop(job *j)
{
    free(j->ids);
    free(j->labels);
    free(j->start);
}

static void text_is_packed(void **state)
{
    (void)state;
    job j = new_job(put("a.txt", "one|three|five seven", 20));
    j.o.separator = "|";
    j.keep = 2;
    OK(run(&j, 1));
    /* o n e EOS t h r e e EOS f i v e _ s e v e n EOS: 21 tokens, two samples of 8 and what follows */
    assert_int_equal(j.tokens, 21);
    assert_int_equal(j.n, 2);
    const int32_t want[] = {'o', 'n', 'e', 256, 't', 'h', 'r', 'e', 'e',
                            256, 'f', 'i', 'v', 'e', ' ', 's', 'e'};
    assert_memory_equal(j.ids, want, 16 * 4);
    assert_memory_equal(j.labels, want + 1, 16 * 4);
    j.o.isolate = true;
    OK(run(&j, 1));
    const int32_t starts[] = {0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 2, 2, 2, 2, 2, 2};
    assert_memory_equal(j.start, starts, sizeof starts);
    assert_int_equal(j.labels[3], -100); /* what follows an end is another beginning */
    assert_int_equal(j.labels[2], 256);
    assert_int_equal(j.labels[9], -100);
    assert_int_equal(j.labels[8], 256);
    drop(&j);
}

/* As the tokenizer encodes a text, with its begin token, and an end. */
static void documents_begin_and_end(void **state)
{
    (void)state;
    zt_tokenizer *llama;
    OK(zt_tokenizer_load(ZT_SOURCE_DIR "/test/golden/tokenizer/llama2.json", &llama));
    job j = new_job(put("be.txt", "a|b|c d|e f g h i j", 19));
    j.o.separator = "|";
    j.o.vocab_size = zt_tokenizer_vocab(llama);
    j.o.packing = false;
    j.tok = llama;
    j.keep = 2;
    OK(run(&j, 1));
    for (int i = 0; i < 2; i++) { /* <s> text </s> */
        assert_int_equal(j.ids[8 * i], zt_tokenizer_bos(llama));
        assert_int_equal(j.ids[8 * i + 2], zt_tokenizer_eos(llama));
        assert_int_equal(j.labels[8 * i + 1], zt_tokenizer_eos(llama));
        assert_int_equal(j.labels[8 * i + 2], -100);
    }
    drop(&j);
    zt_tokenizer_free(&llama);
}

static void one_document_a_sample(void **state)
{
    (void)state;
    static const char text[] =
        "{\"text\": \"abc\"}\n\n{\"text\": \"a longer document\", \"n\": 1}\n{\"text\": \"\"}\n";
    job j = new_job(put("a.jsonl", text, sizeof text - 1));
    j.o.packing = false;
    j.keep = 3;
    OK(run(&j, 2));
    assert_int_equal(j.n, 3);
    const int32_t ids[] = {'a', 'b', 'c', 256, 256, 256, 256, 256},
                  labels[] = {'b', 'c', 256, -100, -100, -100, -100, -100};
    assert_memory_equal(j.ids, ids, sizeof ids);
    assert_memory_equal(j.labels, labels, sizeof labels);
    assert_int_equal(j.ids[8 + 7], 'r'); /* cut, and its last label is there */
    assert_int_equal(j.labels[8 + 7], ' ');
    assert_int_equal(j.labels[16], -100); /* an empty document has nothing to learn */
    drop(&j);
}

/* Many documents of all lengths: whatever the ranks, the same tokens and samples. */
static void the_same_on_any_ranks(void **state)
{
    (void)state;
    char text[9000];
    size_t n = 0;
    for (int i = 0; n < 8000; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"text\": \"document %d", i);
        for (int k = 0; k < i * i % 97; k++)
            text[n++] = (char)('a' + k % 26);
        n += (size_t)snprintf(text + n, sizeof text - n, "\"}\n");
    }
    job first = new_job(NULL);
    for (int ranks = 1; ranks <= 5; ranks++) {
        char name[32];
        (void)snprintf(name, sizeof name, "same%d.jsonl",
                       ranks); /* another file: tokenised again */
        job j = new_job(put(name, text, n));
        j.o.shuffle = true;
        j.keep = 100;
        OK(run(&j, ranks));
        if (ranks == 1) {
            first = j;
            continue;
        }
        assert_int_equal(j.n, first.n);
        assert_int_equal(j.tokens, first.tokens);
        SAME_BITS(j.ids, first.ids, 100 * 8 * 4);
        SAME_BITS(j.labels, first.labels, 100 * 8 * 4);
        drop(&j);
    }
    drop(&first);
}

/* Every epoch has every sample once, in another order; splits share nothing and leave nothing out. */
static void shuffles_and_splits(void **state)
{
    (void)state;
    uint16_t tokens[8 * 61 + 1];
    for (int i = 0; i < 8 * 61 + 1; i++)
        tokens[i] = (uint16_t)(i / 8);
    job j = new_job(put("a.bin", tokens, sizeof tokens));
    j.o.shuffle = true;
    j.keep = 3 * 61;
    OK(run(&j, 1));
    assert_int_equal(j.n, 61);
    bool differs = false;
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[61] = {0};
        for (int i = 0; i < 61; i++) {
            int id = j.ids[(epoch * 61 + i) * 8];
            seen[id]++;
            differs = differs || (epoch && id != j.ids[i * 8]);
        }
        for (int i = 0; i < 61; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_true(differs);
    int seen[61] = {0};
    for (int part = 0; part < 2; part++) {
        j.o.take_from = part ? 0.9 : 0;
        j.o.take_to = part ? 1 : 0.9;
        j.keep = 60;
        OK(run(&j, 1));
        for (int i = 0; i < j.n; i++)
            seen[j.ids[i * 8]]++;
    }
    for (int i = 0; i < 61; i++)
        assert_int_equal(seen[i], 1);
    drop(&j);
}

static void token_shards(void **state)
{
    (void)state;
    int32_t image[256 + 20] = {20240520, 1, 40};
    uint16_t *tokens = (uint16_t *)(void *)(image + 256);
    for (int i = 0; i < 40; i++)
        tokens[i] = (uint16_t)i;
    job j = new_job(put("s.bin", image, 1024 + 80));
    j.tok = NULL; /* ids need no tokenizer */
    j.files[1] = put("t.bin", image, 1024 + 80);
    j.o.n_patterns = 2;
    j.keep = 9;
    OK(run(&j, 3));
    assert_int_equal(j.tokens, 80);
    assert_int_equal(j.ids[5 * 8], 0); /* the second shard begins where the first ends */
    assert_int_equal(j.labels[4 * 8 + 7], 0);
    j.o.vocab_size = 30;
    FAILS(run(&j, 2), ZT_ERR_CONFIG, "token 30 has the id 30");
    j.o.vocab_size = 257;
    j.o.isolate = true;
    FAILS(run(&j, 1), ZT_ERR_CONFIG, "isolate_documents");
    j.o.isolate = false;
    j.files[1] = put("u.bin", image, 1024 + 78);
    FAILS(run(&j, 1), ZT_ERR_FORMAT, "40 tokens");
    image[1] = 3;
    j.files[1] = put("v.bin", image, 1024 + 80);
    FAILS(run(&j, 1), ZT_ERR_FORMAT, "version 3");
    j.files[1] = put("w.bin", "abc", 3);
    FAILS(run(&j, 1), ZT_ERR_FORMAT, "odd");
    j.files[1] = put("x.txt", "some text here", 14);
    FAILS(run(&j, 1), ZT_ERR_CONFIG, "one kind");
    drop(&j);
}

static ino_t inode(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

/* Opened again it is not tokenised again; a changed file is; a damaged cache is made anew. */
static void cache_is_used_and_renewed(void **state)
{
    (void)state;
    const char *path = put("c.txt", "0123456789012345678901234567890123456789", 40);
    job j = new_job(path);
    j.keep = 1;
    OK(run(&j, 2));
    char **names;
    OK(zt_folder_list(dir, &names));
    char *cache = NULL;
    int files = 0;
    for (char **p = names; *p; p++) {
        files++;
        if (strstr(*p, ".tokens")) cache = zt_path_join(dir, *p);
    }
    zt_names_free(names);
    assert_int_equal(files, 2); /* no parts are left */
    char *data;
    size_t size;
    OK(zt_file_read_all(cache, &data, &size));
    const ino_t first = inode(cache);
    OK(run(&j, 3));
    assert_true(inode(cache) == first);
    static const size_t places[] = {41 * 2, 1, 8 + 41 * 2, 41 * 2 + 16 + 24}; /* from the end */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        data[size - places[i]] ^= 1; /* an id that may be one, a document's end, the sum itself */
        OK(zt_file_write_all(cache, data, size));
        const ino_t damaged = inode(cache);
        OK(run(&j, 1 + (int)i % 3));
        assert_true(inode(cache) != damaged);
        assert_int_equal(j.ids[0], '0');
        data[size - places[i]] ^= 1;
    }
    OK(zt_file_write_all(cache, data, size / 2)); /* half a file is no cache */
    OK(run(&j, 2));
    assert_int_equal(j.ids[0], '0');
    j.o.vocab_size = '9'; /* another model, the same text: its ids are looked at again */
    FAILS(run(&j, 3), ZT_ERR_CONFIG, "vocabulary has 57");
    j.o.vocab_size = 257;
    (void)usleep(20000);
    (void)put("c.txt", "abcdefghijabcdefghijabcdefghijabcdefghij", 40);
    OK(run(&j, 1));
    assert_int_equal(j.ids[0], 'a');
    zt_free(data);
    zt_free(cache);
    drop(&j);
}

static void bad_data(void **state)
{
    (void)state;
    job j = new_job(put("empty.txt", "", 0));
    FAILS(run(&j, 2), ZT_ERR_CONFIG, "empty");
    j.files[0] = put("short.txt", "seven..", 7);
    FAILS(run(&j, 1), ZT_ERR_CONFIG, "fewer than one sequence of 8");
    j.files[0] = put("b.jsonl", "{\"text\": \"x\"}\n{\"text\": \"y\"\n", 27);
    FAILS(run(&j, 3), ZT_ERR_FORMAT, "b.jsonl:2");
    j.files[0] = put("c.jsonl", "{\"text\": \"x\"}\n{\"body\": \"y\"}\n", 28);
    FAILS(run(&j, 1), ZT_ERR_FORMAT, "c.jsonl:2");
    j.files[0] = "/nowhere/*.txt";
    FAILS(run(&j, 2), ZT_ERR_IO, "/nowhere/*.txt");
    j.files[0] = put("d.txt", "long enough for a sample of eight", 33);
    j.o.vocab_size = 100;
    FAILS(run(&j, 2), ZT_ERR_CONFIG, "vocabulary has 100");
    j.o.vocab_size = 257;
    j.tok = NULL;
    FAILS(run(&j, 1), ZT_ERR_CONFIG, "tokenizer");
    j.o.n_patterns = 0;
    FAILS(run(&j, 1), ZT_ERR_CONFIG, "data.train");
    drop(&j);
}

/* Packed and binary files are no text, whatever their names, unless that is asked for. */
static void no_text(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t n;
        const char *says;
    } bad[] = {
        {"a.jsonl.gz", "\x1f\x8b\x08 and more", 12, "gunzip"},
        {"a.zst", "\x28\xb5\x2f\xfd and more", 13, "unzstd"},
        {"a.xz", "\xfd\x37zXZ\0 and more", 15, "unxz"},
        {"a.bz2", "BZh91AY&SY and more", 19, "bunzip2"},
        {"a.docx", "PK\3\4\24\0 and more", 15, "a zip archive"},
        {"pytorch_model.bin", "PK\3\4\24\0 and more.", 16, "data.format=uint16"},
        {"a.parquet", "PAR1\25\0 and more", 15, "a Parquet file"},
        {"a.npy", "\x93NUMPY\1\0 and more", 17, "a NumPy array"},
        {"a.safetensors", "\100\0\0\0\0\0\0\0{\"a\":", 13, "a safetensors file"},
        {"a.gguf", "GGUF\3\0\0\0", 8, "a GGUF file"},
        {"a.pkl", "\x80\4 and more", 11, "a pickle"},
        {"a.txt", "\xff\xfeh\0i\0", 6, "iconv"},
        {"b.txt", "text and a \0 in it", 18, "NUL bytes"},
        {"c.jsonl", "\x1f\x8b\x08 and more", 12, "gunzip"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        job j = new_job(put(bad[i].name, bad[i].bytes, bad[i].n));
        FAILS(run(&j, 1), ZT_ERR_CONFIG, bad[i].says);
        assert_non_null(strstr(zt_error_message(), bad[i].name));
        j.o.format = "text";
        j.o.sequence_length = 4;
        OK(run(&j, 1));
        drop(&j);
    }
    job j = new_job(put("d.txt", "GGUF and PAR1 and PK are words", 30));
    OK(run(&j, 1));
    drop(&j);
}

/* .json holds JSON lines, or it is said how to make them. */
static void json_files(void **state)
{
    (void)state;
    static const char lines[] = "\xEF\xBB\xBF{\"text\": \"abcdefgh\"}\n{\"text\": \"i\"}\n",
                      list[] = "[\n  {\"text\": \"abcdefgh\"}\n]\n", one[] = "[{\"text\": \"x\"}]";
    job j = new_job(put("a.json", lines, sizeof lines - 1)); /* a byte order mark is skipped */
    j.keep = 1;
    OK(run(&j, 2));
    assert_int_equal(j.tokens, 11);
    assert_int_equal(j.ids[0], 'a');
    j.files[0] = put("b.json", list, sizeof list - 1);
    FAILS(run(&j, 1), ZT_ERR_FORMAT, "jq -c '.[]'");
    j.files[0] = put("c.jsonl", one, sizeof one - 1);
    FAILS(run(&j, 1), ZT_ERR_FORMAT, "c.jsonl:1:1: no object");
    j.files[0] = put("mark.txt", "\xEF\xBB\xBF and eight", 13); /* but belongs to a text */
    OK(run(&j, 1));
    assert_int_equal(j.tokens, 14);
    drop(&j);
}

typedef struct {
    job *j;
    int64_t io, alloc;
} faulty;

static zt_status open_faulty(zt_comm *c, void *arg)
{
    faulty *f = arg;
    zt_fault_io(f->io);
    zt_fault_alloc(f->alloc);
    zt_status s = read_all(c, f->j);
    zt_fault_io(-1);
    zt_fault_alloc(-1);
    return s;
}

static void every_call_fails_once(void **state)
{
    (void)state;
    for (int io = 0; io < 2; io++) {
        int failures = 0;
        for (int64_t nth = 1;; nth++) {
            job j = new_job(
                put(io ? "f.txt" : "g.txt", "0123456789012345678901234567890123456789", 40));
            faulty f = {&j, io ? nth : -1, io ? -1 : nth};
            j.keep = 0;
            zt_status s = zt_comm_run_threads(1, open_faulty, &f);
            if (s == ZT_OK) break;
            failures++;
            assert_true(s == ZT_ERR_IO || s == ZT_ERR_NOMEM);
        }
        assert_true(failures > 5);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(text_is_packed),
        TEST(documents_begin_and_end),
        TEST(one_document_a_sample),
        TEST(the_same_on_any_ranks),
        TEST(shuffles_and_splits),
        TEST(token_shards),
        TEST(cache_is_used_and_renewed),
        TEST(bad_data),
        TEST(no_text),
        TEST(json_files),
        TEST(every_call_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
