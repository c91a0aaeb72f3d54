/* A foreign clock, see clock.c. */
#ifndef VIL_CLOCK_H
#define VIL_CLOCK_H

#include <stdint.h>

/* What the twin knows of the clock, and what has come since.
 *
 * ready: the rest is true. line: of ClockLine. fit: of Envelope; a usual stamp lies from
 * least_over_ns to most_over_ns beyond it. second: start and largest offset of the newest one.
 * count, sum_ns: stamps since the twin looked, and the sum of their offsets less the largest.
 */
typedef struct {
    int64_t ready, oldest_ns;
    int64_t line_ref_ns, line_offset_ns;
    double line_drift;
    int64_t fit_ref_ns, fit_offset_ns;
    double fit_drift, most_over_ns, least_over_ns;
    int64_t second_start_ns, second_offset_ns;
    int64_t count, sum_ns;
} VilClock;

int64_t vil_clock_stamp(VilClock *clock, int64_t t_foreign_ns, int64_t t_arrival_ns,
                        int64_t latency_ns);

#endif
