/* Calls an entry point with changed seeds: harness ENTRY SEEDS RUNS SEED CRASH.
 *
 * SEEDS holds records of two blobs, context and input, each after its size (u32). The input of a
 * report is written to CRASH. The same SEED tries the same inputs in the same order.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SEEDS = 65536, MOST_BYTES = 1 << 17, MOST_CHANGES = 8 };

typedef struct {
    const char *name;
    void (*run)(Blob context, Blob input);
} Entry;

static const Entry ENTRIES[] = {
    {"natnet", fuzz_natnet},
    {"error-state", fuzz_error_state},
    {"vicon", fuzz_vicon},
    {"vicon-objects", fuzz_vicon_objects},
    {"vrpn", fuzz_vrpn},
    {"clock", fuzz_clock},
    {"tracks", fuzz_tracks},
    {"numbers", fuzz_numbers},
    {"rays", fuzz_rays},
    {"planted", fuzz_planted},
};

static Blob contexts[MOST_SEEDS], inputs[MOST_SEEDS];
static size_t seed_count;
static uint8_t changed[MOST_BYTES];
static size_t changed_size;
static const char *crash_path;
static uint64_t random_state;

void __sanitizer_set_death_callback(void (*callback)(void));
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1";
}

/* Splitmix64. */
static uint64_t next_random(void)
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t bound)
{
    return bound == 0 ? 0 : (size_t)(next_random() % bound);
}

void *exactly(const void *from, size_t size)
{
    void *copy = malloc(size);
    if (copy == NULL && size != 0) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        exit(2);
    }
    if (size != 0)
        memcpy(copy, from, size);
    return copy;
}

static void write_crash(void)
{
    FILE *file = fopen(crash_path, "wb");
    if (file == NULL)
        return;
    fwrite(changed, 1, changed_size, file);
    fclose(file);
}

/* Overwrite some bytes, as far as there are so many. */
static void put(const void *value, size_t size)
{
    if (changed_size >= size)
        memcpy(changed + below(changed_size - size + 1), value, size);
}

static void put_odd_number(void)
{
    static const int32_t INTEGERS[] = {-1, 0, 1, 2, 7, 127, 255, 65535, 65536,
                                       INT32_MAX, INT32_MIN, INT32_MAX / 38};
    static const uint32_t FLOATS[] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu,
                                      1u, 0x80000000u, 0x461c4001u};
    static const uint64_t DOUBLES[] = {
        0x7ff8000000000000u, 0x7ff0000000000000u, 0xfff0000000000000u, 0x7fefffffffffffffu, 1u,
        0x8000000000000000u, 0x40c3880000000001u};
    switch (below(3)) {
    case 0:
        put(INTEGERS + below(sizeof INTEGERS / sizeof *INTEGERS), sizeof *INTEGERS);
        break;
    case 1:
        put(FLOATS + below(sizeof FLOATS / sizeof *FLOATS), sizeof *FLOATS);
        break;
    default:
        put(DOUBLES + below(sizeof DOUBLES / sizeof *DOUBLES), sizeof *DOUBLES);
    }
}

/* Put bytes of an input behind or between those of the changed one. */
static void insert(Blob other)
{
    const size_t at = below(changed_size + 1), start = below(other.size),
                 size = below(other.size - start + 1);
    if (changed_size + size > MOST_BYTES)
        return;
    memmove(changed + at + size, changed + at, changed_size - at);
    if (size != 0)
        memcpy(changed + at, other.bytes + start, size);
    changed_size += size;
}

static void cut(void)
{
    const size_t at = below(changed_size + 1),
                 size = below(2) ? changed_size - at : below(changed_size - at + 1);
    memmove(changed + at, changed + at + size, changed_size - at - size);
    changed_size -= size;
}

static void change(void)
{
    const size_t kind = below(10);
    if (kind < 2 && changed_size != 0)
        changed[below(changed_size)] ^= (uint8_t)(1u << below(8));
    else if (kind < 4 && changed_size != 0)
        changed[below(changed_size)] = (uint8_t)next_random();
    else if (kind < 8)
        put_odd_number();
    else if (kind < 9)
        cut();
    else
        insert(inputs[below(seed_count)]);
}

static uint32_t next_size(FILE *file)
{
    uint8_t bytes[4];
    if (fread(bytes, 1, 4, file) != 4)
        return UINT32_MAX;
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16
           | (uint32_t)bytes[3] << 24;
}

static int next_blob(FILE *file, Blob *blob)
{
    const uint32_t size = next_size(file);
    uint8_t *bytes = size > MOST_BYTES ? NULL : malloc(size + 1);
    if (bytes == NULL || fread(bytes, 1, size, file) != size) {
        free(bytes);
        return 0;
    }
    *blob = (Blob){bytes, size};
    return 1;
}

static int read_seeds(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    while (seed_count < MOST_SEEDS && next_blob(file, contexts + seed_count)
           && next_blob(file, inputs + seed_count))
        seed_count++;
    fclose(file);
    return seed_count != 0;
}

static void run(const Entry *entry, unsigned long long runs)
{
    for (unsigned long long i = 0; i < runs; i++) {
        const size_t seed = below(seed_count), other = below(8) == 0 ? below(seed_count) : seed;
        changed_size = inputs[seed].size;
        memcpy(changed, inputs[seed].bytes, changed_size);
        for (size_t left = below(MOST_CHANGES + 1); left > 0; left--)
            change();
        uint8_t *exact = exactly(changed, changed_size);
        entry->run(contexts[other], (Blob){exact, changed_size});
        free(exact);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6 || !read_seeds(argv[2])) {
        fprintf(stderr,
                "usage: harness ENTRY SEEDS RUNS SEED CRASH; SEEDS must hold at least one\n");
        return 2;
    }
    crash_path = argv[5];
    random_state = strtoull(argv[4], NULL, 10);
    __sanitizer_set_death_callback(write_crash);
    for (size_t i = 0; i < sizeof ENTRIES / sizeof *ENTRIES; i++)
        if (strcmp(ENTRIES[i].name, argv[1]) == 0) {
            run(ENTRIES + i, strtoull(argv[3], NULL, 10));
            printf("%s inputs\n", argv[3]);
            return 0;
        }
    fprintf(stderr, "unknown entry %s\n", argv[1]);
    return 2;
}
