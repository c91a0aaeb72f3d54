/* Rows of poses: position (3) and attitude (x, y, z, w), and whether each is tracked. */
#ifndef VIL_POSES_H
#define VIL_POSES_H

#include "algebra.h"

#include <stdint.h>
#include <string.h>

/* The pose of a body that is not tracked. */
static inline void no_pose(double *pose)
{
    memset(pose, 0, 6 * sizeof *pose);
    pose[6] = 1.0;
}

/* Turn bones relative to their parents into bones of the room, parents first; a parent of -1 marks
 * a root. */
static inline void chain(int64_t rows, const int32_t *parents, double *poses, uint8_t *tracked)
{
    for (int64_t row = 0; row < rows; row++) {
        if (parents[row] < 0)
            continue;
        double *pose = poses + 7 * row, R[9], turned[3];
        const double *above = poses + 7 * (int64_t)parents[row];
        q_to_matrix(above + 3, R);
        m_apply(R, pose, turned);
        for (int i = 0; i < 3; i++)
            pose[i] = above[i] + turned[i];
        q_mul(above + 3, pose + 3, pose + 3);
        tracked[row] &= tracked[parents[row]];
    }
}

#endif
