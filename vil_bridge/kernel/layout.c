/* Sizes of the structs, and names, types and places of their fields.
 *
 * library.py refuses a library whose structs are not those of structs.py.
 */
#include "clock.h"
#include "natnet_stream.h"
#include "numbers.h"
#include "tracks.h"
#include "vicon.h"
#include "vicon_objects.h"
#include "vrpn.h"

#include <stddef.h>

/* A field, its type and its offset in bytes; or a struct, an empty type and its size. */
typedef struct {
    const char *name, *type;
    size_t place;
} Row;

#define TYPE(field) _Generic(&(field), \
    int64_t *: "int64_t", double *: "double", \
    double (*)[7]: "double[7]", int32_t (*)[7]: "int32_t[7]", \
    int64_t **: "int64_t *", const int64_t **: "int64_t *", const int32_t **: "int32_t *", \
    int32_t **: "int32_t *", const uint32_t **: "uint32_t *", \
    uint8_t **: "uint8_t *", const uint8_t **: "uint8_t *", char **: "char *", \
    double **: "double *", const double **: "double *", \
    const VilBank **: "VilBank *", const VilFilter **: "VilFilter *", \
    const VilFrame **: "VilFrame *", const VilRoom **: "VilRoom *", VilStamps **: "VilStamps *", \
    VilNatNetBinding **: "VilNatNetBinding *", const VilSkeleton *const **: "VilSkeleton **")

