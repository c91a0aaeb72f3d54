/* Tracker's UDP object stream: poses of the room, and which of them are tracked.
 *
 * Twin of adapters/vil_adapters/vicon/udp_codec.py and object_tracker.py, which explain layout and
 * rules and are the oracle of the tests. What is malformed is left to them: they know the error.
 */
#include "vicon_objects.h"

#include <math.h>

enum { BLOCK = 5, ITEM = 3, OBJECT_KIND = 0 };

static const double M_PER_MM = 1e-3;

/* Pass over the next item. Returns the offset behind it, -1 where it does not fit; object: its
 * bytes, else NULL. */
static int64_t next_item(const uint8_t *datagram, int64_t size, int64_t at, const uint8_t **object)
{
    if (size - at < ITEM)
        return -1;
    const int64_t bytes = datagram[at + 1] | datagram[at + 2] << 8;
    const int is_object = datagram[at] == OBJECT_KIND;
    at += ITEM;
    if (bytes > size - at || (is_object && bytes < VIL_OBJECT))
        return -1;
    *object = is_object ? datagram + at : NULL;
    return at + bytes;
}

/* Check a datagram. Returns the number of its objects, -1 where it is malformed. */
int vil_vicon_objects_scan(const uint8_t *datagram, int64_t size)
{
    if (size < BLOCK)
        return -1;
    int objects = 0;
    int64_t at = BLOCK;
    for (int left = datagram[BLOCK - 1]; left > 0; left--) {
        const uint8_t *object = NULL;
        at = next_item(datagram, size, at, &object);
        if (at < 0)
            return -1;
        objects += object != NULL;
    }
    return objects;
}

/* Attitude of intrinsic X-Y-Z angles: q_x q_y q_z. */
static void q_from_euler(const double *euler_rad, double *q)
{
    double turns[3][4] = {{0.0}};
    for (int i = 0; i < 3; i++) {
        turns[i][i] = sin(0.5 * euler_rad[i]);
        turns[i][3] = cos(0.5 * euler_rad[i]);
    }
    q_mul(turns[0], turns[1], q);
    q_mul(q, turns[2], q);
}

/* Read position and angles; returns whether they are a pose. */
static int read_pose(const uint8_t *object, const VilObjectsBinding *binding, double *pose)
{
    double numbers[6];
    int good = 1;
    memcpy(numbers, object + VIL_OBJECT_NAME, sizeof numbers);
    for (int i = 0; i < 3; i++) {
        pose[i] = numbers[i] * M_PER_MM;
        good &= fabs(pose[i]) <= binding->farthest_m
                && fabs(numbers[3 + i]) < binding->largest_rad; /* not for NaN */
    }
    if (good)
        q_from_euler(numbers + 3, pose + 3);
    return good;
}

/* Return whether a row's object differs from those of the last datagrams. */
static int has_moved(VilObjectsBinding *binding, int32_t row, const uint8_t *object)
{
    uint8_t *last = binding->last + (int64_t)VIL_OBJECT * row;
    const int same = binding->times[row] > 0 && memcmp(last, object, VIL_OBJECT) == 0;
    binding->times[row] = same ? binding->times[row] + 1 : 1;
    memcpy(last, object, VIL_OBJECT);
    return binding->times[row] < binding->repeats;
}

static int has_names(const uint8_t *datagram, int64_t size, const VilObjectsBinding *binding)
{
    int64_t at = BLOCK, next = 0;
    for (int left = datagram[BLOCK - 1]; left > 0; left--) {
        const uint8_t *object = NULL;
        at = next_item(datagram, size, at, &object);
        if (at < 0)
            return 0;
        if (object == NULL)
            continue;
        if (next == binding->objects
            || memcmp(binding->names + VIL_OBJECT_NAME * next, object, VIL_OBJECT_NAME) != 0)
            return 0;
        next++;
    }
    return next == binding->objects;
}

/* Convert a datagram into the arrays of a binding. Returns 0, or -1 with nothing changed where it
 * has other names. */
int vil_vicon_objects(const uint8_t *datagram, int64_t size, VilObjectsBinding *binding)
{
    if (size < BLOCK || !has_names(datagram, size, binding))
        return -1;
    for (int64_t row = 0; row < binding->rows_out; row++) {
        no_pose(binding->pose + 7 * row);
        binding->tracked[row] = 0;
    }
    int64_t at = BLOCK, next = 0;
    for (int left = datagram[BLOCK - 1]; left > 0; left--) {
        const uint8_t *object = NULL;
        double pose[7];
        at = next_item(datagram, size, at, &object);
        if (object == NULL)
            continue;
        const int32_t row = binding->rows[next++];
        const int good = read_pose(object, binding, pose);
        binding->invalid += !good;
        if (row < 0 || !has_moved(binding, row, object) || !good)
            continue;
        memcpy(binding->pose + 7 * (int64_t)row, pose, sizeof pose);
        binding->tracked[row] = 1;
    }
    return 0;
}
