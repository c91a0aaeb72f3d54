/* Tracks of rigid actors: frames in, poses at any instant out; the twin of world/tracks.py, names
 * as there. */
#include "tracks.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

#define LEAST_REPEATS 3
#define SLACK_M 0.05
#define SLACK_RAD 0.2
#define UNIT_TOLERANCE 1e-3
#define PI 3.14159265358979323846

/* Return 1 when a body can have moved between two poses within a time, and the second is a pose. */
static int reachable(double dt_s, const double *pose, const double *before, double max_mps,
                     double max_radps)
{
    double product = 0.0, norm2 = 0.0, step2_m2 = 0.0;
    for (int i = 0; i < 3; i++)
        step2_m2 += (pose[i] - before[i]) * (pose[i] - before[i]);
    for (int i = 3; i < 7; i++)
        product += pose[i] * before[i], norm2 += pose[i] * pose[i];
    const double reach_m = max_mps * dt_s + SLACK_M,
                 half_turn_rad = 0.5 * fmin(max_radps * dt_s + SLACK_RAD, PI);
    return step2_m2 <= reach_m * reach_m && fabs(product) >= cos(half_turn_rad)
           && fabs(norm2 - 1.0) < UNIT_TOLERANCE;
}

/* Return a change of any number of a pose within which every pose can be reached. */
double vil_reachable_step(double dt_s, double max_mps, double max_radps)
{
    const double chord = 2.0 * sin(0.25 * fmin(max_radps * dt_s + SLACK_RAD, PI));
    return fmin((max_mps * dt_s + SLACK_M) / sqrt(3.0), 0.5 * chord);
}

void vil_pose_to_world(const VilRoom *room, const double *in, double *pose)
{
    const double *turn = room->turn, *p_m = in, *q_xyzw = in + 3;
    memcpy(pose, in, sizeof(double[7]));
    if (room->is_world)
        return;
    for (int c = 0; c < 3; c++)
        pose[c] = p_m[0] * turn[c] + p_m[1] * turn[7 + c] + p_m[2] * turn[14 + c] + room->shift[c];
    for (int c = 3; c < 7; c++)
        pose[c] = q_xyzw[0] * turn[21 + c] + q_xyzw[1] * turn[28 + c] + q_xyzw[2] * turn[35 + c]
                  + q_xyzw[3] * turn[42 + c];
}

static void to_world(const VilFrame *f, const double *in, int64_t i)
{
    double *pose = f->poses + 7 * i;
    vil_pose_to_world(f->room, in + 7 * f->columns[i], pose);
    if (f->markers_turned) {
        const double *marker = f->markers + 7 * i;
        double R[9], moved[3];
        q_to_matrix(pose + 3, R);
        m_apply(R, marker, moved);
        for (int c = 0; c < 3; c++)
            pose[c] += moved[c];
        q_mul(pose + 3, marker + 3, pose + 3);
    }
}

/* Compute the poses in the world of rows in their room. */
void vil_frame_to_world(const VilFrame *f, const double *in)
{
    for (int64_t i = 0; i < f->count; i++)
        to_world(f, in, i);
}

/* Return 1 when all bodies were seen, later than before, and nearer than the slowest could move. */
static int is_plain(const VilBank *b, const VilFrame *f, const uint8_t *seen, int64_t t_ns)
{
    int64_t newest_ns = INT64_MIN;
    for (int64_t i = 0; i < f->count; i++) {
        if (!seen[f->columns[i]])
            return 0;
        if (b->gate_ns[f->rows[i]] > newest_ns)
            newest_ns = b->gate_ns[f->rows[i]];
    }
    if (t_ns <= newest_ns)
        return 0;
    const double most =
        vil_reachable_step(1e-9 * (double)(t_ns - newest_ns), b->slowest_mps, b->slowest_radps);
    for (int64_t i = 0; i < f->count; i++)
        for (int c = 0; c < 7; c++)
            if (!(fabs(f->poses[7 * i + c] - b->newest[7 * f->rows[i] + c]) <= most))
                return 0;
    return 1;
}

