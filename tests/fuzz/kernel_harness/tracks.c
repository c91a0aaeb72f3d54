/* vil_frame_store_add, vil_bank_* and vil_skeleton_at on any frames, and vil_fill_numbers on any
 * text.
 *
 * Input of tracks and skeletons: records of a step (i32, us), an instant to ask for (i32, us),
 * whether three bodies were seen (one byte each), one spare byte and three poses (21 doubles).
 * Context: tables of gains (5 x 241 and 3 x 61).
 */
#include "numbers.h"
#include "tracks.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 3,
    CAPACITY = 8,
    COLUMNS = 241,
    YOUNG = 61,
    POSE = 7,
    RECORD = 12 + 8 * POSE * ROWS,
    US = 1000
};

void vil_bank_advance(const VilBank *b, const VilFilter *filter);
int vil_bank_sure(const VilBank *b, int64_t t_ns);
void vil_bank_shift(const VilBank *b, const VilFilter *filter, const int64_t *rows, int64_t count,
                    int64_t by_ns);
void vil_bank_poses(const VilBank *b, const VilFilter *filter, int64_t t_ns, double *poses);
int64_t vil_frame_store_add(const VilFrameStore *s, const uint8_t *block, int64_t t_ns,
                            int64_t t_arrival_ns);
int vil_skeleton_at(const VilSkeleton *s, int64_t t_ns, int64_t horizon_ns);

static void *blocks[64];
static int block_count;

/* Memory of some elements, each of a value's bytes. */
static void *filled(size_t count, size_t size, const void *value)
{
    uint8_t *block = malloc(count * size);
    for (size_t i = 0; i < count; i++)
        memcpy(block + i * size, value, size);
    blocks[block_count++] = block;
    return block;
}

static double *doubles(size_t count, double value)
{
    return filled(count, sizeof value, &value);
}

static int64_t *integers(size_t count, int64_t value)
{
    return filled(count, sizeof value, &value);
}

static void *held(const void *from, size_t size)
{
    return blocks[block_count++] = exactly(from, size);
}

static void free_all(void)
{
    while (block_count > 0)
        free(blocks[--block_count]);
}

static VilFilter new_filter(Blob context)
{
    const size_t steady = sizeof(double) * 5 * COLUMNS;
    return (VilFilter){
        .rows = ROWS,
        .columns = COLUMNS,
        .steady = held(context.bytes, steady),
        .first = held(context.bytes + steady, sizeof(double) * 3 * YOUNG),
        .t_ns = integers(ROWS, -1),
        .state = doubles(18 * ROWS, 0.0),
        .newest = doubles(6 * ROWS, 0.0),
        .step_s = doubles(ROWS, 0.01),
        .age = integers(ROWS, 0),
        .variance = doubles(2 * ROWS, 1e-7),
        .log_jerk = doubles(2 * ROWS, 25.0),
        .surprises = integers(2 * ROWS, 0),
        .whitened = doubles(6 * ROWS, 0.0),
        .learnt_ns = integers(ROWS, -1),
        .learnt = doubles(ROWS, 0.0),
        .unlearnt = doubles(5 * ROWS, 0.0),
        .held_ns = integers(ROWS, -1),
        .held = doubles(18 * ROWS, 0.0),
        .sums = doubles(14 * ROWS, 0.01),
        .lag_s = doubles(ROWS, 0.075),
        .log_parts = doubles(4 * ROWS, -0.1),
    };
}

static VilBank new_bank(void)
{
    return (VilBank){
        .rows = ROWS,
        .capacity = CAPACITY,
        .noisy = 1,
        .slowest_mps = 30.0,
        .slowest_radps = 40.0,
        .t = integers(ROWS * CAPACITY, 0),
        .moved_ns = integers(ROWS, 0),
        .poses = doubles(POSE * ROWS * CAPACITY, 0.0),
        .count = integers(ROWS, 0),
        .newest = doubles(POSE * ROWS, 0.0),
        .gate_ns = integers(ROWS, -((int64_t)1 << 62)),
        .max_speed_mps = doubles(ROWS, 30.0),
        .max_rate_radps = doubles(ROWS, 40.0),
        .limit_ns = integers(ROWS, 250000000),
        .coast_ns = integers(ROWS, 30000000),
        .t_capture_ns = integers(ROWS, -1),
        .t_arrival_ns = integers(ROWS, -1),
        .tracked = filled(ROWS, 1, "\0"),
        .repeats = integers(ROWS, 0),
        .repeats_first_ns = integers(ROWS, 0),
        .repeats_newest_ns = integers(ROWS, 0),
        .done = integers(ROWS, 0),
        .filtered = doubles(POSE * ROWS, 0.5),
        .turned_rad = doubles(3 * ROWS, 0.0),
    };
}

