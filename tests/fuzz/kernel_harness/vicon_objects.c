/* vil_vicon_objects_scan and vil_vicon_objects on a datagram, twice.
 *
 * Context: numbers (i32): number of objects, rows, then a row of each object; then their names (24
 * bytes each).
 */
#include "harness.h"

#include "vicon_objects.h"

#include <stdlib.h>

void fuzz_vicon_objects(Blob context, Blob input)
{
    const int32_t *numbers = (const int32_t *)(const void *)context.bytes;
    const size_t objects = (size_t)numbers[0], rows_out = (size_t)numbers[1];
    int32_t *rows = exactly(numbers + 2, objects * sizeof *rows);
    uint8_t *names = exactly(numbers + 2 + objects, objects * VIL_OBJECT_NAME);
    VilObjectsBinding binding = {
        .objects = (int64_t)objects,
        .rows_out = (int64_t)rows_out,
        .repeats = 5,
        .names = names,
        .rows = rows,
        .last = calloc(rows_out, VIL_OBJECT),
        .times = calloc(rows_out, sizeof(int64_t)),
        .pose = calloc(rows_out, 7 * sizeof(double)),
        .tracked = calloc(rows_out, 1),
        .farthest_m = 1e4,
        .largest_rad = 100.0,
    };
    for (int i = 0; i < 2; i++)
        if (vil_vicon_objects_scan(input.bytes, (int64_t)input.size) >= 0)
            vil_vicon_objects(input.bytes, (int64_t)input.size, &binding);
    free(rows), free(names), free(binding.last), free(binding.times), free(binding.pose),
        free(binding.tracked);
}
