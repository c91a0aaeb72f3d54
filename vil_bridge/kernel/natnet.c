/* FRAMEOFDATA of NatNet 3.0 and newer: checks of the layout, and poses of the room.
 *
 * Twin of adapters/vil_adapters/optitrack/fast_codec.py and convert.py, which explain the layout
 * and the conversion and are the oracle of the tests. A datagram that is not plain is left to them:
 * they know the error.
 */
#include "natnet.h"

#include <math.h>

enum {
    HEADER = 4,
    BODY = 38,
    MARKER = 26,
    POINT = 12,
    SUFFIX_30 = 46,
    SUFFIX_41 = 54,
    TRACKED = 1
};
enum { LITTLE_ENDIAN_HERE = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ };
enum {
    MARKER_SETS,
    OTHER_MARKERS,
    BODIES,
    SKELETONS,
    ASSETS,
    MARKERS,
    FORCE_PLATES,
    DEVICES,
    SECTIONS
};

/* Bytes that were not read yet; bad once a read went past them. */
typedef struct {
    const uint8_t *at, *end;
    int bad;
} Cursor;

/* Equal records, one every stride bytes. */
typedef struct {
    const uint8_t *at;
    int64_t count, stride;
} Records;

/* Where the poses of a frame lie: the sections' elements follow each other. */
typedef struct {
    Records bodies;
    Cursor assets, skeletons;
    int64_t asset_count, skeleton_count, unread;
} Frame;

/* Place of the next record in a binding. */
typedef struct {
    const VilNatNetBinding *binding;
    int64_t word, row;
    int64_t nonfinite, implausible;
    int differs;
} Progress;

