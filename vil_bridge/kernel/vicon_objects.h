/* Conversion of Tracker's UDP object stream, see vicon_objects.c. */
#ifndef VIL_VICON_OBJECTS_H
#define VIL_VICON_OBJECTS_H

#include "poses.h"

enum { VIL_OBJECT_NAME = 24, VIL_OBJECT = 72 };

/* Meaning of the objects of datagrams with the same names.
 *
 * names: of each object in turn, as streamed. rows: its row among the rows_out of the result, -1
 * for none. last: bytes of each row's object in the datagram before; times: how often they came, 0
 * for never. invalid: objects so far that were no pose: not finite, too far away, or of impossible
 * angles.
 */
typedef struct {
    int64_t objects, rows_out, repeats, invalid;
    const uint8_t *names;
    const int32_t *rows;
    uint8_t *last;
    int64_t *times;
    double *pose;
    uint8_t *tracked;
    double farthest_m, largest_rad;
} VilObjectsBinding;

int vil_vicon_objects_scan(const uint8_t *datagram, int64_t size);
int vil_vicon_objects(const uint8_t *datagram, int64_t size, VilObjectsBinding *binding);

#endif
