/* What the storage library itself can do: the engines' loops in C, over the library that PySpark carries.
 *
 *     yardstick rewrite|whole|verify|digest SOURCE FOLDER [TARGET]
 *
 * rewrite: every record of SOURCE, eight bytes put before its value, into an SST file in FOLDER, with counts and with
 * digests of both sides. verify: SOURCE converted in memory, and compared with TARGET in full. whole: rewrites, makes
 * a database of the file, and verifies that. digest: the counts and digest of SOURCE. Prints one line of JSON.
 *
 * Options of tables and of reading are the product's. A digest is its `RecordDigest`: three streaming XXH64 of the
 * lengths, the keys and the values.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* The few functions of RocksDB's C API (rocksdb/c.h) that are called. */
typedef void *handle;
extern handle rocksdb_block_based_options_create(void), rocksdb_options_create(void), rocksdb_envoptions_create(void),
    rocksdb_readoptions_create(void), rocksdb_ingestexternalfileoptions_create(void),
    rocksdb_filterpolicy_create_bloom_full(double), rocksdb_sstfilewriter_create(handle, handle),
    rocksdb_create_iterator(handle, handle), rocksdb_open(handle, const char *, char **),
    rocksdb_open_for_read_only(handle, const char *, unsigned char, char **);
extern void rocksdb_block_based_options_set_block_size(handle, size_t),
    rocksdb_block_based_options_set_format_version(handle, int),
    rocksdb_block_based_options_set_checksum(handle, char),
    rocksdb_block_based_options_set_filter_policy(handle, handle),
    rocksdb_options_set_block_based_table_factory(handle, handle), rocksdb_options_set_compression(handle, int),
    rocksdb_options_set_compaction_style(handle, int),
    rocksdb_options_set_optimize_filters_for_hits(handle, int),
    rocksdb_options_set_create_if_missing(handle, unsigned char),
    rocksdb_options_set_max_open_files(handle, int), rocksdb_options_set_table_cache_numshardbits(handle, int),
    rocksdb_options_set_max_file_opening_threads(handle, int),
    rocksdb_options_set_db_log_dir(handle, const char *), rocksdb_readoptions_set_fill_cache(handle, unsigned char),
    rocksdb_readoptions_set_readahead_size(handle, size_t), rocksdb_iter_seek_to_first(handle),
    rocksdb_iter_next(handle), rocksdb_iter_get_error(handle, char **), rocksdb_iter_destroy(handle),
    rocksdb_sstfilewriter_open(handle, const char *, char **),
    rocksdb_sstfilewriter_put(handle, const char *, size_t, const char *, size_t, char **),
    rocksdb_sstfilewriter_finish(handle, char **), rocksdb_sstfilewriter_destroy(handle), rocksdb_close(handle),
    rocksdb_ingestexternalfileoptions_set_move_files(handle, unsigned char),
    rocksdb_ingest_external_file(handle, const char *const *, size_t, handle, char **);
extern unsigned char rocksdb_iter_valid(handle);
extern const char *rocksdb_iter_key(handle, size_t *), *rocksdb_iter_value(handle, size_t *);
enum { NO_COMPRESSION = 0, CRC32C = 1, UNIVERSAL = 1 };

static const char PREFIX[8] = "\xff\xff\xff\xff\xff\xff\xff\xff";
static const char *folder;

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

/* XXH64 with seed 0, of bytes that come in pieces: small ones are collected, and hashed by the block. */
enum { BLOCK = 4096, DIRECT = 256 };
typedef struct {
    uint64_t lanes[4], size, used;
    unsigned char block[BLOCK];
} hash;
static const uint64_t P1 = 0x9E3779B185EBCA87, P2 = 0xC2B2AE3D27D4EB4F, P3 = 0x165667B19E3779F9,
                      P4 = 0x85EBCA77C2B2AE63, P5 = 0x27D4EB2F165667C5;

static uint64_t rotate(uint64_t word, int by) { return word << by | word >> (64 - by); }

static uint64_t mix(uint64_t lane, uint64_t word) { return rotate(lane + word * P2, 31) * P1; }