#define TEXT(name) #name
#define NAME(of) TEXT(of)
#define SIZE {NAME(STRUCT), "", sizeof(STRUCT)}
#define FIELD(field) \
    {NAME(STRUCT) "." #field, TYPE(((STRUCT *)0)->field), offsetof(STRUCT, field)}

static const Row ROWS[] = {
#define STRUCT VilClock
    SIZE, FIELD(ready), FIELD(oldest_ns), FIELD(line_ref_ns), FIELD(line_offset_ns),
    FIELD(line_drift), FIELD(fit_ref_ns), FIELD(fit_offset_ns), FIELD(fit_drift),
    FIELD(most_over_ns), FIELD(least_over_ns), FIELD(second_start_ns), FIELD(second_offset_ns),
    FIELD(count), FIELD(sum_ns),
#undef STRUCT
#define STRUCT VilNatNetBinding
    SIZE, FIELD(words), FIELD(rows_out), FIELD(absent_count), FIELD(has_local), FIELD(layout),
    FIELD(rows), FIELD(absent), FIELD(parents), FIELD(pose), FIELD(tracked), FIELD(nonfinite),
    FIELD(implausible), FIELD(farthest_m), FIELD(factor), FIELD(axis),
#undef STRUCT
#define STRUCT VilNatNetStream
    SIZE, FIELD(server_ip), FIELD(frame_port), FIELD(sized), FIELD(ticks_per_s),
    FIELD(most_skipped), FIELD(fastest_hz), FIELD(binding), FIELD(bytes), FIELD(spare), FIELD(held),
    FIELD(shown), FIELD(held_size), FIELD(shown_size), FIELD(number), FIELD(t_capture_ns),
    FIELD(t_newest_ns), FIELD(lost), FIELD(taken), FIELD(superseded), FIELD(latency_ns),
    FIELD(params), FIELD(unread), FIELD(converted), FIELD(size), FIELD(odd_ip), FIELD(odd_port),
    FIELD(odd_t_ns),
#undef STRUCT
#define STRUCT VilPoseText
    SIZE, FIELD(bodies), FIELD(cameras), FIELD(gaps), FIELD(capacity), FIELD(body_turn),
    FIELD(camera_turn), FIELD(poses), FIELD(indices), FIELD(values), FIELD(out),
#undef STRUCT
#define STRUCT VilFilter
    SIZE, FIELD(rows), FIELD(columns), FIELD(steady), FIELD(first), FIELD(t_ns), FIELD(state),
    FIELD(newest), FIELD(step_s), FIELD(age), FIELD(variance), FIELD(log_jerk), FIELD(surprises),
    FIELD(whitened), FIELD(learnt_ns), FIELD(learnt), FIELD(unlearnt), FIELD(held_ns), FIELD(held),
    FIELD(sums), FIELD(lag_s), FIELD(log_parts),
#undef STRUCT
#define STRUCT VilBank
    SIZE, FIELD(rows), FIELD(capacity), FIELD(noisy), FIELD(slowest_mps), FIELD(slowest_radps),
    FIELD(t), FIELD(moved_ns), FIELD(poses), FIELD(count), FIELD(newest), FIELD(gate_ns),
    FIELD(max_speed_mps), FIELD(max_rate_radps), FIELD(limit_ns), FIELD(coast_ns),
    FIELD(t_capture_ns), FIELD(t_arrival_ns), FIELD(tracked), FIELD(repeats),
    FIELD(repeats_first_ns), FIELD(repeats_newest_ns), FIELD(done), FIELD(filtered),
    FIELD(turned_rad),
#undef STRUCT
#define STRUCT VilRoom
    SIZE, FIELD(is_world), FIELD(turn), FIELD(shift),
#undef STRUCT
#define STRUCT VilFrame
    SIZE, FIELD(count), FIELD(markers_turned), FIELD(room), FIELD(columns), FIELD(rows),
    FIELD(markers), FIELD(poses),
#undef STRUCT
#define STRUCT VilStamps
    SIZE, FIELD(t_capture_ns), FIELD(t_arrival_ns), FIELD(tracked), FIELD(suspected),
#undef STRUCT
#define STRUCT VilSkeleton
    SIZE, FIELD(bones), FIELD(capacity), FIELD(place_bone), FIELD(max_mps), FIELD(max_radps),
    FIELD(stamps), FIELD(t), FIELD(poses), FIELD(seen), FIELD(count), FIELD(repeats),
    FIELD(repeats_first_ns), FIELD(repeats_newest_ns), FIELD(world), FIELD(world_seen),
#undef STRUCT
#define STRUCT VilFrameStore
    SIZE, FIELD(rows), FIELD(skeletons), FIELD(bank), FIELD(filter), FIELD(bodies), FIELD(tracks),
    FIELD(first_rows), FIELD(refused),
#undef STRUCT
#define STRUCT VilViconBinding
    SIZE, FIELD(segments), FIELD(rows_out), FIELD(y_up), FIELD(keys), FIELD(slots), FIELD(parents),
    FIELD(pose), FIELD(tracked), FIELD(invalid), FIELD(farthest_m), FIELD(rotation_tolerance),
#undef STRUCT
#define STRUCT VilObjectsBinding
    SIZE, FIELD(objects), FIELD(rows_out), FIELD(repeats), FIELD(invalid), FIELD(names),
    FIELD(rows), FIELD(last), FIELD(times), FIELD(pose), FIELD(tracked), FIELD(farthest_m),
    FIELD(largest_rad),
#undef STRUCT
#define STRUCT VilVrpnTable
    SIZE, FIELD(trackers), FIELD(most_entries), FIELD(groups), FIELD(entries), FIELD(bound),
    FIELD(pose_type), FIELD(has_suspect), FIELD(suspect_ns), FIELD(repeats_mean_lost), FIELD(y_up),
    FIELD(repeated), FIELD(superseded), FIELD(unwanted), FIELD(duplicates), FIELD(unusable),
    FIELD(implausible_stamps), FIELD(scale_m), FIELD(farthest_m), FIELD(pose), FIELD(shown),
    FIELD(period_ns), FIELD(entry_pose), FIELD(frame_pose), FIELD(t_ns), FIELD(t_arrival_ns),
    FIELD(repeats), FIELD(messages), FIELD(group_t_ns), FIELD(group_arrival_ns), FIELD(group_start),
    FIELD(entry_row), FIELD(frame_row), FIELD(bound_sender), FIELD(bound_sensor), FIELD(bound_row),
    FIELD(tracked), FIELD(group_used), FIELD(entry_tracked), FIELD(frame_tracked), FIELD(covered),
#undef STRUCT
    {.name = NULL},
};

/* Return the rows; the last one has no name. */
const Row *vil_layout(void)
{
    return ROWS;
}
