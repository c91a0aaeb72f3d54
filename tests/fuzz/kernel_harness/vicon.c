/* vil_vicon_segments on the bodies of a frame's segment blocks.
 *
 * Context: numbers (i32): light, number of segments, rows, then keys, slots and parents. Input:
 * number of bodies (u32), sizes of these (u32), bodies; sizes beyond the input's end are cut.
 */
#include "harness.h"

#include "vicon.h"

#include <stdlib.h>

static uint32_t u32_of(Blob blob, size_t at)
{
    uint32_t value = 0;
    if (at + sizeof value <= blob.size)
        memcpy(&value, blob.bytes + at, sizeof value);
    return value;
}

void fuzz_vicon(Blob context, Blob input)
{
    const int32_t *numbers = (const int32_t *)(const void *)context.bytes;
    const size_t segments = (size_t)numbers[1], rows = (size_t)numbers[2];
    const size_t most = input.size / 4, wanted = u32_of(input, 0);
    const size_t count = most == 0 ? 0 : wanted < most - 1 ? wanted : most - 1;
    const size_t start = 4 + 4 * count;
    size_t left = input.size < start ? 0 : input.size - start, used = 0;
    uint32_t *sizes = calloc(count, sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        const uint32_t size = u32_of(input, 4 + 4 * i);
        sizes[i] = size < left - used ? size : (uint32_t)(left - used);
        used += sizes[i];
    }
    uint8_t *bodies = exactly(input.bytes + (used == 0 ? 0 : start), used);
    uint32_t *keys = exactly(numbers + 3, 2 * segments * sizeof *keys);
    int32_t *slots = exactly(numbers + 3 + 2 * segments, segments * sizeof *slots);
    int32_t *parents = exactly(numbers + 3 + 3 * segments, rows * sizeof *parents);
    VilViconBinding binding = {
        .segments = (int64_t)segments, .rows_out = (int64_t)rows, .y_up = 1,
        .keys = keys, .slots = slots, .parents = parents,
        .pose = calloc(rows, 7 * sizeof(double)), .tracked = calloc(rows, 1),
        .farthest_m = 1e4, .rotation_tolerance = 1e-3,
    };
    vil_vicon_segments(bodies, (const uint8_t *)sizes, (int64_t)count, numbers[0], &binding);
    free(sizes), free(bodies), free(keys), free(slots), free(parents), free(binding.pose),
        free(binding.tracked);
}