static uint64_t load(const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static void begin(hash *h) { *h = (hash){.lanes = {P1 + P2, P2, 0, -P1}}; }

/* `size` is a multiple of 32. */
static void stripes(hash *h, const unsigned char *at, size_t size) {
    uint64_t a = h->lanes[0], b = h->lanes[1], c = h->lanes[2], d = h->lanes[3];
    for (const unsigned char *end = at + size; at < end; at += 32) {
        a = mix(a, load(at)), b = mix(b, load(at + 8)), c = mix(c, load(at + 16)), d = mix(d, load(at + 24));
    }
    h->lanes[0] = a, h->lanes[1] = b, h->lanes[2] = c, h->lanes[3] = d;
    h->size += size;
}

static void add(hash *h, const char *data, size_t size) {
    if (size < DIRECT) {
        if (h->used + size > BLOCK) {
            size_t whole = h->used & ~(size_t)31;
            stripes(h, h->block, whole);
            h->used -= whole;
            memcpy(h->block, h->block + whole, h->used);
        }
        memcpy(h->block + h->used, data, size);
        h->used += size;
        return;
    }
    size_t missing = -h->used & 31, whole = (size - missing) & ~(size_t)31;
    memcpy(h->block + h->used, data, missing);
    stripes(h, h->block, h->used + missing);
    stripes(h, (const unsigned char *)data + missing, whole);
    h->used = size - missing - whole;
    memcpy(h->block, data + missing + whole, h->used);
}

static uint64_t finish(hash *h) {
    size_t whole = h->used & ~(size_t)31;
    stripes(h, h->block, whole);
    const unsigned char *at = h->block + whole, *end = h->block + h->used;
    uint64_t x = P5, *lanes = h->lanes, size = h->size + (end - at);
    if (size >= 32) {
        x = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
        for (int i = 0; i < 4; i++) x = (x ^ mix(0, lanes[i])) * P1 + P4;
    }
    x += size;
    for (; at + 8 <= end; at += 8) x = rotate(x ^ mix(0, load(at)), 27) * P1 + P4;
    if (at + 4 <= end) {
        uint32_t half;
        memcpy(&half, at, 4);
        x = rotate(x ^ half * P1, 23) * P2 + P3, at += 4;
    }
    for (; at < end; at++) x = rotate(x ^ *at * P5, 11) * P1;
    x = (x ^ x >> 33) * P2;
    x = (x ^ x >> 29) * P3;
    return x ^ x >> 32;
}

typedef struct {
    hash lengths, keys, values;
    uint64_t records, bytes;
} digest;

static digest *new_digest(void) {
    digest *d = calloc(1, sizeof *d);
    begin(&d->lengths), begin(&d->keys), begin(&d->values);
    return d;
}

static void count(digest *d, const char *key, size_t key_size, const char *value, size_t size) {
    uint32_t lengths[2] = {key_size, size};
    add(&d->lengths, (char *)lengths, 8);
    add(&d->keys, key, key_size);
    add(&d->values, value, size);
    d->records++, d->bytes += key_size + size;
}

static void print_digest(const char *name, digest *d) {
    printf("\"%s\": {\"records\": %lu, \"size\": %lu, \"digest\": \"%016lx-%016lx-%016lx\"}, ", name, d->records,
           d->bytes, finish(&d->lengths), finish(&d->keys), finish(&d->values));
}

static handle make_options(void) {
    handle table = rocksdb_block_based_options_create(), options = rocksdb_options_create();
    rocksdb_block_based_options_set_block_size(table, 4096);
    rocksdb_block_based_options_set_format_version(table, 5);
    rocksdb_block_based_options_set_checksum(table, CRC32C);
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_options_set_compression(options, NO_COMPRESSION);
    rocksdb_options_set_compaction_style(options, UNIVERSAL);
    rocksdb_options_set_optimize_filters_for_hits(options, 1);
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_max_open_files(options, 20);
    rocksdb_options_set_table_cache_numshardbits(options, 0);
    rocksdb_options_set_max_file_opening_threads(options, 1);
    rocksdb_options_set_db_log_dir(options, folder);
    return options;
}

static handle scan(const char *path) {
    char *error = NULL;
    handle read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(read, 0);
    rocksdb_readoptions_set_readahead_size(read, 1 << 17);
    handle database = rocksdb_open_for_read_only(make_options(), path, 0, &error);
    check(error);
    handle it = rocksdb_create_iterator(database, read);
    rocksdb_iter_seek_to_first(it);
    return it;
}

static void end_scan(handle it) {
    char *error = NULL;
    rocksdb_iter_get_error(it, &error);
    check(error);
    rocksdb_iter_destroy(it);
}

/* The record's value, converted; the buffer grows with what it has to hold. */
static const char *convert(const char *value, size_t size) {
    static char *buffer;
    static size_t room;
    if (size + sizeof PREFIX > room) {
        buffer = realloc(buffer, room = 2 * (size + sizeof PREFIX));
        memcpy(buffer, PREFIX, sizeof PREFIX);
    }
    memcpy(buffer + sizeof PREFIX, value, size);
    return buffer;
}

static uint64_t rewrite(const char *source, const char *file) {
    char *error = NULL;
    size_t key_size, size;
    digest *scanned = new_digest(), *written = new_digest();
    handle it = scan(source), sst = rocksdb_sstfilewriter_create(rocksdb_envoptions_create(), make_options());
    rocksdb_sstfilewriter_open(sst, file, &error);
    for (; error == NULL && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        const char *key = rocksdb_iter_key(it, &key_size), *value = rocksdb_iter_value(it, &size);
        count(scanned, key, key_size, value, size);
        const char *new = convert(value, size);
        count(written, key, key_size, new, size + sizeof PREFIX);
        rocksdb_sstfilewriter_put(sst, key, key_size, new, size + sizeof PREFIX, &error);
    }
    check(error);
    end_scan(it);
    rocksdb_sstfilewriter_finish(sst, &error);
    check(error);
    rocksdb_sstfilewriter_destroy(sst);
    print_digest("scanned", scanned), print_digest("written", written);
    return written->records;
}

static uint64_t verify(const char *source, const char *target) {
    size_t key_size, size, new_key_size, new_size;
    uint64_t records = 0;
    handle old = scan(source), new = scan(target);
    for (; rocksdb_iter_valid(old) && rocksdb_iter_valid(new); rocksdb_iter_next(old), rocksdb_iter_next(new)) {
        const char *key = rocksdb_iter_key(old, &key_size), *value = rocksdb_iter_value(old, &size);
        const char *new_key = rocksdb_iter_key(new, &new_key_size), *new_value = rocksdb_iter_value(new, &new_size);
        if (key_size != new_key_size || size + sizeof PREFIX != new_size || memcmp(key, new_key, key_size) != 0 ||
            memcmp(convert(value, size), new_value, new_size) != 0) {
            check("they differ");
        }
        records++;
    }
    if (rocksdb_iter_valid(old) || rocksdb_iter_valid(new)) check("one has more records");
    end_scan(old), end_scan(new);
    return records;
}

static uint64_t whole(const char *source, const char *file, const char *target) {
    char *error = NULL;
    uint64_t records = rewrite(source, file);
    handle move = rocksdb_ingestexternalfileoptions_create(), database = rocksdb_open(make_options(), target, &error);
    rocksdb_ingestexternalfileoptions_set_move_files(move, 1);
    if (error == NULL) rocksdb_ingest_external_file(database, &file, 1, move, &error);
    check(error);
    rocksdb_close(database);
    if (verify(source, target) != records) check("a record is missing");
    return records;
}

static uint64_t digest_only(const char *source) {
    size_t key_size, size;
    digest *d = new_digest();
    handle it = scan(source);
    for (; rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        const char *key = rocksdb_iter_key(it, &key_size), *value = rocksdb_iter_value(it, &size);
        count(d, key, key_size, value, size);
    }
    end_scan(it);
    print_digest("scanned", d);
    return d->records;
}

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec / 1e6; }

int main(int argc, char **argv) {
    struct timespec begun, ended;
    struct rusage usage;
    char file[4096], target[4096];
    if (argc < 4) check("usage: yardstick rewrite|whole|verify|digest SOURCE FOLDER [TARGET]");
    const char *mode = argv[1], *source = argv[2];
    folder = argv[3];
    snprintf(file, sizeof file, "%s/yardstick.sst", folder);
    snprintf(target, sizeof target, "%s/result", folder);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    printf("{");
    uint64_t records = !strcmp(mode, "rewrite")  ? rewrite(source, file)
                       : !strcmp(mode, "whole")  ? whole(source, file, target)
                       : !strcmp(mode, "verify") ? verify(source, argc > 4 ? argv[4] : target)
                                                 : digest_only(source);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    getrusage(RUSAGE_SELF, &usage);
    printf("\"records\": %lu, \"wall\": %.6f, \"cpu\": %.6f}\n", records,
           ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9,
           seconds(usage.ru_utime) + seconds(usage.ru_stime));
    return 0;
}
