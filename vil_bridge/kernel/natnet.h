/* Conversion of NatNet frames, see natnet.c. */
#ifndef VIL_NATNET_H
#define VIL_NATNET_H

#include "poses.h"

#include <stdint.h>

/* Meaning of the records of frames of one layout.
 *
 * layout: number of bodies and their ids, number of assets, and of each its id, its number of
 * bodies and their ids, number of skeletons, and of each the same. A record's row: that of its pose
 * (7) and flag among the rows_out of the result, -1 for none. absent: rows without a record.
 * parents: row of the pose that a row is relative to, -1 for none. axis, factor: entry of a
 * streamed pose that becomes one of the room, and its factor.
 */
typedef struct {
    int64_t words, rows_out, absent_count, has_local;
    const int32_t *layout, *rows, *absent, *parents;
    double *pose;
    uint8_t *tracked;
    int64_t nonfinite, implausible;
    double farthest_m, factor[7];
    int32_t axis[7];
} VilNatNetBinding;

int vil_natnet_scan(const uint8_t *datagram, int64_t size, int sized);
int vil_natnet_convert(const uint8_t *datagram, int64_t size, int sized, VilNatNetBinding *binding);

#endif
