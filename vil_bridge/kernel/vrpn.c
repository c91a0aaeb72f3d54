/* Poses of VRPN trackers: which are tracked, and when they make a frame.
 *
 * Twin of adapters/vil_adapters/vrpn/tracker_table.py and of the codec of
 * vil_bridge/protocols/vrpn, which explain rules and layout and are the oracle of the tests. Bytes
 * that are no plain pose of a bound tracker are left to them.
 */
#include "vrpn.h"

#include <math.h>

enum {
    MESSAGE = 88,
    PAYLOAD = 24,
    POSE = PAYLOAD + 8,
    REPEATS = 5,
    LOST_PERIODS = 3,
    UNKNOWN = -1
};

static const int64_t JUMP_NS = 1000000000, SILENT_NS = 100000000, NS_PER_S = 1000000000;
static const double PERIOD_SHARE = 0.1, LONGEST_GAP = 4.0, LEAST_NORM = 0.9, LARGEST_NORM = 1.1;

static uint32_t u32_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static double f64_at(const uint8_t *at)
{
    const uint64_t bits = (uint64_t)u32_at(at) << 32 | u32_at(at + 4);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whether a stamp continued as the arrivals did, or a second one confirms it: one may be
 * garbage. */
static int is_plausible(VilVrpnTable *table, int64_t row, int64_t t_ns, int64_t t_arrival_ns)
{
    const int64_t drift_ns = t_ns - table->t_ns[row] - (t_arrival_ns - table->t_arrival_ns[row]);
    if (drift_ns >= -JUMP_NS && drift_ns <= JUMP_NS) {
        table->has_suspect = 0;
        return 1;
    }
    const int64_t ahead_ns = t_ns - t_arrival_ns, change_ns = ahead_ns - table->suspect_ns;
    const int confirmed = table->has_suspect && change_ns >= -JUMP_NS && change_ns <= JUMP_NS;
    table->has_suspect = 1;
    table->suspect_ns = ahead_ns;
    return confirmed;
}

static int is_usable(const VilVrpnTable *table, const double *pose)
{
    const double *q = pose + 3;
    const double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    int usable =
        norm > LEAST_NORM && norm < LARGEST_NORM; /* not a single comparison holds for NaN */
    for (int i = 0; i < 3; i++)
        usable &= fabs(pose[i]) * table->scale_m < table->farthest_m;
    return usable;
}

/* Follow a tracker with one more pose: how often it was the same, how long its period is. */
static void follow(VilVrpnTable *table, int64_t row, const double *pose, int64_t t_ns,
                   int64_t t_arrival_ns)
{
    double *before = table->pose + 7 * row;
    int same = 1; /* the first pose is compared with NaN */
    for (int i = 0; i < 7; i++)
        same &= pose[i] == before[i];
    table->repeats[row] = same ? table->repeats[row] + 1 : 0;
    if (table->t_ns[row] != UNKNOWN) {
        double gap_ns = (double)(t_ns - table->t_ns[row]);
        if (table->period_ns[row] != 0.0) {
            gap_ns = fmin(gap_ns, LONGEST_GAP * table->period_ns[row]) - table->period_ns[row];
            gap_ns *= PERIOD_SHARE;
        }
        table->period_ns[row] += gap_ns;
    }
    memcpy(before, pose, 7 * sizeof *pose);
    table->t_ns[row] = t_ns;
    table->t_arrival_ns[row] = t_arrival_ns;
    table->messages[row]++;
}

/* Add the shown pose of a tracker to the group of its stamp. */
static void add_entry(VilVrpnTable *table, int64_t row, int64_t t_ns, int64_t t_arrival_ns)
{
    if (table->groups == 0 || table->group_t_ns[table->groups - 1] != t_ns) {
        table->group_t_ns[table->groups] = t_ns;
        table->group_arrival_ns[table->groups] = t_arrival_ns;
        table->group_start[table->groups++] = table->entries;
    }
    memcpy(table->entry_pose + 7 * table->entries, table->shown + 7 * row, 7 * sizeof(double));
    table->entry_row[table->entries] = (int32_t)row;
    table->entry_tracked[table->entries++] = table->tracked[row];
}

/* Judge one pose (7) of a tracker; there is room for one more entry. */
int vil_vrpn_judge(VilVrpnTable *table, int64_t row, const double *pose, int64_t t_ns,
                   int64_t t_arrival_ns)
{
    const int64_t before_ns = table->t_ns[row];
    if (before_ns != UNKNOWN) {
        if (t_ns == before_ns)
            return DUPLICATE;
        if (!is_plausible(table, row, t_ns, t_arrival_ns))
            return IMPLAUSIBLE_STAMP;
        if (t_ns < before_ns
            || t_ns - before_ns - (t_arrival_ns - table->t_arrival_ns[row]) > JUMP_NS)
            return CLOCK_JUMPED;
    }
    int zero = 1;
    for (int i = 0; i < 6; i++)
        zero &= pose[i] == 0.0;
    const int good = is_usable(table, pose);
    follow(table, row, pose, t_ns, t_arrival_ns);
    const int stale = table->repeats_mean_lost && table->repeats[row] > REPEATS;
    table->repeated += stale;
    table->tracked[row] = good && !zero && !stale;
    if (table->tracked[row])
        memcpy(table->shown + 7 * row, pose, 7 * sizeof *pose);
    add_entry(table, row, t_ns, t_arrival_ns);
    return good || zero ? ACCEPTED : UNUSABLE;
}

/* Index of a bound sender and sensor, looked for from where the last one was; the number bound
 * where there is none. */
static int64_t bound_at(const VilVrpnTable *table, int64_t start, int32_t sender, int32_t sensor)
{
    for (int64_t i = 0; i < table->bound; i++) {
        const int64_t at = start + i < table->bound ? start + i : start + i - table->bound;
        if (table->bound_sender[at] == sender && table->bound_sensor[at] == sensor)
            return at;
    }
    return table->bound;
}

/* Judge the messages from an offset on while they are plain poses of bound trackers whose clock
 * went on.
 *
 * Returns the offset of the first message that is not, or is not complete.
 */
int64_t vil_vrpn_read(VilVrpnTable *table, const uint8_t *data, int64_t size, int64_t at,
                      int64_t t_arrival_ns)
{
    for (int64_t next = 0; size - at >= MESSAGE && table->entries < table->most_entries;
         at += MESSAGE) {
        const uint8_t *message = data + at;
        const uint32_t microseconds = u32_at(message + 8), sensor = u32_at(message + PAYLOAD);
        if (u32_at(message) != MESSAGE || microseconds >= 1000000u
            || (int32_t)u32_at(message + 16) != table->pose_type)
            break;
        next = bound_at(table, next, (int32_t)u32_at(message + 12), (int32_t)sensor);
        if (next == table->bound)
            break;
        const int32_t row = table->bound_row[next++];
        if (next == table->bound)
            next = 0;
        if (row == BOUND_UNWANTED) {
            table->unwanted++;
            continue;
        }
        const int64_t t_ns = (int64_t)u32_at(message + 4) * NS_PER_S + (int64_t)microseconds * 1000;
        double pose[7];
        for (int i = 0; i < 7; i++)
            pose[i] = f64_at(message + POSE + 8 * i);
        const int verdict = vil_vrpn_judge(table, row, pose, t_ns, t_arrival_ns);
        if (verdict == CLOCK_JUMPED)
            break;
        table->duplicates += verdict == DUPLICATE;
        table->unusable += verdict == UNUSABLE;
        table->implausible_stamps += verdict == IMPLAUSIBLE_STAMP;
    }
    return at;
}

static int64_t group_end(const VilVrpnTable *table, int64_t group)
{
    return group + 1 < table->groups ? table->group_start[group + 1] : table->entries;
}

/* Mark the groups that make a frame: those with a body that no newer one has. Returns the number of
 * groups. */
int64_t vil_vrpn_select(VilVrpnTable *table)
{
    memset(table->covered, 0, (size_t)table->trackers);
    for (int64_t group = table->groups - 1; group >= 0; group--) {
        table->group_used[group] = 0;
        for (int64_t i = table->group_start[group]; i < group_end(table, group); i++) {
            table->group_used[group] |= !table->covered[table->entry_row[i]];
            table->covered[table->entry_row[i]] = 1;
        }
        table->superseded += !table->group_used[group];
    }
    return table->groups;
}

/* Write a row of the frame in room axes and metres. */
static void put(VilVrpnTable *table, int64_t at, int64_t row, const double *pose, uint8_t tracked)
{
    double *out = table->frame_pose + 7 * at;
    for (int i = 0; i < 3; i++)
        out[i] = pose[i] * table->scale_m;
    memcpy(out + 3, pose + 3, 4 * sizeof *out);
    q_normalize(out + 3);
    for (int i = 0; i < 6 && table->y_up; i += 3) {
        const double y = out[i + 1];
        out[i + 1] = -out[i + 2];
        out[i + 2] = y;
    }
    table->frame_row[at] = (int32_t)row;
    table->frame_tracked[at] = tracked;
}

/* Make the frame of a group, or of -1 the one without poses: the group's bodies and the lost ones.
 * Returns its rows. */
int64_t vil_vrpn_frame(VilVrpnTable *table, int64_t group)
{
    int64_t rows = 0;
    memset(table->covered, 0, (size_t)table->trackers);
    if (group >= 0) {
        for (int64_t row = 0; row < table->trackers; row++) {
            const double limit_ns = LOST_PERIODS * table->period_ns[row];
            if (limit_ns != 0.0 && (double)(table->group_t_ns[group] - table->t_ns[row]) > limit_ns)
                table->tracked[row] = 0;
        }
        for (int64_t i = table->group_start[group]; i < group_end(table, group); i++)
            table->covered[table->entry_row[i]] = 1;
    }
    for (int64_t row = 0; row < table->trackers; row++)
        if (!table->covered[row] && !table->tracked[row])
            table->covered[row] = 2;
    int64_t entry = group >= 0 ? table->group_start[group] : 0;
    for (int64_t row = 0; row < table->trackers; row++) {
        if (table->covered[row] == 2)
            put(table, rows++, row, table->shown + 7 * row, 0);
        if (table->covered[row] != 1)
            continue;
        const int64_t start = table->group_start[group], end = group_end(table, group);
        for (int64_t left = end - start; table->entry_row[entry] != row && left > 0; left--)
            entry = entry + 1 < end ? entry + 1 : start;
        put(table, rows++, row, table->entry_pose + 7 * entry, table->entry_tracked[entry]);
    }
    return rows;
}

/* Mark the trackers as lost that have fallen silent; returns whether one has. */
int vil_vrpn_silent(VilVrpnTable *table, int64_t t_now_ns)
{
    int newly_lost = 0;
    for (int64_t row = 0; row < table->trackers; row++) {
        const double limit_ns = fmax((double)SILENT_NS, LOST_PERIODS * table->period_ns[row]);
        if (table->tracked[row] && (double)(t_now_ns - table->t_arrival_ns[row]) > limit_ns) {
            table->tracked[row] = 0;
            newly_lost = 1;
        }
    }
    return newly_lost;
}
