/* Conversion of Vicon's segments, see vicon.c. */
#ifndef VIL_VICON_H
#define VIL_VICON_H

#include "poses.h"

/* Meaning of the segments of frames of one layout.
 *
 * keys: subject and id of each segment. slots: its row among the rows_out of the result, -1 for
 * none. parents: of lightweight segments, row of the pose that a row is relative to, -1 for none.
 * invalid: segments with a row whose pose is none: not finite, too far away, or no rotation.
 */
typedef struct {
    int64_t segments, rows_out, y_up;
    const uint32_t *keys;
    const int32_t *slots, *parents;
    double *pose;
    uint8_t *tracked;
    int64_t invalid;
    double farthest_m, rotation_tolerance;
} VilViconBinding;

int vil_vicon_segments(const uint8_t *bodies, const uint8_t *sizes, int64_t count, int light,
                       VilViconBinding *binding);

#endif