static VilSkeleton new_skeleton(void)
{
    static const VilStamps never = {-1, -1, 0, 0};
    return (VilSkeleton){
        .bones = ROWS,
        .capacity = CAPACITY,
        .place_bone = 1,
        .max_mps = 30.0,
        .max_radps = 40.0,
        .stamps = held(&never, sizeof never),
        .t = integers(CAPACITY, 0),
        .poses = doubles(POSE * ROWS * CAPACITY, 0.0),
        .seen = filled(ROWS * CAPACITY, 1, "\0"),
        .count = integers(1, 0),
        .repeats = integers(1, 0),
        .repeats_first_ns = integers(1, 0),
        .repeats_newest_ns = integers(1, 0),
        .world = doubles(POSE * ROWS, 0.0),
        .world_seen = filled(ROWS, 1, "\0"),
    };
}

/* Read a record: poses and flags into a block, as bodies and again as bones, the step and the
 * instant. */
static void read_record(const uint8_t *at, uint8_t *block, int32_t *times_us)
{
    memcpy(times_us, at, 8);
    for (int row = 0; row < 2 * ROWS; row++) {
        memcpy(block + 8 * POSE * row, at + 12 + 8 * POSE * (row % ROWS), 8 * POSE);
        block[8 * POSE * 2 * ROWS + row] = at[8 + row % ROWS] & 1;
    }
}

void fuzz_tracks(Blob context, Blob input)
{
    const double turn = 0.5;
    const VilRoom room = {input.size % 2, doubles(49, turn), doubles(POSE, 1.0)};
    const VilFilter filter = new_filter(context);
    const VilBank bank = new_bank();
    const VilSkeleton skeleton = new_skeleton();
    int64_t order[ROWS] = {2, 0, 1};
    VilFrame frame = {
        .count = ROWS,
        .markers_turned = input.size % 3 == 0,
        .room = &room,
        .columns = held(order, sizeof order),
        .rows = held(order, sizeof order),
        .markers = doubles(POSE * ROWS, 0.5),
        .poses = doubles(POSE * ROWS, 0.0),
    };
    const VilSkeleton *const tracks[1] = {&skeleton};
    const VilFrameStore store = {
        .rows = 2 * ROWS,
        .skeletons = 1,
        .bank = &bank,
        .filter = &filter,
        .bodies = &frame,
        .tracks = tracks,
        .first_rows = integers(1, ROWS),
        .refused = filled(1, 1, "\0"),
    };
    uint8_t *block = filled(2 * ROWS * (8 * POSE + 1), 1, "");
    double *poses = doubles(POSE * ROWS, 0.0);
    int64_t t_ns = 0;
    for (size_t at = 0; at + RECORD <= input.size; at += RECORD) {
        int32_t times_us[2];
        read_record(input.bytes + at, block, times_us);
        t_ns += (int64_t)times_us[0] * US;
        vil_frame_store_add(&store, block, t_ns, t_ns);
        vil_bank_advance(&bank, &filter);
        vil_bank_shift(&bank, &filter, frame.rows, (int64_t)at % ROWS, (int64_t)times_us[1] * at);
        vil_bank_sure(&bank, t_ns);
        vil_bank_poses(&bank, &filter, t_ns + (int64_t)times_us[1] * US, poses);
        vil_skeleton_at(&skeleton, t_ns + (int64_t)times_us[1] * US, 250000000);
    }
    free_all();
}

/* Input: numbers (8 doubles), then the text, whose gaps take them in turn. */
void fuzz_numbers(Blob context, Blob input)
{
    enum { NUMBERS = 8, OUT = 256 };
    (void)context;
    if (input.size < NUMBERS * sizeof(double))
        return;
    const size_t size = input.size - NUMBERS * sizeof(double);
    const double *values = held(input.bytes, NUMBERS * sizeof(double));
    const char *text = held(input.bytes + NUMBERS * sizeof(double), size);
    int32_t indices[NUMBERS] = {7, 0, 3, 3, 1, 6, 5, 2};
    for (int64_t count = 0; count <= NUMBERS; count++)
        vil_fill_numbers(text, (int64_t)size, held(indices, (size_t)count * 4), count, values,
                         filled(OUT, 1, ""), OUT);
    const VilPoseText written = {
        .bodies = input.size % 2,
        .cameras = 1 - input.size % 2,
        .gaps = NUMBERS,
        .capacity = OUT,
        .body_turn = doubles(49, 0.5),
        .camera_turn = doubles(49, -1.0),
        .poses = values,
        .indices = held((int32_t[NUMBERS]){6, 0, 3, 3, 1, 6, 5, 2}, NUMBERS * 4),
        .values = doubles(POSE, 0.0),
        .out = filled(OUT, 1, ""),
    };
    vil_write_poses(&written, text, (int64_t)size);
    free_all();
}
