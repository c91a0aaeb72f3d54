/* vil_mark_rays on any rays within the tree. Context: lowest key and cells of the part of the grid
 * (i64, 3 each). Input: resolution (double), sensor (float, 3), then ends (float, 3 each). */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENDS = 32, MOST_CELLS = 1 << 20 };

void vil_mark_rays(const float *sensor, const float *ends, int64_t count, double resolution_m,
                   const int64_t *low, const int64_t *shape, uint8_t *marks);

/* Its callers leave out what is not finite or outside the tree. */
static int inside(const float *place_m, double resolution_m)
{
    for (int i = 0; i < 3; i++)
        if (!(fabs(floor((double)place_m[i] * (1.0 / resolution_m)) + 0.5) < 32768.0))
            return 0;
    return 1;
}

void fuzz_rays(Blob context, Blob input)
{
    double resolution_m;
    float sensor[3], end[3], ends[3 * MOST_ENDS];
    int64_t box[6], count = 0;
    if (context.size != sizeof box || input.size < sizeof resolution_m + sizeof sensor)
        return;
    memcpy(box, context.bytes, sizeof box);
    memcpy(&resolution_m, input.bytes, sizeof resolution_m);
    memcpy(sensor, input.bytes + sizeof resolution_m, sizeof sensor);
    if (!(resolution_m >= 0.01 && resolution_m <= 10.0 && inside(sensor, resolution_m)))
        return;
    for (size_t at = sizeof resolution_m + sizeof sensor;
         at + sizeof end <= input.size && count < MOST_ENDS; at += sizeof end) {
        memcpy(end, input.bytes + at, sizeof end);
        if (inside(end, resolution_m))
            memcpy(ends + 3 * count++, end, sizeof end);
    }
    const int64_t cells = box[3] * box[4] * box[5];
    if (cells < 0 || cells > MOST_CELLS)
        return;
    uint8_t *marks = calloc((size_t)cells, 1);
    float *exact = exactly(ends, (size_t)count * sizeof end);
    if (marks != NULL || cells == 0)
        vil_mark_rays(sensor, exact, count, resolution_m, box, box + 3, marks);
    free(exact);
    free(marks);
}
