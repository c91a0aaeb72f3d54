/* Cells of a grid that rays cross; the twin of world/occupancy/rays.py, which follows OctoMap's
 * computeRayKeys. */
#include <math.h>
#include <stdint.h>

#define MIDDLE 32768

static int64_t key_at(float coordinate_m, double per_m)
{
    return (int64_t)floor((double)coordinate_m * per_m) + MIDDLE;
}

/* The axis whose border comes first; of equal ones the later axis. */
static int nearest(const double *reach)
{
    if (reach[0] < reach[1])
        return reach[0] < reach[2] ? 0 : 2;
    return reach[1] < reach[2] ? 1 : 2;
}

/* A part of the grid: its lowest key, its cells along each axis, and a byte for each cell, z
 * fastest. */
typedef struct {
    const int64_t *low, *shape;
    uint8_t *marks;
} Part;

static void mark(const Part *part, const int64_t *key)
{
    int64_t place = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t at = key[i] - part->low[i];
        if (at < 0 || at >= part->shape[i])
            return;
        place = place * part->shape[i] + at;
    }
    part->marks[place] = 1;
}

static void mark_ray(const Part *part, const float *sensor, const int64_t *first, const float *end,
                     double resolution_m)
{
    int64_t key[3], last[3], step[3];
    float way[3], sum = 0.0F;
    double reach[3], stride[3];
    for (int i = 0; i < 3; i++) {
        key[i] = first[i];
        last[i] = key_at(end[i], 1.0 / resolution_m);
        way[i] = end[i] - sensor[i];
        sum += way[i] * way[i];
    }
    if (key[0] == last[0] && key[1] == last[1] && key[2] == last[2])
        return;
    const float length = (float)sqrt((double)sum);
    if (!(length > 0.0F)) /* shorter than single precision can square: it has no direction */
        return;
    for (int i = 0; i < 3; i++) {
        const float slope = way[i] / length;
        step[i] = (slope > 0.0F) - (slope < 0.0F);
        reach[i] = stride[i] = INFINITY;
        if (step[i] == 0)
            continue;
        const float half = (float)((double)step[i] * resolution_m * 0.5);
        const double border = ((double)(first[i] - MIDDLE) + 0.5) * resolution_m + (double)half;
        reach[i] = (border - (double)sensor[i]) / (double)slope;
        stride[i] = resolution_m / fabs((double)slope);
    }
    for (;;) {
        mark(part, key);
        const int axis = nearest(reach);
        key[axis] += step[axis];
        reach[axis] += stride[axis];
        if (key[0] == last[0] && key[1] == last[1] && key[2] == last[2])
            return;
        if (fmin(fmin(reach[0], reach[1]), reach[2]) > (double)length)
            return;
    }
}

/* Mark the cells between a sensor and points, the points' own cells left out; all coordinates lie
 * within the tree. */
void vil_mark_rays(
    const float *sensor, const float *ends, int64_t count, double resolution_m, const int64_t *low,
    const int64_t *shape, uint8_t *marks)
{
    const Part part = {low, shape, marks};
    int64_t first[3];
    for (int i = 0; i < 3; i++)
        first[i] = key_at(sensor[i], 1.0 / resolution_m);
    for (int64_t row = 0; row < count; row++)
        mark_ray(&part, sensor, first, ends + 3 * row, resolution_m);
}