static int32_t i32_at(const uint8_t *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Pass over some bytes and return the first of them. */
static const uint8_t *pass(Cursor *cursor, int64_t bytes)
{
    const uint8_t *start = cursor->at;
    if (cursor->bad || bytes < 0 || bytes > cursor->end - start) {
        cursor->bad = 1;
        return cursor->end;
    }
    cursor->at = start + bytes;
    return start;
}

static int32_t next_i32(Cursor *cursor)
{
    const uint8_t *at = pass(cursor, 4);
    return cursor->bad ? 0 : i32_at(at);
}

/* Read a number of elements that take at least some bytes each; 0 once the cursor is bad. */
static int64_t next_count(Cursor *cursor, int64_t least_bytes)
{
    const int64_t count = next_i32(cursor);
    if (count < 0 || count * least_bytes > cursor->end - cursor->at)
        cursor->bad = 1;
    return cursor->bad ? 0 : count;
}

/* Pass over counted records without gaps. */
static Records next_records(Cursor *cursor, int64_t bytes)
{
    const int64_t count = next_count(cursor, bytes);
    return (Records){pass(cursor, count * bytes), cursor->bad ? 0 : count, bytes};
}

static void pass_text(Cursor *cursor)
{
    const uint8_t *end = cursor->at == cursor->end
                             ? NULL
                             : memchr(cursor->at, 0, (size_t)(cursor->end - cursor->at));
    if (end == NULL)
        cursor->bad = 1;
    else
        cursor->at = end + 1;
}

static void pass_skeleton(Cursor *cursor)
{
    next_i32(cursor);
    next_records(cursor, BODY);
}

static void pass_asset(Cursor *cursor)
{
    pass_skeleton(cursor);
    next_records(cursor, MARKER);
}

static void pass_analog(Cursor *cursor)
{
    for (int64_t i = next_count(cursor, 8); i > 0 && !cursor->bad; i--) {
        next_i32(cursor);
        for (int64_t j = next_count(cursor, 4); j > 0 && !cursor->bad; j--)
            next_records(cursor, 4);
    }
}

/* Check stamps, flags and the end mark, which end the frame. */
static int suffix_ends(Cursor *cursor, int64_t bytes)
{
    const uint8_t *suffix = pass(cursor, bytes);
    return !cursor->bad && cursor->at == cursor->end && i32_at(suffix + bytes - 4) == 0;
}

/* 3.0 to 4.0: everything has to be counted through. */
static int scan_counted(Cursor cursor, Frame *frame)
{
    for (int64_t i = next_count(&cursor, 5); i > 0 && !cursor.bad; i--) {
        pass_text(&cursor);
        next_records(&cursor, POINT);
    }
    next_records(&cursor, POINT);
    frame->bodies = next_records(&cursor, BODY);
    frame->skeleton_count = next_count(&cursor, 8);
    frame->skeletons = cursor;
    for (int64_t i = frame->skeleton_count; i > 0 && !cursor.bad; i--)
        pass_skeleton(&cursor);
    next_records(&cursor, MARKER);
    pass_analog(&cursor);
    pass_analog(&cursor);
    return suffix_ends(&cursor, SUFFIX_30);
}

/* Records that share a section evenly, and bytes of it that are not read; fields of a newer layout
 * lie between them. */
static Records shared(Cursor *section, int64_t count, int64_t bytes, int64_t *unread)
{
    const int64_t size = section->end - section->at;
    if (count == 0) {
        *unread += size;
        return (Records){section->at, 0, bytes};
    }
    if (size % count != 0 || size / count < bytes)
        section->bad = 1;
    *unread += size - count * bytes;
    return (Records){section->at, count, size / count};
}

/* 4.1 and newer: every section contains its size; unknown ones may stand before the suffix. */
static int scan_sized(Cursor cursor, Frame *frame)
{
    Cursor sections[SECTIONS];
    int64_t counts[SECTIONS];
    for (int i = 0; i < SECTIONS; i++) {
        counts[i] = next_i32(&cursor);
        const int64_t size = next_i32(&cursor);
        const uint8_t *start = pass(&cursor, size);
        if (cursor.bad || counts[i] < 0 || counts[i] > size)
            return 0;
        sections[i] = (Cursor){start, start + size, 0};
    }
    frame->bodies = shared(sections + BODIES, counts[BODIES], BODY, &frame->unread);
    shared(sections + MARKERS, counts[MARKERS], MARKER, &frame->unread);
    pass(sections + OTHER_MARKERS, counts[OTHER_MARKERS] * POINT);
    if (sections[BODIES].bad || sections[MARKERS].bad || sections[OTHER_MARKERS].bad)
        return 0;
    frame->skeletons = sections[SKELETONS], frame->skeleton_count = counts[SKELETONS];
    frame->assets = sections[ASSETS], frame->asset_count = counts[ASSETS];
    for (int64_t i = counts[SKELETONS]; i > 0 && !sections[SKELETONS].bad; i--)
        pass_skeleton(sections + SKELETONS);
    for (int64_t i = counts[ASSETS]; i > 0 && !sections[ASSETS].bad; i--)
        pass_asset(sections + ASSETS);
    if (sections[SKELETONS].bad || sections[ASSETS].bad)
        return 0;
    frame->unread += (sections[SKELETONS].end - sections[SKELETONS].at)
                     + (sections[ASSETS].end - sections[ASSETS].at);
    const int64_t spare = cursor.end - cursor.at - SUFFIX_41;
    if (spare > 0) {
        frame->unread += spare;
        pass(&cursor, spare);
    }
    return suffix_ends(&cursor, SUFFIX_41);
}

static int scan(const uint8_t *datagram, int64_t size, int sized, Frame *frame)
{
    Cursor cursor = {datagram, datagram + size, 0};
    memset(frame, 0, sizeof *frame);
    pass(&cursor, HEADER);
    next_i32(&cursor);
    if (cursor.bad)
        return 0;
    return sized ? scan_sized(cursor, frame) : scan_counted(cursor, frame);
}

/* Check a frame without converting it. Returns the bytes that this layout does not know, -1 where
 * it is not plain. */
int vil_natnet_scan(const uint8_t *datagram, int64_t size, int sized)
{
    Frame frame;
    return LITTLE_ENDIAN_HERE && scan(datagram, size, sized, &frame) ? (int)frame.unread : -1;
}

/* Compare the next word of the layout with the binding's. */
static int is_word(Progress *on, int64_t value)
{
    if (on->word >= on->binding->words || on->binding->layout[on->word] != value)
        on->differs = 1;
    else
        on->word++;
    return !on->differs;
}

/* Convert a record to room axes and metres; returns whether its body is tracked. */
static uint8_t convert(const uint8_t *record, Progress *on, double *out)
{
    const VilNatNetBinding *binding = on->binding;
    const uint8_t tracked = record[BODY - 2] & TRACKED;
    float in[7];
    memcpy(in, record + 4, sizeof in);
    const double x = in[3], y = in[4], z = in[5], w = in[6];
    const double norm2 = x * x + y * y + z * z + w * w;
    const double per_norm = 1.0 / sqrt(norm2);
    int near = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = in[binding->axis[i]] * binding->factor[i];
        near &= fabs(out[i]) <= binding->farthest_m;
    }
    for (int i = 3; i < 7; i++)
        out[i] = in[binding->axis[i]] * binding->factor[i] * per_norm;
    if (near && norm2 > 0.0 && norm2 < INFINITY)
        return tracked;
    if (isfinite((double)in[0] + in[1] + in[2]) && norm2 > 0.0 && norm2 < INFINITY)
        on->implausible += tracked;
    else
        on->nonfinite += tracked;
    no_pose(out);
    return 0;
}