/* Return 1 when every body that was seen later than before can be where it was seen. */
static int is_possible(const VilBank *b, const VilFrame *f, const uint8_t *seen, int64_t t_ns)
{
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t row = f->rows[i], dt_ns = t_ns - b->gate_ns[row];
        if (seen[f->columns[i]] && dt_ns > 0
            && !reachable(1e-9 * (double)dt_ns, f->poses + 7 * i, b->newest + 7 * row,
                          b->max_speed_mps[row], b->max_rate_radps[row]))
            return 0;
    }
    return 1;
}

static int64_t slot_of(const VilBank *b, int64_t row, int64_t number)
{
    return number % b->capacity * b->rows + row;
}

/* Filter the samples of a row that are not filtered yet. */
static void advance(const VilBank *b, const VilFilter *filter, int64_t row)
{
    for (; b->done[row] < b->count[row]; b->done[row]++) {
        const int64_t slot = slot_of(b, row, b->done[row]);
        const double *pose = b->poses + 7 * slot;
        double *before = b->filtered + 7 * row, back[4], turn[4], value[6];
        q_conj(before + 3, back);
        q_mul(back, pose + 3, turn);
        const double sign = copysign(2.0, turn[3]);
        for (int i = 0; i < 3; i++)
            turn[i] *= sign;
        const double third = 1.0 + dot3(turn, turn) / 24.0; /* exact to the third order */
        for (int i = 0; i < 3; i++) {
            b->turned_rad[i * b->rows + row] += turn[i] * third;
            value[i] = pose[i], value[3 + i] = b->turned_rad[i * b->rows + row];
        }
        memcpy(before, pose, sizeof(double[7]));
        vil_filter_add(filter, row, later(b->t[slot], b->moved_ns[row]), value);
    }
}

static void account_repeat(const VilBank *b, int64_t row, const double *pose, int64_t t_arrival_ns)
{
    int same = b->t_arrival_ns[row] >= 0;
    for (int c = 0; c < 7; c++)
        same &= pose[c] == b->newest[7 * row + c];
    if (b->repeats[row] == 0)
        b->repeats_first_ns[row] = b->t_arrival_ns[row];
    b->repeats[row] = same ? b->repeats[row] + 1 : 0;
    b->repeats_newest_ns[row] = t_arrival_ns;
}

static void store(const VilBank *b, int64_t row, const double *pose, int64_t t_ns,
                  int64_t t_arrival_ns)
{
    const int64_t slot = slot_of(b, row, b->count[row]);
    b->t[slot] = t_ns - b->moved_ns[row];
    memcpy(b->poses + 7 * slot, pose, sizeof(double[7]));
    if (b->noisy)
        account_repeat(b, row, pose, t_arrival_ns);
    memcpy(b->newest + 7 * row, pose, sizeof(double[7]));
    b->count[row] += 1;
    b->t_capture_ns[row] = b->gate_ns[row] = t_ns;
    b->t_arrival_ns[row] = t_arrival_ns;
}

/* Store a frame whose poses are in the world: flags and the number of samples out of order, or
 * VIL_BODIES_REFUSED and nothing done when a body seems to be where it cannot be. */
int64_t vil_bank_append(const VilBank *b, const VilFilter *filter, const VilFrame *f,
                        const uint8_t *all_seen, int64_t t_ns, int64_t t_arrival_ns)
{
    int64_t found = 0;
    if (!is_plain(b, f, all_seen, t_ns) && !is_possible(b, f, all_seen, t_ns))
        return VIL_BODIES_REFUSED;
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t row = f->rows[i];
        const uint8_t seen = all_seen[f->columns[i]] != 0;
        if (b->tracked[row] != seen)
            found |= VIL_CHANGED;
        b->tracked[row] = seen;
        if (!seen)
            continue;
        if (t_ns <= b->gate_ns[row]) {
            found += VIL_OUT_OF_ORDER;
            continue;
        }
        store(b, row, f->poses + 7 * i, t_ns, t_arrival_ns);
        advance(b, filter, row);
        found |= VIL_STORED;
    }
    return found;
}

