/* vil_clock_stamp on any clock. Input: the clock, then records of a stamp, its arrival and its
 * latency (i64 each). */
#include "clock.h"

#include "harness.h"

#include <string.h>

void fuzz_clock(Blob context, Blob input)
{
    VilClock clock;
    int64_t record[3];
    (void)context;
    if (input.size < sizeof clock)
        return;
    memcpy(&clock, input.bytes, sizeof clock);
    for (size_t at = sizeof clock; at + sizeof record <= input.size; at += sizeof record) {
        memcpy(record, input.bytes + at, sizeof record);
        vil_clock_stamp(&clock, record[0], record[1], record[2]);
    }
}
