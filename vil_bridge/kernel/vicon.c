/* Segments of Vicon's DataStream: poses of the room.
 *
 * Twin of adapters/vil_adapters/vicon/segments.py and convert.py, which explain the layout and the
 * conversion and are the oracle of the tests. What is malformed is left to them: they know the
 * error.
 */
#include "vicon.h"

#include <math.h>

enum { HEAD = 8, SEGMENT = 100, LIGHT_SEGMENT = 28, OTHER_LAYOUT = -1 };

static const double M_PER_MM = 1e-3, PI = 3.14159265358979323846;

static uint32_t u32_at(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Quaternion of a matrix by the largest pivot (Shepperd 1978); returns whether the matrix is a
 * rotation. */
static int q_from_matrix(const double *R, double tolerance, double *q)
{
    const double squares[4] = {
        1.0 + R[0] - R[4] - R[8],
        1.0 - R[0] + R[4] - R[8],
        1.0 - R[0] - R[4] + R[8],
        1.0 + R[0] + R[4] + R[8],
    };
    const double xy = R[1] + R[3], xz = R[2] + R[6], yz = R[5] + R[7];
    const double xw = R[7] - R[5], yw = R[2] - R[6], zw = R[3] - R[1];
    const double products[4][4] = {
        {squares[0], xy, xz, xw},
        {xy, squares[1], yz, yw},
        {xz, yz, squares[2], zw},
        {xw, yw, zw, squares[3]},
    };
    int pivot = 0, is_rotation = 1;
    for (int i = 1; i < 4; i++)
        pivot = squares[i] > squares[pivot] ? i : pivot;
    double back[9];
    memcpy(q, products[pivot], 4 * sizeof *q);
    q_normalize(q);
    q_to_matrix(q, back);
    for (int i = 0; i < 9; i++)
        is_rotation &= fabs(back[i] - R[i]) < tolerance; /* not for NaN */
    return is_rotation;
}

/* Quaternion of a rotation vector, rounded as the twin's; returns whether it is finite. */
static int q_from_rotvec(const double *rotvec_rad, double *q)
{
    if (!isfinite(rotvec_rad[0] + rotvec_rad[1] + rotvec_rad[2]))
        return 0;
    const double half = 0.5 * sqrt(dot3(rotvec_rad, rotvec_rad)), turns = half / PI;
    const double angle = PI * (turns == 0.0 ? 1e-20 : turns), scale = 0.5 * (sin(angle) / angle);
    for (int i = 0; i < 3; i++)
        q[i] = rotvec_rad[i] * scale;
    q[3] = cos(half);
    return 1;
}

/* Read a segment behind its id; returns whether it is a pose. */
static int read_pose(const uint8_t *at, int light, const VilViconBinding *binding, double *pose)
{
    double numbers[12];
    int good = 1;
    if (light) {
        float streamed[6];
        memcpy(streamed, at, sizeof streamed);
        for (int i = 0; i < 6; i++)
            numbers[i] = streamed[i];
    } else {
        memcpy(numbers, at, sizeof numbers);
    }
    for (int i = 0; i < 3; i++) {
        pose[i] = numbers[i] * M_PER_MM;
        good &= fabs(pose[i]) <= binding->farthest_m; /* not for NaN */
    }
    if (!good)
        return 0;
    if (light)
        return q_from_rotvec(numbers + 3, pose + 3);
    return q_from_matrix(numbers + 3, binding->rotation_tolerance, pose + 3);
}

/* Turn a pose of axes with y up into one with z up. */
static void turn_up(double *pose)
{
    for (int i = 0; i < 6; i += 3) {
        const double y = pose[i + 1];
        pose[i + 1] = -pose[i + 2];
        pose[i + 2] = y;
    }
}

/* Convert a body's segments; returns the number of the frame's next segment, or OTHER_LAYOUT. */
static int64_t take(const uint8_t *body, uint32_t size, int64_t next, int light,
                    VilViconBinding *binding)
{
    const int64_t stride = light ? LIGHT_SEGMENT : SEGMENT;
    if (size < HEAD)
        return OTHER_LAYOUT;
    const uint32_t subject = u32_at(body);
    const int64_t count = u32_at(body + 4);
    if (count > binding->segments - next || HEAD + count * stride > (int64_t)size)
        return OTHER_LAYOUT;
    for (const uint8_t *at = body + HEAD; at < body + HEAD + count * stride; at += stride, next++) {
        if (binding->keys[2 * next] != subject || binding->keys[2 * next + 1] != u32_at(at))
            return OTHER_LAYOUT;
        const int32_t row = binding->slots[next];
        double pose[7];
        if (row < 0)
            continue;
        if (read_pose(at + 4, light, binding, pose)) {
            memcpy(binding->pose + 7 * (int64_t)row, pose, sizeof pose);
            binding->tracked[row] = 1;
        } else {
            binding->invalid++;
        }
    }
    return next;
}

/* Convert the bodies of a frame's segment blocks into the arrays of a binding; sizes: of each body
 * (u32).
 *
 * Returns 0, or -1 where the frame has another layout than the binding or is malformed; the arrays
 * mean nothing then.
 */
int vil_vicon_segments(const uint8_t *bodies, const uint8_t *sizes, int64_t count, int light,
                       VilViconBinding *binding)
{
    int64_t next = 0;
    binding->invalid = 0;
    for (int64_t row = 0; row < binding->rows_out; row++)
        no_pose(binding->pose + 7 * row);
    memset(binding->tracked, 0, (size_t)binding->rows_out);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t size = u32_at(sizes + 4 * i);
        next = take(bodies, size, next, light, binding);
        if (next == OTHER_LAYOUT)
            return -1;
        bodies += size;
    }
    if (next != binding->segments)
        return -1;
    if (light)
        chain(binding->rows_out, binding->parents, binding->pose, binding->tracked);
    for (int64_t row = 0; row < binding->rows_out && binding->y_up; row++)
        turn_up(binding->pose + 7 * row);
    return 0;
}
