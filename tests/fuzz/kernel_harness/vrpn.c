/* vil_vrpn_read on a stream in two parts, each then made into frames.
 *
 * Context: numbers (i32): type of poses, number of trackers, number of bound ids, then senders,
 * sensors and rows of the ids.
 */
#include "harness.h"

#include "vrpn.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ENTRIES = 16, ROW_BYTES = 7 * sizeof(double), POINTERS = 22 };

static void *zeros(void **owned, size_t *count, size_t size)
{
    return owned[(*count)++] = calloc(1, size);
}

static void read_frames(VilVrpnTable *table, Blob input, int64_t t_arrival_ns)
{
    const int64_t end = vil_vrpn_read(table, input.bytes, (int64_t)input.size, 0, t_arrival_ns);
    if (end < (int64_t)input.size)
        vil_vrpn_read(table, input.bytes, (int64_t)input.size, end + 1, t_arrival_ns);
    const int64_t groups = vil_vrpn_select(table);
    for (int64_t group = 0; group < groups; group++)
        if (table->group_used[group])
            vil_vrpn_frame(table, group);
    table->groups = table->entries = 0;
    if (vil_vrpn_silent(table, t_arrival_ns + 200000000))
        vil_vrpn_frame(table, -1);
}

void fuzz_vrpn(Blob context, Blob input)
{
    const int32_t *numbers = (const int32_t *)(const void *)context.bytes;
    const size_t trackers = (size_t)numbers[1], bound = (size_t)numbers[2],
                 ids = bound * sizeof *numbers;
    const int32_t *bindings = numbers + 3;
    void *owned[POINTERS] = {
        exactly(bindings, ids),
        exactly(bindings + bound, ids),
        exactly(bindings + 2 * bound, ids),
    };
    size_t n = 3;
    VilVrpnTable table = {
        .trackers = (int64_t)trackers,
        .most_entries = MOST_ENTRIES,
        .bound = (int64_t)bound,
        .pose_type = numbers[0],
        .repeats_mean_lost = 1,
        .y_up = 1,
        .scale_m = 1e-3,
        .farthest_m = 1e4,
        .pose = zeros(owned, &n, trackers * ROW_BYTES),
        .shown = zeros(owned, &n, trackers * ROW_BYTES),
        .period_ns = zeros(owned, &n, trackers * 8),
        .entry_pose = zeros(owned, &n, MOST_ENTRIES * ROW_BYTES),
        .frame_pose = zeros(owned, &n, trackers * ROW_BYTES),
        .t_ns = zeros(owned, &n, trackers * 8),
        .t_arrival_ns = zeros(owned, &n, trackers * 8),
        .repeats = zeros(owned, &n, trackers * 8),
        .messages = zeros(owned, &n, trackers * 8),
        .group_t_ns = zeros(owned, &n, MOST_ENTRIES * 8),
        .group_arrival_ns = zeros(owned, &n, MOST_ENTRIES * 8),
        .group_start = zeros(owned, &n, MOST_ENTRIES * 8),
        .entry_row = zeros(owned, &n, MOST_ENTRIES * 4),
        .frame_row = zeros(owned, &n, trackers * 4),
        .tracked = zeros(owned, &n, trackers),
        .group_used = zeros(owned, &n, MOST_ENTRIES),
        .entry_tracked = zeros(owned, &n, MOST_ENTRIES),
        .frame_tracked = zeros(owned, &n, trackers),
        .covered = zeros(owned, &n, trackers),
        .bound_sender = owned[0],
        .bound_sensor = owned[1],
        .bound_row = owned[2],
    };
    for (size_t i = 0; i < trackers; i++)
        table.t_ns[i] = -1;
    const size_t half = input.size / 2;
    read_frames(&table, (Blob){input.bytes, half}, 1000000000);
    read_frames(&table, (Blob){input.bytes + half, input.size - half}, 2000000000);
    while (n > 0)
        free(owned[--n]);
}
