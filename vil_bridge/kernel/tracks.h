/* Memory of the tracks, which the modules of world/ allocate and view as arrays.
 *
 * Arrays of the filter have the rows (actors) last: state[(part * 2 + kind) * 3 + axis][row].
 */
#ifndef VIL_TRACKS_H
#define VIL_TRACKS_H

#include <stdint.h>

/* world/twist_filter.py and world/damping.py */
typedef struct {
    int64_t rows, columns; /* columns: of the table of gains */
    const double *steady, *first;
    int64_t *t_ns;
    double *state, *newest, *step_s;
    int64_t *age;
    double *variance, *log_jerk;
    int64_t *surprises;
    double *whitened;
    int64_t *learnt_ns;
    double *learnt, *unlearnt;
    int64_t *held_ns;
    double *held, *sums, *lag_s, *log_parts;
} VilFilter;

/* world/tracks.py */
typedef struct {
    int64_t rows, capacity, noisy;
    double slowest_mps, slowest_radps;
    int64_t *t, *moved_ns; /* a sample's time is the sum of both */
    double *poses;
    int64_t *count;
    double *newest;
    int64_t *gate_ns;
    const double *max_speed_mps, *max_rate_radps;
    const int64_t *limit_ns, *coast_ns;
    int64_t *t_capture_ns, *t_arrival_ns;
    uint8_t *tracked;
    int64_t *repeats, *repeats_first_ns, *repeats_newest_ns;
    int64_t *done;
    double *filtered, *turned_rad;
} VilBank;

/* world/frame_binding.py: a pose in the room, as a row, times turn (7, 7) plus shift (7,) is one in
 * the world. */
typedef struct {
    int64_t is_world;
    const double *turn, *shift;
} VilRoom;

/* world/frame_binding.py: columns of a source's frames and the rows that they feed. */
typedef struct {
    int64_t count, markers_turned;
    const VilRoom *room;
    const int64_t *columns, *rows;
    const double *markers; /* (count, 7): T_markers_body */
    double *poses;         /* (count, 7): the bodies in the world, out */
} VilFrame;

/* world/skeleton_tracks.py: newest frame whose hips were tracked; suspected: since then they are
 * where they cannot be. */
typedef struct {
    int64_t t_capture_ns, t_arrival_ns, tracked, suspected;
} VilStamps;

/* world/skeleton_tracks.py: one skeleton */
typedef struct {
    int64_t bones, capacity, place_bone;
    double max_mps, max_radps;
    VilStamps *stamps;
    int64_t *t;
    double *poses; /* (capacity, bones, 7) */
    uint8_t *seen; /* (capacity, bones) */
    int64_t *count;
    int64_t *repeats, *repeats_first_ns, *repeats_newest_ns;
    double *world;       /* (bones, 7): the frame in the world, out, and the poses at an instant */
    uint8_t *world_seen; /* (bones,) of those */
} VilSkeleton;

/* world/compiled_frame_store.py: tracks that frames of one layout feed. */
typedef struct {
    int64_t rows, skeletons;
    const VilBank *bank;
    const VilFilter *filter;
    const VilFrame *bodies;
    const VilSkeleton *const *tracks;
    const int64_t *first_rows; /* of each skeleton */
    uint8_t *refused;          /* skeletons that need a closer look, out */
} VilFrameStore;

enum {
    VIL_CHANGED = 1,
    VIL_STORED = 2,
    VIL_BODIES_REFUSED = 4,
    VIL_SKELETONS_REFUSED = 8,
    VIL_OUT_OF_ORDER = 16
};

/* Add to a time; what 64 bits do not hold wraps, as in numpy. */
static inline int64_t later(int64_t t_ns, int64_t by_ns)
{
    return (int64_t)((uint64_t)t_ns + (uint64_t)by_ns);
}

double vil_reachable_step(double dt_s, double max_mps, double max_radps);
void vil_pose_to_world(const VilRoom *room, const double *in, double *pose);
void vil_frame_to_world(const VilFrame *f, const double *in);
int64_t vil_bank_append(const VilBank *b, const VilFilter *filter, const VilFrame *f,
                        const uint8_t *seen, int64_t t_ns, int64_t t_arrival_ns);
int vil_skeleton_store(const VilSkeleton *s, const VilRoom *room, const double *in,
                       const uint8_t *seen, int64_t t_ns, int64_t t_arrival_ns);
void vil_filter_add(const VilFilter *f, int64_t row, int64_t t_ns, const double *value);
void vil_filter_shift(const VilFilter *f, int64_t row, int64_t by_ns);
void vil_filter_ahead(const VilFilter *f, int64_t row, double lead_s, double *value);

#endif