/* Convert records into the rows that the binding has for them; a record without a row is counted
 * only. */
static void take(Progress *on, const Records *records)
{
    const VilNatNetBinding *binding = on->binding;
    double dropped[7];
    for (int64_t i = 0; i < records->count; i++) {
        const uint8_t *record = records->at + i * records->stride;
        if (!is_word(on, i32_at(record)))
            return;
        const int32_t row = binding->rows[on->row++];
        if (row < 0)
            convert(record, on, dropped);
        else
            binding->tracked[row] = convert(record, on, binding->pose + 7 * row);
    }
}

/* Convert a frame by a binding into its arrays.
 *
 * Returns 0 where every tracked pose is one, 1 where some are not (nonfinite, implausible), -1
 * where the frame has another layout than the binding, or is not plain; the arrays mean nothing
 * then.
 */
int vil_natnet_convert(const uint8_t *datagram, int64_t size, int sized, VilNatNetBinding *binding)
{
    Frame frame;
    if (!scan(datagram, size, sized, &frame))
        return -1;
    Progress on = {.binding = binding};
    for (int64_t i = 0; i < binding->absent_count; i++) {
        no_pose(binding->pose + 7 * binding->absent[i]);
        binding->tracked[binding->absent[i]] = 0;
    }
    if (!is_word(&on, frame.bodies.count))
        return -1;
    take(&on, &frame.bodies);
    is_word(&on, frame.asset_count);
    for (int64_t i = 0; i < frame.asset_count && !on.differs; i++) {
        is_word(&on, next_i32(&frame.assets));
        const Records bodies = next_records(&frame.assets, BODY);
        next_records(&frame.assets, MARKER);
        if (is_word(&on, bodies.count))
            take(&on, &bodies);
    }
    is_word(&on, frame.skeleton_count);
    for (int64_t i = 0; i < frame.skeleton_count && !on.differs; i++) {
        is_word(&on, next_i32(&frame.skeletons));
        const Records bones = next_records(&frame.skeletons, BODY);
        if (is_word(&on, bones.count))
            take(&on, &bones);
    }
    if (on.differs || on.word != binding->words)
        return -1;
    if (binding->has_local)
        chain(binding->rows_out, binding->parents, binding->pose, binding->tracked);
    binding->nonfinite = on.nonfinite;
    binding->implausible = on.implausible;
    return on.nonfinite != 0 || on.implausible != 0;
}
