/* A source's frame into all of its tracks in one call. */
#include "tracks.h"

#include <stddef.h>

/* Store a frame: a block of poses (rows, 7) in its room and of what was seen (rows,); bodies first,
 * then skeletons.
 *
 * Returns the flags and the number of vil_bank_append, and VIL_SKELETONS_REFUSED.
 */
int64_t vil_frame_store_add(const VilFrameStore *s, const uint8_t *block, int64_t t_ns,
                            int64_t t_arrival_ns)
{
    const double *poses = (const double *)(const void *)block;
    const uint8_t *seen = block + sizeof(double[7]) * (size_t)s->rows;
    int64_t found = 0;
    for (int64_t i = 0; i < s->skeletons; i++) {
        const int64_t first = s->first_rows[i];
        s->refused[i] = !vil_skeleton_store(s->tracks[i], s->bodies->room, poses + 7 * first,
                                            seen + first, t_ns, t_arrival_ns);
        if (s->refused[i])
            found = VIL_SKELETONS_REFUSED;
    }
    if (s->bodies->count == 0)
        return found;
    vil_frame_to_world(s->bodies, poses);
    return found | vil_bank_append(s->bank, s->filter, s->bodies, seen, t_ns, t_arrival_ns);
}
