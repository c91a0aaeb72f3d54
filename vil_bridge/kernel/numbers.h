/* Numbers as text, see numbers.c. */
#ifndef VIL_NUMBERS_H
#define VIL_NUMBERS_H

#include <stdint.h>

/* A pose message of one form; _Template of compiled_writer.py makes it.
 *
 * poses: rows (7) of bodies, then of cameras, which times their turn (7, 7) are the renderer's.
 * indices: of the gaps into values, all of these numbers.
 */
typedef struct {
    int64_t bodies, cameras, gaps, capacity;
    const double *body_turn, *camera_turn, *poses;
    const int32_t *indices;
    double *values;
    char *out;
} VilPoseText;

int64_t vil_fill_numbers(const char *text, int64_t size, const int32_t *indices, int64_t count,
                         const double *values, char *out, int64_t capacity);
int64_t vil_write_poses(const VilPoseText *t, const char *text, int64_t size);

#endif
