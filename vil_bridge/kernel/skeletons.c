/* Tracks of skeletons; the twin of world/skeleton_tracks.py, names as there. */
#include <math.h>
#include <string.h>

#include "algebra.h"
#include "tracks.h"

#define SANE 1e5
#define TWIST_WINDOW_NS 50000000

/* Return 1 when all bones were seen, later than before, and the hips are where they were, or
 * near. */
static int is_plain(const VilSkeleton *s, const uint8_t *tracked, int64_t t_ns)
{
    double sum = 0.0;
    if (s->stamps->suspected || s->bones == 0 || t_ns <= s->stamps->t_capture_ns)
        return 0;
    for (int64_t i = 0; i < 7 * s->bones; i++)
        sum += s->world[i] * s->world[i];
    for (int64_t i = 0; i < s->bones; i++)
        if (!tracked[i])
            return 0;
    if (!(sum < SANE * SANE))
        return 0;
    if (*s->count == 0)
        return 1;
    const double *before =
        s->poses + 7 * (((*s->count - 1) % s->capacity) * s->bones + s->place_bone);
    const double most = vil_reachable_step(1e-9 * (double)(t_ns - s->stamps->t_capture_ns),
                                           s->max_mps, s->max_radps);
    for (int c = 0; c < 7; c++)
        if (!(fabs(s->world[7 * s->place_bone + c] - before[c]) <= most))
            return 0;
    return 1;
}

static void account_repeat(const VilSkeleton *s, int64_t t_arrival_ns)
{
    const int64_t t_before_ns = s->stamps->t_arrival_ns;
    int same = *s->count > 0 && t_before_ns >= 0;
    if (same) {
        const double *before =
            s->poses + 7 * (((*s->count - 1) % s->capacity) * s->bones + s->place_bone);
        for (int c = 0; c < 7; c++)
            same &= s->world[7 * s->place_bone + c] == before[c];
    }
    if (*s->repeats == 0)
        *s->repeats_first_ns = t_before_ns;
    *s->repeats = same ? *s->repeats + 1 : 0;
    *s->repeats_newest_ns = t_arrival_ns;
}

/* Bring a frame to the world and store it; 0 and nothing stored when it needs a closer look. */
int vil_skeleton_store(const VilSkeleton *s, const VilRoom *room, const double *in,
                       const uint8_t *seen, int64_t t_ns, int64_t t_arrival_ns)
{
    for (int64_t i = 0; i < s->bones; i++)
        vil_pose_to_world(room, in + 7 * i, s->world + 7 * i);
    if (!is_plain(s, seen, t_ns))
        return 0;
    account_repeat(s, t_arrival_ns);
    const int64_t slot = *s->count % s->capacity;
    s->t[slot] = s->stamps->t_capture_ns = t_ns;
    memcpy(s->poses + 7 * slot * s->bones, s->world, sizeof(double) * 7 * (size_t)s->bones);
    memcpy(s->seen + slot * s->bones, seen, (size_t)s->bones);
    *s->count += 1;
    s->stamps->t_arrival_ns = t_arrival_ns;
    s->stamps->tracked = 1;
    return 1;
}

/* Find the samples that a time lies between, or the two from which it is extrapolated: slots. */
static void around(const VilSkeleton *s, int64_t t_ns, int64_t *older, int64_t *later)
{
    const int64_t count = *s->count, oldest = count > s->capacity ? count - s->capacity : 0;
    const int64_t newest_ns = s->t[(count - 1) % s->capacity];
    int64_t i = count - 1;
    if (t_ns >= newest_ns) {
        *later = i % s->capacity;
        while (i > oldest && newest_ns - s->t[i % s->capacity] < TWIST_WINDOW_NS)
            i--;
        *older = i % s->capacity;
        return;
    }
    while (i > oldest && s->t[(i - 1) % s->capacity] >= t_ns)
        i--;
    *later = i % s->capacity;
    *older = (i > oldest ? i - 1 : i) % s->capacity;
}

/* Poses of all bones at an instant, at most horizon_ns after the newest; returns 0 while there is
 * none. */
int vil_skeleton_at(const VilSkeleton *s, int64_t t_ns, int64_t horizon_ns)
{
    const int64_t count = *s->count;
    if (count == 0)
        return 0;
    const int64_t newest_ns = s->t[(count - 1) % s->capacity];
    if (t_ns > newest_ns + horizon_ns)
        t_ns = newest_ns + horizon_ns;
    int64_t older, later;
    around(s, t_ns, &older, &later);
    const double *before = s->poses + 7 * older * s->bones, *now = s->poses + 7 * later * s->bones;
    memcpy(s->world_seen, s->seen + later * s->bones, (size_t)s->bones);
    memcpy(s->world, now, sizeof(double) * 7 * (size_t)s->bones);
    if (s->t[later] == s->t[older])
        return 1;
    const double past_later = (double)(t_ns - s->t[later]) / (double)(s->t[later] - s->t[older]);
    for (int64_t i = 0; i < s->bones; i++) {
        const double *a = before + 7 * i, *b = now + 7 * i;
        double *pose = s->world + 7 * i, back[4], q[4], turn[3];
        q_conj(a + 3, back);
        q_mul(back, b + 3, q);
        q_log(q, turn);
        for (int c = 0; c < 3; c++) {
            pose[c] = b[c] + past_later * (b[c] - a[c]);
            turn[c] *= past_later;
        }
        q_exp(turn, q);
        q_mul(b + 3, q, pose + 3);
    }
    return 1;
}