void vil_bank_advance(const VilBank *b, const VilFilter *filter)
{
    for (int64_t row = 0; row < b->rows; row++)
        advance(b, filter, row);
}

/* Return 1 when all rows were seen lately and none repeats its poses. */
int vil_bank_sure(const VilBank *b, int64_t t_ns)
{
    int sure = 1;
    for (int64_t row = 0; row < b->rows; row++)
        sure &= b->tracked[row] && b->t_arrival_ns[row] >= 0
                && b->t_arrival_ns[row] >= t_ns - b->coast_ns[row]
                && b->repeats[row] < LEAST_REPEATS;
    return sure;
}

/* Move the capture times of some rows: the clock that they come from is known better now. */
void vil_bank_shift(const VilBank *b, const VilFilter *filter, const int64_t *rows, int64_t count,
                    int64_t by_ns)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = rows[i];
        if (b->t_capture_ns[row] < 0)
            continue;
        b->moved_ns[row] = later(b->moved_ns[row], by_ns);
        b->t_capture_ns[row] = later(b->t_capture_ns[row], by_ns);
        b->gate_ns[row] = later(b->gate_ns[row], by_ns);
        vil_filter_shift(filter, row, by_ns);
    }
}

/* Interpolate a row at a past instant; returns 0 outside its history. */
static int interpolate(const VilBank *b, int64_t row, int64_t t_ns, double *pose)
{
    const int64_t count = b->count[row], oldest = count > b->capacity ? count - b->capacity : 0;
    t_ns -= b->moved_ns[row];
    int64_t low = oldest, high = count; /* the first that is not before the instant */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (b->t[slot_of(b, row, middle)] < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    const int64_t then = slot_of(b, row, low),
                  first = slot_of(b, row, low > oldest ? low - 1 : oldest);
    if (low >= count || (low == oldest && b->t[then] != t_ns))
        return 0;
    const double span_ns = (double)(b->t[then] - b->t[first]),
                 passed_ns = (double)(t_ns - b->t[first]);
    const double fraction = span_ns != 0.0 ? passed_ns / span_ns : 0.0;
    const double *before = b->poses + 7 * first, *after = b->poses + 7 * then;
    for (int i = 0; i < 3; i++)
        pose[i] = before[i] + fraction * (after[i] - before[i]);
    q_slerp(before + 3, after + 3, fraction, pose + 3);
    return 1;
}

static void extrapolate(const VilBank *b, const VilFilter *filter, int64_t row, double lead_s,
                        double *pose)
{
    double value[6], turn[3], q[4];
    vil_filter_ahead(filter, row, lead_s, value);
    for (int i = 0; i < 3; i++)
        pose[i] = value[i], turn[i] = value[3 + i] - b->turned_rad[i * b->rows + row];
    q_exp(turn, q);
    q_mul(b->filtered + 7 * row + 3, q, pose + 3);
}

/* Poses (rows, 7) at an instant: as measured in the past, else carried on, by no more than the
 * limit. */
void vil_bank_poses(const VilBank *b, const VilFilter *filter, int64_t t_ns, double *poses)
{
    for (int64_t row = 0; row < b->rows; row++) {
        const int64_t t_capture_ns = b->t_capture_ns[row], limit_ns = b->limit_ns[row];
        if (t_ns <= t_capture_ns && interpolate(b, row, t_ns, poses + 7 * row))
            continue;
        int64_t lead_ns = t_capture_ns < 0 ? 0 : t_ns - t_capture_ns;
        lead_ns = lead_ns > limit_ns ? limit_ns : lead_ns < -limit_ns ? -limit_ns : lead_ns;
        extrapolate(b, filter, row, 1e-9 * (double)lead_ns, poses + 7 * row);
    }
}
