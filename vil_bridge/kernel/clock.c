/* Usual stamps of a foreign clock; the twin of ClockModel.add_stamp in world/clock_sync.py and of
 * World._capture_ns. */
#include "clock.h"

#include <math.h>

#define NS_PER_S 1000000000
#define LARGEST_CORRECTION_NS 4e18

/* Subtract; returns 1 where 64 bits do not hold the difference. */
static int differ(int64_t a, int64_t b, int64_t *difference)
{
    return __builtin_sub_overflow(a, b, difference);
}

/* Return 1 when a stamp is one that changes nothing but the newest second's count and sum. */
static int is_usual(const VilClock *c, int64_t t_sent_ns, int64_t offset_ns, int64_t *under_ns)
{
    int64_t since_ns, over_ns, passed_ns;
    if (differ(t_sent_ns, c->second_start_ns, &since_ns)
        || differ(offset_ns, c->second_offset_ns, under_ns)
        || differ(offset_ns, c->fit_offset_ns, &over_ns)
        || differ(t_sent_ns, c->fit_ref_ns, &passed_ns))
        return 0;
    const double over = (double)over_ns - c->fit_drift * (double)passed_ns;
    return since_ns < NS_PER_S && *under_ns <= 0 && over <= c->most_over_ns
           && over >= c->least_over_ns;
}

/* Find the bridge time of a stamp by the line; returns 0 where 64 bits do not hold it. */
static int to_bridge(const VilClock *c, int64_t t_foreign_ns, int64_t *t_ns)
{
    int64_t guess_ns, passed_ns, offset_ns;
    if (differ(t_foreign_ns, c->line_offset_ns, &guess_ns)
        || differ(guess_ns, c->line_ref_ns, &passed_ns))
        return 0;
    const double moved_ns = c->line_drift * (double)passed_ns;
    return fabs(moved_ns) < LARGEST_CORRECTION_NS
           && !__builtin_add_overflow(c->line_offset_ns, (int64_t)llrint(moved_ns), &offset_ns)
           && !differ(t_foreign_ns, offset_ns, t_ns);
}

/* Account a usual stamp and return its bridge time, at most oldest_ns before its arrival; returns
 * -1 and does nothing where the twin has to judge. */
int64_t vil_clock_stamp(VilClock *c, int64_t t_foreign_ns, int64_t t_arrival_ns, int64_t latency_ns)
{
    int64_t t_sent_ns, offset_ns, under_ns, oldest_ns, sum_ns, t_ns;
    if (!c->ready || t_arrival_ns < 0 || differ(t_arrival_ns, latency_ns, &t_sent_ns)
        || differ(t_foreign_ns, t_sent_ns, &offset_ns)
        || !is_usual(c, t_sent_ns, offset_ns, &under_ns)
        || differ(t_arrival_ns, c->oldest_ns, &oldest_ns) || !to_bridge(c, t_foreign_ns, &t_ns)
        || __builtin_add_overflow(c->sum_ns, under_ns, &sum_ns))
        return -1;
    t_ns = t_ns < oldest_ns ? oldest_ns : t_ns > t_arrival_ns ? t_arrival_ns : t_ns;
    if (t_ns < 0)
        return -1;
    c->sum_ns = sum_ns;
    c->count += 1;
    return t_ns;
}
