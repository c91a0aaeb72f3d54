/* Table of VRPN trackers, see vrpn.c. */
#ifndef VIL_VRPN_H
#define VIL_VRPN_H

#include "poses.h"

/* Trackers, groups of poses that wait, and the rows of a frame.
 *
 * trackers: rows in use. pose, shown (7 each), t_ns, t_arrival_ns, period_ns, repeats, messages,
 * tracked: by row, as _Tracker of tracker_table.py has them; the pose before the first is NaN.
 * group_t_ns, group_arrival_ns, group_start, group_used: of each group; the entries of group g
 * begin at group_start[g]. entry_row, entry_pose (7), entry_tracked: of each entry. most_entries:
 * what these and the groups hold. bound: number of bound ids, of a sender and a sensor, with the
 * row of their body; BOUND_UNWANTED for a body that the configuration leaves out. frame_row,
 * frame_pose (7), frame_tracked: rows of the frame that was made last. covered: by row, while
 * groups are selected and frames made.
 */
typedef struct {
    int64_t trackers, most_entries, groups, entries, bound, pose_type;
    int64_t has_suspect, suspect_ns, repeats_mean_lost, y_up;
    int64_t repeated, superseded, unwanted, duplicates, unusable, implausible_stamps;
    double scale_m, farthest_m;
    double *pose, *shown, *period_ns, *entry_pose, *frame_pose;
    int64_t *t_ns, *t_arrival_ns, *repeats, *messages;
    int64_t *group_t_ns, *group_arrival_ns, *group_start;
    int32_t *entry_row, *frame_row;
    const int32_t *bound_sender, *bound_sensor, *bound_row;
    uint8_t *tracked, *group_used, *entry_tracked, *frame_tracked, *covered;
} VilVrpnTable;

enum { BOUND_UNWANTED = -1 };
enum { ACCEPTED, DUPLICATE, UNUSABLE, CLOCK_JUMPED, IMPLAUSIBLE_STAMP };

int vil_vrpn_judge(VilVrpnTable *table, int64_t row, const double *pose, int64_t t_ns,
                   int64_t t_arrival_ns);
int64_t vil_vrpn_read(VilVrpnTable *table, const uint8_t *data, int64_t size, int64_t at,
                      int64_t t_arrival_ns);
int64_t vil_vrpn_select(VilVrpnTable *table);
int64_t vil_vrpn_frame(VilVrpnTable *table, int64_t group);
int vil_vrpn_silent(VilVrpnTable *table, int64_t t_now_ns);

#endif
