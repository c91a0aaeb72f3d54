/* vil_natnet_scan, vil_natnet_convert and vil_natnet_accept on a datagram.
 *
 * Context: numbers (i32): sized, sizes of layout, rows, absent and parents, then these.
 */
#include "harness.h"

#include "natnet_stream.h"

#include <stdlib.h>

/* Offer the datagram as one of a server whose newest frame was the one before it. */
static void accept(Blob input, int sized, VilNatNetBinding *binding)
{
    int32_t number = 1;
    if (input.size > VIL_DATAGRAM_BYTES)
        return;
    if (input.size >= 8)
        memcpy(&number, input.bytes + 4, sizeof number);
    VilNatNetStream stream = {.sized = sized,
                              .ticks_per_s = 10000000,
                              .most_skipped = 1000,
                              .fastest_hz = 2000,
                              .binding = binding,
                              .bytes = exactly(input.bytes, input.size),
                              .held = 1,
                              .shown = 2,
                              .number = (int64_t)number - 1,
                              .t_capture_ns = INT64_MIN};
    vil_natnet_accept(&stream, 0, 0, (int64_t)input.size, 1000000000);
    free(stream.bytes);
}

static int32_t *next_numbers(const int32_t **at, int32_t count)
{
    int32_t *copy = exactly(*at, (size_t)count * sizeof **at);
    *at += count;
    return copy;
}

void fuzz_natnet(Blob context, Blob input)
{
    int32_t *numbers = exactly(context.bytes, context.size);
    const int32_t sized = numbers[0], words = numbers[1], rows = numbers[2], absent = numbers[3],
                  rows_out = numbers[4];
    const int32_t *at = numbers + 5;
    int32_t *arrays[4] = {next_numbers(&at, words), next_numbers(&at, rows),
                          next_numbers(&at, absent), next_numbers(&at, rows_out)};
    VilNatNetBinding binding = {
        .words = words,
        .rows_out = rows_out,
        .absent_count = absent,
        .has_local = 1,
        .layout = arrays[0],
        .rows = arrays[1],
        .absent = arrays[2],
        .parents = arrays[3],
        .pose = calloc((size_t)rows_out, 7 * sizeof(double)),
        .tracked = calloc((size_t)rows_out, 1),
        .farthest_m = 1e4,
        .factor = {1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0},
        .axis = {0, 2, 1, 3, 5, 4, 6},
    };
    for (int other = 0; other < 2; other++) {
        accept(input, sized ^ other, &binding);
        if (vil_natnet_scan(input.bytes, (int64_t)input.size, sized ^ other) >= 0)
            vil_natnet_convert(input.bytes, (int64_t)input.size, sized ^ other, &binding);
    }
    for (int i = 0; i < 4; i++)
        free(arrays[i]);
    free(binding.pose);
    free(binding.tracked);
    free(numbers);
}
