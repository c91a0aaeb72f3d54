/* Pictures from VIL Bridge for programs in C and C++: this one header and libzmq (link with -lzmq -lm -lpthread).
 *
 *     vil_receiver receiver;
 *     if (vil_open(&receiver, "tcp://bridge:5560", "front", "raw") != 0) return 1;
 *     vil_frame frame;
 *     while (vil_next(&receiver, &frame, 1000) >= 0)
 *         if (frame.pixels) feed(frame.pixels, frame.width, frame.height, frame.t_ns, frame.K);
 *     vil_close(&receiver);
 *
 * With the vehicle's IMU a picture shows the moment of the call, by the samples since the bridge measured last:
 *
 *     vil_imu_open(&imu);                  // a thread of yours calls vil_imu_append(&imu, t_ns, w_radps, f_mps2)
 *     vil_use_imu(&receiver, &imu);        // after vil_open with "compensated"
 *
 * Gray, uncompressed, always the newest picture; its stamp is the instant it shows, in this computer's
 * CLOCK_MONOTONIC, strictly increasing. Bridge and vehicle may start in any order and restart at any time.
 * Everything happens inside vil_next: call it several times a second, or from a thread of its own. The wire is
 * described in docs/reference/stream.md. Nothing here grows: 960 round trips, one picture (moved: two), messages of bounded size.
 * The bridge is not a safety system: when vil_alive turns 0, land by your own means. Include this header first,
 * or compile with -D_POSIX_C_SOURCE=200809L. */
#ifndef VIL_RECEIVER_H
#define VIL_RECEIVER_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define VIL_MAX_SIDE 8192
#define VIL_MAX_PIXELS (4096 * 4096)
#define VIL_MAX_TEXT 65536        /* bytes of a header or control message */
#define VIL_MAX_TIME (INT64_C(1) << 60) /* ns, 36 years: differences of such times do not overflow */
#define VIL_CLOCK_WINDOW 960
#define VIL_CLOCK_MODELS 3
#define VIL_FIRST_PINGS 5
#define VIL_SECOND INT64_C(1000000000)

/* --- the clock: a filter of offset and drift, as OffsetFilter in client.py, whose comments hold here too --- */

typedef struct {
    int64_t t_ns, low_ns, high_ns; /* middle of the exchange, vehicle's clock; bounds of vehicle minus bridge */
} vil_clock_exchange;

typedef struct {
    int epoch, count;             /* jumps of either clock; exchanges since the last one */
    int64_t t_ref_ns, offset_ns;  /* the line: vehicle time, vehicle minus bridge then */
    double drift, covariance[3];  /* of offset and drift: ns^2, ns, 1 */
    double drift_std, low, high;  /* bounds of the offset by all exchanges, beyond offset_ns */
    double states[VIL_CLOCK_MODELS][5], weights[VIL_CLOCK_MODELS], waits_ns[2];
    int64_t window[VIL_CLOCK_WINDOW], ranked[VIL_CLOCK_WINDOW]; /* round trips: a ring; in order */
    int64_t least_ns; /* round trip since the last jump */
    int seen, oldest, suspect_count;
    vil_clock_exchange suspects[3];
} vil_clock;

/* --- the vehicle's inertial samples, and what they move: used after vil_use_imu -------------------------- */

#define VIL_IMU_SAMPLES 2048
#define VIL_IMU_JUMP VIL_SECOND             /* a stamp further than this from the newest one begins a new history */
#define VIL_IMU_STALE INT64_C(40000000)     /* a sample held for longer, or a wider gap, misleads more than it helps */
#define VIL_IMU_TREND INT64_C(10000000)     /* the newest samples go on as they did over this time, for as long */
#define VIL_IMU_UNSEEN INT64_C(500000000)   /* integrated for longer, samples drift by centimetres */
#define VIL_IMU_MAX_RADPS 250.0             /* more than sensors measure */
#define VIL_IMU_MAX_MPS2 8000.0

typedef struct {
    int64_t t_ns; /* CLOCK_MONOTONIC of this computer */
    double w_radps[3], f_mps2[3];
} vil_imu_sample;

typedef struct {
    uint64_t rejected, out_of_order, resets; /* values no sensor measures; not newer; histories given up */
    vil_imu_sample samples[VIL_IMU_SAMPLES]; /* a ring */
    int next, held;
    pthread_mutex_t lock;
} vil_imu;

typedef struct {
    double p_m[3], q_xyzw[4];
} vil_pose; /* T_a_b turns and shifts from b's axes into a's; quaternions are x, y, z, w */

typedef struct {
    int64_t t_ns; /* CLOCK_MONOTONIC of this computer */
    vil_pose T_world_body;
    double v_world_mps[3], w_body_radps[3];
} vil_body;

typedef struct {
    vil_body measured; /* at the newest instant that the bridge has measurements of */
    double gyro_bias_radps[3], accel_bias_mps2[3], gyro_scale[3]; /* to subtract; true rate over measured, less 1 */
    int64_t imu_late_ns; /* how much later the IMU's stamps are than mocap's of the same instant */
} vil_motion;

#define VIL_GRID 8 /* pixels between the nodes of the map */

typedef struct {
    double fx, fy, cx, cy;
    int width, height;
    int lens;               /* 0 = none, 1 = plumb_bob (radtan), 2 = equidistant; as OpenCV has them */
    double coefficients[5]; /* k1, k2, p1, p2, k3, or k1 to k4 */
    vil_pose T_body_camera; /* optical axes: x right, y down, z forward */
} vil_camera;

typedef struct {
    double d_m, normal[3]; /* normal . X = d in the axes of the camera of the picture */
} vil_plane;

/* --- what users see ---------------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *pixels; /* width * height, top row first, valid until the next call; NULL = none came */
    int width, height;
    int64_t frame_id;
    int64_t t_ns;                 /* instant shown, CLOCK_MONOTONIC of this computer */
    int64_t t_bridge_ns;          /* the same in the bridge's clock */
    int64_t clock_uncertainty_ns; /* of t_ns */
    double K[4];                  /* fx, fy, cx, cy; pixel centres at integers; zeros = unknown */
    double p_m[3], q_xyzw[4];     /* T_world_camera at t_ns: x right, y down, z forward; see has_pose */
    int has_pose;
    int blank; /* the carrier is not tracked: a black picture */
    /* After vil_use_imu: */
    int moved;           /* by the vehicle's samples, to the moment of the call; 0: the bridge's picture */
    const char *problem; /* why it was not; NULL where it was */
    int64_t imu_age_ns;  /* age of the newest sample at t_ns, by mocap's stamps */
    int64_t moved_ns;    /* t_ns minus the instant that the bridge's picture showed */
    vil_body body;       /* the carrier at t_ns, where moved */
    vil_motion motion;   /* what the bridge knows of it and of its IMU; see has_motion */
    vil_plane plane;
    vil_camera camera;
    int has_motion;
} vil_frame;

typedef struct {
    /* For reading: */
    uint64_t received, delivered, superseded, late, too_old, malformed, registrations, moved, unmoved;
    char problem[512]; /* why no pictures come, as far as known; empty while all is well */
    vil_clock clock;
    /* Private: */
    void *context, *control, *data;
    char endpoint[128], host[128], camera[65], variant[16], token[65], instance[65];
    int64_t pings[64];
    int ping_count;
    int64_t t_ping_ns, t_register_ns, t_heard_ns, t_frame_ns, t_usable_ns, usable_age_ns, last_t_ns, last_t_bridge_ns;
    uint8_t *pixels;
    size_t capacity;
    vil_frame newest;
    int64_t t_expires_ns; /* of the newest, after which it is too old to be handed out */
    int fresh, aged; /* aged: the newest one arrived too old */
    vil_imu *imu;
    vil_camera described, rays_of;
    vil_pose T_body_imu;
    int has_camera, has_T_body_imu;
    int64_t handed_t_ns;
    double *rays, *map;
    uint8_t *moved_pixels;
} vil_receiver;

static inline int64_t vil_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * VIL_SECOND + now.tv_nsec;
}

static inline int64_t vil_clock_offset_ns(const vil_clock *clock, int64_t t_vehicle_ns) {
    return clock->offset_ns + llround(clock->drift * (double)(t_vehicle_ns - clock->t_ref_ns));
}

static inline int64_t vil_clock_to_vehicle_ns(const vil_clock *clock, int64_t t_bridge_ns) {
    int64_t guess = t_bridge_ns + clock->offset_ns;
    return guess + llround((double)(guess - clock->t_ref_ns) * clock->drift / (1.0 - clock->drift));
}

static inline int64_t vil_clock_to_bridge_ns(const vil_clock *clock, int64_t t_vehicle_ns) {
    return t_vehicle_ns - vil_clock_offset_ns(clock, t_vehicle_ns);
}

/* Half the best round trip (a lopsided path cannot be told) plus two standard deviations, at least the farther bound. */
static inline int64_t vil_clock_uncertainty_ns(const vil_clock *clock, int64_t t_vehicle_ns) {
    const double *c = clock->covariance;
    double dt = (double)(t_vehicle_ns - clock->t_ref_ns), variance = c[0] + 2.0 * dt * c[1] + dt * dt * c[2];
    int64_t best = clock->seen && clock->ranked[0] > clock->least_ns ? clock->ranked[0] : clock->least_ns;
    double likely = 0.5 * (double)best + (variance > 0.0 ? 2.0 * sqrt(variance) : 0.0);
    return (int64_t)fmax(likely, fmax(clock->high, -clock->low) + 2.0 * sqrt(fmax(0.0, c[2])) * fabs(dt));
}

/* Mean and covariance of the models mixed in these shares. */
static inline void vil__clock_merge(const vil_clock *clock, const double *shares, double *merged) {
    int i;
    memset(merged, 0, 5 * sizeof merged[0]);
    for (i = 0; i < VIL_CLOCK_MODELS; i++) {
        merged[0] += shares[i] * clock->states[i][0];
        merged[1] += shares[i] * clock->states[i][1];
    }
    for (i = 0; i < VIL_CLOCK_MODELS; i++) {
        const double *s = clock->states[i];
        double d0 = s[0] - merged[0], d1 = s[1] - merged[1];
        merged[2] += shares[i] * (s[2] + d0 * d0);
        merged[3] += shares[i] * (s[3] + d0 * d1);
        merged[4] += shares[i] * (s[4] + d1 * d1);
    }
}

static inline void vil__clock_mix(vil_clock *clock) {
    double merged[5], whole;
    int i;
    vil__clock_merge(clock, clock->weights, merged);
    whole = rint(merged[0]);
    clock->offset_ns += (int64_t)whole;
    clock->low -= whole;
    clock->high -= whole;
    for (i = 0; i < VIL_CLOCK_MODELS; i++) clock->states[i][0] -= whole;
    clock->drift = fmax(-1e-3, fmin(1e-3, merged[1])); /* no clock drifts by 1000 ppm */
    memcpy(clock->covariance, merged + 2, sizeof clock->covariance);
}

static inline void vil__clock_start(vil_clock *clock, const vil_clock_exchange *x) {
    double half = 0.5 * (double)(x->high_ns - x->low_ns), std = clock->drift_std > 0.0 ? clock->drift_std : 50e-6;
    int i;
    clock->t_ref_ns = x->t_ns;
    clock->offset_ns = x->low_ns + (x->high_ns - x->low_ns) / 2;
    for (i = 0; i < VIL_CLOCK_MODELS; i++) {
        double *s = clock->states[i];
        s[0] = s[3] = 0.0;
        s[1] = clock->drift;
        s[2] = half * half;
        s[4] = std * std;
        clock->weights[i] = i ? 0.05 : 0.9;
    }
    clock->low = (double)(x->low_ns - clock->offset_ns);
    clock->high = (double)(x->high_ns - clock->offset_ns);
}

static inline void vil__clock_predict(vil_clock *clock, int64_t t_ns) {
    static const double drift_noise[] = {1e-7, 2e-4, 1e-7}, offset_noise[] = {0.0, 0.0, 1e6}, stay_s[] = {50.0, 2.0, 0.5};
    double dt = (double)(t_ns - clock->t_ref_ns), dt_s = 1e-9 * dt, states[VIL_CLOCK_MODELS][5];
    double weights[VIL_CLOCK_MODELS], wider = 2.0 * sqrt(fmax(0.0, clock->covariance[2])) * dt;
    int i, j;
    clock->low += clock->drift * dt - wider;
    clock->high += clock->drift * dt + wider;
    for (i = 0; i < VIL_CLOCK_MODELS; i++) {
        double shares[VIL_CLOCK_MODELS], *s = states[i], q = drift_noise[i] * drift_noise[i] * dt_s;
        weights[i] = 0.0;
        for (j = 0; j < VIL_CLOCK_MODELS; j++) {
            double stays = exp(-dt_s / stay_s[j]);
            shares[j] = clock->weights[j] * (i == j ? stays : i == 0 ? 1.0 - stays : j == 0 ? 0.5 * (1.0 - stays) : 0.0);
            weights[i] += shares[j];
        }
        weights[i] = fmax(1e-9, weights[i]);
        for (j = 0; j < VIL_CLOCK_MODELS; j++) shares[j] /= weights[i];
        vil__clock_merge(clock, shares, s);
        s[0] += dt * s[1];
        s[2] += dt * (2.0 * s[3] + dt * (s[4] + q / 3.0)) + offset_noise[i] * offset_noise[i] * dt_s;
        s[3] += dt * (s[4] + 0.5 * q);
        s[4] += q;
    }
    memcpy(clock->states, states, sizeof states);
    memcpy(clock->weights, weights, sizeof weights);
    clock->t_ref_ns = t_ns;
}

/* Accounts that sign * offset is below the edge, but for normal noise; returns the log of the probability. */
static inline double vil__clock_cut(double *s, double sign, double edge, double soft) {
    double variance = s[2] + soft * soft, std = sqrt(variance), z = (edge - sign * s[0]) / std, hazard, bend, log_mass;
    double k0 = s[2], k1 = s[3];
    const double root = 2.5066282746310002; /* sqrt(2 pi) */
    if (z > -25.0) {
        double mass = 0.5 * erfc(-z * sqrt(0.5));
        hazard = exp(-0.5 * z * z) / (root * mass);
        log_mass = log(mass);
        bend = hazard * (z + hazard);
    } else { /* the same by the asymptotic series of the normal tail */
        hazard = -z - 1.0 / z + 2.0 / (z * z * z);
        log_mass = -0.5 * z * z - log(root * hazard);
        bend = 1.0 - 1.0 / (z * z) + 6.0 / (z * z * z * z);
    }
    s[0] -= k0 * sign * hazard / std;
    s[1] -= k1 * sign * hazard / std;
    s[2] = fmax(1e-12 * k0, k0 - k0 * k0 * bend / variance); /* digits end where nothing was known */
    s[3] -= k0 * k1 * bend / variance;
    s[4] -= k1 * k1 * bend / variance;
    return log_mass;
}

/* Accounts a round trip and the wait of each way. */
static inline void vil__clock_learn(vil_clock *clock, int64_t rtt, double low, double high) {
    double merged[5], gain, waits[2];
    int i;
    if (!clock->count || rtt < clock->least_ns) clock->least_ns = rtt;
    if (clock->seen == VIL_CLOCK_WINDOW) {
        for (i = 0; clock->ranked[i] != clock->window[clock->oldest]; i++) continue;
        memmove(clock->ranked + i, clock->ranked + i + 1, (size_t)(--clock->seen - i) * sizeof rtt);
        clock->window[clock->oldest] = rtt;
        clock->oldest = (clock->oldest + 1) % VIL_CLOCK_WINDOW;
    } else {
        clock->window[clock->seen] = rtt;
    }
    for (i = clock->seen++; i > 0 && clock->ranked[i - 1] > rtt; i--) clock->ranked[i] = clock->ranked[i - 1];
    clock->ranked[i] = rtt;
    gain = 1.0 / (clock->seen < 100 ? clock->seen : 100);
    vil__clock_merge(clock, clock->weights, merged);
    waits[0] = high - merged[0];
    waits[1] = merged[0] - low;
    for (i = 0; i < 2; i++) clock->waits_ns[i] += gain * (fmax(0.0, waits[i]) - clock->waits_ns[i]);
}

/* Accounts the bounds; where a slewed clock leaves nothing between them and the others, they stand alone. */
static inline void vil__clock_bound(vil_clock *clock, double low, double high) {
    double both[2] = {fmax(low, clock->low), fmin(high, clock->high)};
    clock->low = both[0] <= both[1] ? both[0] : low;
    clock->high = both[0] <= both[1] ? both[1] : high;
}

/* Accounts both ways in each model, and weighs them by their likelihoods. */
static inline void vil__clock_update(vil_clock *clock, double low, double high, double soft) {
    double least = fmax(5e3, 0.125 * (high - low)), logs[VIL_CLOCK_MODELS], most = -INFINITY, total = 0.0;
    double out = 1.0 / fmax(least, clock->waits_ns[0]), back = 1.0 / fmax(least, clock->waits_ns[1]), tilt = out - back;
    int i;
    for (i = 0; i < VIL_CLOCK_MODELS; i++) {
        double *s = clock->states[i];
        logs[i] = log(clock->weights[i]) + tilt * s[0] + 0.5 * tilt * tilt * s[2];
        s[0] += s[2] * tilt;
        s[1] += s[3] * tilt;
        logs[i] += vil__clock_cut(s, 1.0, high - out * soft * soft, soft);
        logs[i] += vil__clock_cut(s, -1.0, -low - back * soft * soft, soft);
        most = fmax(most, logs[i]);
    }
    for (i = 0; i < VIL_CLOCK_MODELS; i++) total += clock->weights[i] = exp(logs[i] - most);
    for (i = 0; i < VIL_CLOCK_MODELS; i++) clock->weights[i] /= total;
}

/* Keeps the suspects that one clock may have given besides this exchange. */
static inline void vil__clock_compare(vil_clock *clock, const vil_clock_exchange *x, double slack) {
    int i, kept = 0;
    for (i = 0; i < clock->suspect_count; i++) {
        vil_clock_exchange s = clock->suspects[i];
        int64_t low = s.low_ns > x->low_ns ? s.low_ns : x->low_ns, high = s.high_ns < x->high_ns ? s.high_ns : x->high_ns;
        if ((double)(low - high) <= slack + 1e-3 * fabs((double)(s.t_ns - x->t_ns))) clock->suspects[kept++] = s;
    }
    clock->suspect_count = kept;
}

/* Accounts one; returns 1 when it is the third in agreement that excludes the line, which proves a jump. */
static inline int vil__clock_exchange(vil_clock *clock, vil_clock_exchange x) {
    int64_t rtt = x.high_ns - x.low_ns;
    double base = (double)rtt, soft = 20e3 + 0.5 * (double)rtt, low, high, excess = INFINITY;
    int i, n = clock->seen;
    if (!clock->count) vil__clock_start(clock, &x);
    if (x.t_ns < clock->t_ref_ns) { /* overtaken by a later one */
        int64_t moved = llround(clock->drift * (double)(clock->t_ref_ns - x.t_ns));
        x.t_ns = clock->t_ref_ns;
        x.low_ns += moved;
        x.high_ns += moved;
    }
    vil__clock_predict(clock, x.t_ns);
    if (n) {
        double least = (double)(rtt < clock->ranked[0] ? rtt : clock->ranked[0]);
        double beyond = 0.467 * (double)(clock->ranked[(n < 8 ? n : 8) - 1] - clock->ranked[0]);
        base = fmax(0.0, least - beyond);
        soft = 20e3 + 0.5 * (beyond + least / n);
    }
    low = (double)(x.low_ns - clock->offset_ns) + 0.5 * base;
    high = (double)(x.high_ns - clock->offset_ns) - 0.5 * base;
    for (i = 0; i < VIL_CLOCK_MODELS; i++) {
        const double *s = clock->states[i];
        excess = fmin(excess, fmax(low - s[0], s[0] - high) / sqrt(s[2] + soft * soft));
    }
    vil__clock_compare(clock, &x, 1e5 + 4.0 * soft - base);
    /* While exchanges are few, the usual waits are unknown: only bounds exclude a clock. */
    if (excess > 5.0 && (clock->count >= 32 || (double)(x.low_ns - clock->offset_ns) > clock->high ||
                         (double)(x.high_ns - clock->offset_ns) < clock->low)) {
        clock->suspects[clock->suspect_count++] = x;
        vil__clock_mix(clock);
        return clock->suspect_count == 3;
    }
    vil__clock_learn(clock, rtt, low, high);
    vil__clock_bound(clock, (double)(x.low_ns - clock->offset_ns), (double)(x.high_ns - clock->offset_ns));
    vil__clock_update(clock, low, high, soft);
    vil__clock_mix(clock);
    clock->count++;
    return 0;
}

/* Accounts an exchange: sent t1 (vehicle), received t2 and answered t3 (bridge), received t4 (vehicle). */
static inline void vil_clock_add(vil_clock *clock, int64_t t1, int64_t t2, int64_t t3, int64_t t4) {
    vil_clock_exchange x = {t1 + (t4 - t1) / 2, t1 - t2, t4 - t3}, suspects[3];
    int i;
    if (x.high_ns < x.low_ns || t4 < t1 || t3 < t2 || !vil__clock_exchange(clock, x)) return;
    memcpy(suspects, clock->suspects, sizeof suspects); /* a clock jumped: the filter starts over with what proved it */
    clock->drift_std = fmax(5e-6, sqrt(clock->states[0][4]));
    clock->epoch++;
    clock->count = clock->suspect_count = 0;
    for (i = 0; i < 3; i++) vil__clock_exchange(clock, suspects[i]);
}

/* --- JSON: finds members of an object in place; reads nothing beyond its end ------------------------------- */

typedef struct {
    const char *at, *end; /* at NULL: absent or damaged */
} vil_json;

static inline vil_json vil__span(const char *at, const char *end) {
    vil_json span;
    span.at = at;
    span.end = end;
    return span;
}

static inline const char *vil__blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* Behind a string that begins at its quote, or NULL. */
static inline const char *vil__past_string(const char *at, const char *end) {
    for (at++; at < end; at++) {
        if (*at == '"') return at + 1;
        if (*at == '\\' && ++at >= end) break;
    }
    return NULL;
}

/* Behind any value, or NULL. */
static inline const char *vil__past_value(const char *at, const char *end) {
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = vil__past_string(at, end);
            if (!at) return NULL;
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
            continue;
        } else {
            while (at < end && !strchr(",]} \t\n\r", *at)) at++;
        }
        if (depth <= 0) return depth == 0 ? at : NULL;
    }
    return NULL;
}

/* Whether it is one object to its end, as far as brackets and quotes go. */
static inline int vil__whole(vil_json text) {
    return text.at < text.end && *text.at == '{' && vil__past_value(text.at, text.end) == text.end;
}

/* The value of a member, as it stands. */
static inline vil_json vil__member(vil_json object, const char *key) {
    const char *at = object.at ? vil__blank(object.at, object.end) : NULL, *end = object.end;
    size_t length = strlen(key);
    if (!at || at >= end || *at != '{') return vil__span(NULL, NULL);
    for (at = vil__blank(at + 1, end); at < end && *at == '"'; at = vil__blank(at + 1, end)) {
        const char *name = at + 1, *value;
        at = vil__past_string(at, end);
        if (!at) break;
        value = vil__blank(at, end);
        if (value >= end || *value != ':') break;
        value = vil__blank(value + 1, end);
        {
            const char *past = vil__past_value(value, end);
            if (!past || past == value) break;
            if ((size_t)(at - 1 - name) == length && !memcmp(name, key, length)) return vil__span(value, past);
            at = vil__blank(past, end);
        }
        if (at >= end || *at != ',') break;
    }
    return vil__span(NULL, NULL);
}

static inline int vil__is(vil_json value, const char *text) {
    return value.at && (size_t)(value.end - value.at) == strlen(text) && !memcmp(value.at, text, strlen(text));
}

/* Whole numbers up to VIL_MAX_TIME; 0 on success. */
static inline int vil__integer(vil_json value, int64_t *result) {
    int64_t sum = 0;
    const char *at = value.at;
    int negative = at && at < value.end && *at == '-';
    if (negative) at++;
    if (!at || at >= value.end) return -1;
    for (; at < value.end; at++) {
        if (*at < '0' || *at > '9' || sum > VIL_MAX_TIME / 10) return -1;
        sum = 10 * sum + (*at - '0');
    }
    if (sum > VIL_MAX_TIME) return -1;
    *result = negative ? -sum : sum;
    return 0;
}

/* A text without escapes, cut off never; 0 on success. */
static inline int vil__text(vil_json value, char *result, size_t size) {
    size_t length = value.at ? (size_t)(value.end - value.at) : 0;
    if (length < 2 || value.at[0] != '"' || length - 2 >= size) return -1;
    if (memchr(value.at, '\\', length) || memchr(value.at, '\0', length)) return -1;
    memcpy(result, value.at + 1, length - 2);
    result[length - 2] = '\0';
    return 0;
}

/* A finite number; 0 on success. */
static inline int vil__number(vil_json value, double *result) {
    char digits[64], *stopped, *point;
    size_t length = value.at ? (size_t)(value.end - value.at) : 0;
    if (!length || length >= sizeof digits || !strchr("-0123456789", *value.at)) return -1;
    memcpy(digits, value.at, length);
    digits[length] = '\0';
    point = strchr(digits, '.');
    if (point) *point = *localeconv()->decimal_point;
    *result = strtod(digits, &stopped);
    return *stopped || !isfinite(*result) ? -1 : 0;
}

/* An array of exactly that many numbers; 0 on success. */
static inline int vil__numbers(vil_json value, double *result, int count) {
    const char *at = value.at, *end = value.end;
    int i;
    if (!at || *at != '[') return -1;
    for (i = 0; i < count; i++) {
        const char *begin = vil__blank(at + 1, end);
        at = begin < end ? vil__past_value(begin, end) : NULL;
        if (!at || vil__number(vil__span(begin, at), &result[i])) return -1;
        at = vil__blank(at, end);
        if (at >= end || *at != (i + 1 < count ? ',' : ']')) return -1;
    }
    return 0;
}

/* --- the vehicle's inertial samples, which any thread fills ------------------------------------------------- */

static inline void vil_imu_open(vil_imu *imu) {
    memset(imu, 0, sizeof *imu);
    pthread_mutex_init(&imu->lock, NULL);
}

static inline void vil_imu_close(vil_imu *imu) {
    pthread_mutex_destroy(&imu->lock);
}

/* Stores a sample, the IMU's axes, uncorrected; at rest the force is gravity's opposite. 1, or 0 when it was dropped. */
static inline int vil_imu_append(vil_imu *imu, int64_t t_ns, const double w_radps[3], const double f_mps2[3]) {
    vil_imu_sample *sample;
    int64_t since;
    int i, usable = 1;
    for (i = 0; i < 3; i++) usable &= fabs(w_radps[i]) <= VIL_IMU_MAX_RADPS && fabs(f_mps2[i]) <= VIL_IMU_MAX_MPS2;
    pthread_mutex_lock(&imu->lock);
    since = t_ns - imu->samples[(imu->next + VIL_IMU_SAMPLES - 1) % VIL_IMU_SAMPLES].t_ns;
    if (!usable) {
        imu->rejected++;
    } else if (imu->held && since <= 0 && since >= -VIL_IMU_JUMP) {
        imu->out_of_order++;
        usable = 0;
    } else {
        if (imu->held && (since > VIL_IMU_JUMP || since < 0)) {
            imu->held = 0;
            imu->resets++;
        }
        sample = &imu->samples[imu->next];
        sample->t_ns = t_ns;
        memcpy(sample->w_radps, w_radps, sizeof sample->w_radps);
        memcpy(sample->f_mps2, f_mps2, sizeof sample->f_mps2);
        imu->next = (imu->next + 1) % VIL_IMU_SAMPLES;
        if (imu->held < VIL_IMU_SAMPLES) imu->held++;
    }
    pthread_mutex_unlock(&imu->lock);
    return usable;
}

static inline const vil_imu_sample *vil__imu_at(const vil_imu *imu, int i) { /* 0 = the oldest */
    return &imu->samples[(imu->next + VIL_IMU_SAMPLES - imu->held + i) % VIL_IMU_SAMPLES];
}

/* A sample at an instant between two; the nearest one held outside. */
static inline vil_imu_sample vil__imu_between(const vil_imu_sample *a, const vil_imu_sample *b, int64_t t_ns) {
    vil_imu_sample cut = *a;
    double share = b->t_ns > a->t_ns ? (double)(t_ns - a->t_ns) / (double)(b->t_ns - a->t_ns) : 0.0;
    int i;
    cut.t_ns = t_ns;
    for (i = 0; i < 3; i++) {
        cut.w_radps[i] += share * (b->w_radps[i] - a->w_radps[i]);
        cut.f_mps2[i] += share * (b->f_mps2[i] - a->f_mps2[i]);
    }
    return cut;
}

/* Adds to a sample beyond the newest one the trend of the last 10 ms, for 10 ms. */
static inline void vil__imu_go_on(const vil_imu *imu, vil_imu_sample *sample) {
    int64_t newest = vil__imu_at(imu, imu->held - 1)->t_ns, ahead = sample->t_ns - newest;
    double mean = 0, square = 0, w[3] = {0, 0, 0}, f[3] = {0, 0, 0};
    int first = imu->held - 1, k, i;
    if (ahead <= 0) return;
    if (ahead > VIL_IMU_TREND) ahead = VIL_IMU_TREND;
    while (first > 0 && vil__imu_at(imu, first - 1)->t_ns >= newest - VIL_IMU_TREND) first--;
    if (newest - vil__imu_at(imu, first)->t_ns < VIL_IMU_TREND / 2) return; /* the slope is that of the noise */
    for (k = first; k < imu->held; k++) mean += (double)(vil__imu_at(imu, k)->t_ns - newest) * 1e-9;
    mean /= imu->held - first;
    for (k = first; k < imu->held; k++) {
        const vil_imu_sample *one = vil__imu_at(imu, k);
        double tau = (double)(one->t_ns - newest) * 1e-9 - mean;
        square += tau * tau;
        for (i = 0; i < 3; i++) {
            w[i] += tau * one->w_radps[i];
            f[i] += tau * one->f_mps2[i];
        }
    }
    for (i = 0; i < 3; i++) {
        sample->w_radps[i] += (double)ahead * 1e-9 * w[i] / square;
        sample->f_mps2[i] += (double)ahead * 1e-9 * f[i] / square;
    }
}

/* Samples over [t0, t1], interpolated at the ends, into cut (VIL_IMU_SAMPLES + 3), and how far that is beyond the newest
 * one. NULL, or why the samples do not cover it. The ring is locked. */
static inline const char *vil__imu_cut(const vil_imu *imu, int64_t t0, int64_t t1, vil_imu_sample *cut, int *count,
                                       int64_t *held_ns) {
    int64_t before;
    int i, n = imu->held;
    if (!n || t0 < vil__imu_at(imu, 0)->t_ns) return "inertial samples do not reach back to the picture";
    *held_ns = t1 - vil__imu_at(imu, n - 1)->t_ns;
    if (*held_ns < 0) *held_ns = 0;
    if (*held_ns > VIL_IMU_STALE) return "inertial samples are old";
    for (i = n - 1; vil__imu_at(imu, i)->t_ns > t0; i--) continue; /* the last one up to t0 */
    before = vil__imu_at(imu, i)->t_ns;
    cut[0] = vil__imu_between(vil__imu_at(imu, i), vil__imu_at(imu, i + 1 < n ? i + 1 : i), t0);
    for (*count = 1, i++; i < n && vil__imu_at(imu, i)->t_ns < t1; i++) {
        cut[*count] = *vil__imu_at(imu, i);
        if (cut[*count].t_ns - before > VIL_IMU_STALE) return "inertial samples have a gap";
        before = cut[(*count)++].t_ns;
    }
    if (i < n && vil__imu_at(imu, i)->t_ns - before > VIL_IMU_STALE) return "inertial samples have a gap";
    before = vil__imu_at(imu, n - 1)->t_ns + VIL_IMU_TREND;
    if (t0 < before && before < t1) {
        cut[*count] = *vil__imu_at(imu, n - 1);
        cut[(*count)++].t_ns = before;
    }
    cut[*count] = vil__imu_between(vil__imu_at(imu, i - 1), vil__imu_at(imu, i < n ? i : i - 1), t1);
    (*count)++;
    for (i = 0; i < *count; i++) vil__imu_go_on(imu, &cut[i]);
    return NULL;
}

/* --- poses -------------------------------------------------------------------------------------------------- */

static inline void vil__q_mul(const double a[4], const double b[4], double out[4]) {
    double q[4];
    q[0] = a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1];
    q[1] = a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0];
    q[2] = a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3];
    q[3] = a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2];
    memcpy(out, q, sizeof q);
}

static inline void vil__q_conj(const double q[4], double out[4]) {
    int i;
    for (i = 0; i < 3; i++) out[i] = -q[i];
    out[3] = q[3];
}

static inline void vil__q_exp(const double turn_rad[3], double out[4]) {
    double half = 0.5 * sqrt(turn_rad[0] * turn_rad[0] + turn_rad[1] * turn_rad[1] + turn_rad[2] * turn_rad[2]);
    double scale = 0.5 * (half < 1e-8 ? 1.0 : sin(half) / half);
    int i;
    for (i = 0; i < 3; i++) out[i] = scale * turn_rad[i];
    out[3] = cos(half);
}

static inline void vil__q_matrix(const double q[4], double R[9]) {
    double x = q[0], y = q[1], z = q[2], w = q[3];
    R[0] = x * x - y * y - z * z + w * w;
    R[1] = 2 * (x * y - z * w);
    R[2] = 2 * (x * z + y * w);
    R[3] = 2 * (x * y + z * w);
    R[4] = -x * x + y * y - z * z + w * w;
    R[5] = 2 * (y * z - x * w);
    R[6] = 2 * (x * z - y * w);
    R[7] = 2 * (y * z + x * w);
    R[8] = -x * x - y * y + z * z + w * w;
}

/* out += R v, or R^T v */
static inline void vil__add_turned(const double R[9], const double v[3], int back, double out[3]) {
    int i;
    for (i = 0; i < 3; i++)
        out[i] += back ? R[i] * v[0] + R[3 + i] * v[1] + R[6 + i] * v[2]
                       : R[3 * i] * v[0] + R[3 * i + 1] * v[1] + R[3 * i + 2] * v[2];
}

static inline void vil__cross(const double a[3], const double b[3], double out[3]) {
    double c[3];
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
    memcpy(out, c, sizeof c);
}

static inline double vil__dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline vil_pose vil__after(const vil_pose *a_b, const vil_pose *b_c) { /* T_a_c */
    vil_pose a_c = *a_b;
    double R[9];
    vil__q_matrix(a_b->q_xyzw, R);
    vil__add_turned(R, b_c->p_m, 0, a_c.p_m);
    vil__q_mul(a_b->q_xyzw, b_c->q_xyzw, a_c.q_xyzw);
    return a_c;
}

static inline vil_pose vil__inverse(const vil_pose *a_b) {
    vil_pose b_a;
    double R[9], back[3];
    int i;
    memset(&b_a, 0, sizeof b_a);
    for (i = 0; i < 3; i++) back[i] = -a_b->p_m[i];
    vil__q_matrix(a_b->q_xyzw, R);
    vil__add_turned(R, back, 1, b_a.p_m);
    vil__q_conj(a_b->q_xyzw, b_a.q_xyzw);
    return b_a;
}

/* A mounting as the bridge writes it: turned about z, y, x in this order. 0 on success. */
static inline int vil__placed(vil_json mount, vil_pose *pose) {
    double ypr[3], turn[3] = {0, 0, 0}, q[4];
    int i;
    if (vil__numbers(vil__member(mount, "p_m"), pose->p_m, 3) || vil__numbers(vil__member(mount, "ypr_deg"), ypr, 3))
        return -1;
    vil__q_exp(turn, pose->q_xyzw);
    for (i = 0; i < 3; i++) {
        memset(turn, 0, sizeof turn);
        turn[2 - i] = ypr[i] * (3.14159265358979323846 / 180.0);
        vil__q_exp(turn, q);
        vil__q_mul(pose->q_xyzw, q, pose->q_xyzw);
    }
    return 0;
}

/* --- the carrier now: what the bridge measured last, and the samples since -------------------------------- */

/* Adds to beta, alpha and q one step of a rate and a force that stay constant: both are the mean of its ends. */
static inline void vil__step(const vil_imu_sample *a, const vil_imu_sample *b, double q[4], double beta[3],
                             double alpha[3]) {
    double dt = (double)(b->t_ns - a->t_ns) * 1e-9, angle[3], f[3], sf[3], ssf[3], R[9], turn[4], v[3], p[3];
    double a2, c1, c2, c3;
    int i;
    for (i = 0; i < 3; i++) {
        angle[i] = 0.5 * (a->w_radps[i] + b->w_radps[i]) * dt;
        f[i] = 0.5 * (a->f_mps2[i] + b->f_mps2[i]);
    }
    a2 = vil__dot(angle, angle);
    if (a2 < 1e-2) { /* series, where the closed forms cancel */
        c1 = 1.0 / 2 - a2 * (1.0 / 24 - a2 * (1.0 / 720 - a2 * (1.0 / 40320 - a2 / 3628800.0)));
        c2 = 1.0 / 6 - a2 * (1.0 / 120 - a2 * (1.0 / 5040 - a2 * (1.0 / 362880 - a2 / 39916800.0)));
        c3 = 1.0 / 24 - a2 * (1.0 / 720 - a2 * (1.0 / 40320 - a2 * (1.0 / 3628800 - a2 / 479001600.0)));
    } else {
        double whole = sqrt(a2);
        c1 = (1 - cos(whole)) / a2;
        c2 = (whole - sin(whole)) / (whole * a2);
        c3 = (a2 / 2 + cos(whole) - 1) / (a2 * a2);
    }
    vil__cross(angle, f, sf);
    vil__cross(angle, sf, ssf);
    for (i = 0; i < 3; i++) {
        v[i] = (f[i] + c1 * sf[i] + c2 * ssf[i]) * dt;
        p[i] = (0.5 * f[i] + c2 * sf[i] + c3 * ssf[i]) * dt * dt;
        alpha[i] += beta[i] * dt;
    }
    vil__q_matrix(q, R);
    vil__add_turned(R, p, 0, alpha);
    vil__add_turned(R, v, 0, beta);
    vil__q_exp(angle, turn);
    vil__q_mul(q, turn, q);
}

/* Moves the carrier from where it was measured to t_ns by the samples since, and says how old the newest one is then.
 * NULL, or why the samples do not suffice. */
static inline const char *vil_move(vil_imu *imu, const vil_motion *motion, const vil_pose *T_body_imu, int64_t t_ns,
                                   vil_body *now, int64_t *imu_age_ns) {
    static const double gravity_mps2[3] = {0.0, 0.0, -9.80665};
    vil_imu_sample *cut = (vil_imu_sample *)malloc((VIL_IMU_SAMPLES + 3) * sizeof *cut);
    const vil_body *was = &motion->measured;
    double beta[3] = {0, 0, 0}, alpha[3] = {0, 0, 0}, q[4] = {0, 0, 0, 1}, R[9], lever[3], v[3], dt;
    vil_pose T_world_imu, T_imu_body = vil__inverse(T_body_imu);
    const char *problem = "no memory";
    int i, k, count = 0;
    if (t_ns < was->t_ns) problem = "the bridge measured after this instant";
    else if (t_ns - was->t_ns > VIL_IMU_UNSEEN) problem = "the bridge measured the vehicle too long ago";
    else if (cut) {
        pthread_mutex_lock(&imu->lock);
        problem = vil__imu_cut(imu, was->t_ns + motion->imu_late_ns, t_ns + motion->imu_late_ns, cut, &count,
                               imu_age_ns);
        pthread_mutex_unlock(&imu->lock);
    }
    if (problem) {
        free(cut);
        return problem;
    }
    for (k = 0; k < count; k++)
        for (i = 0; i < 3; i++) {
            cut[k].w_radps[i] = (cut[k].w_radps[i] - motion->gyro_bias_radps[i]) * (1.0 + motion->gyro_scale[i]);
            cut[k].f_mps2[i] -= motion->accel_bias_mps2[i];
        }
    for (k = 0; k + 1 < count; k++) vil__step(&cut[k], &cut[k + 1], q, beta, alpha);
    dt = (double)(t_ns - was->t_ns) * 1e-9;
    vil__q_matrix(was->T_world_body.q_xyzw, R);
    vil__cross(was->w_body_radps, T_body_imu->p_m, lever);
    memcpy(v, was->v_world_mps, sizeof v);
    vil__add_turned(R, lever, 0, v);
    T_world_imu = vil__after(&was->T_world_body, T_body_imu);
    vil__q_matrix(T_world_imu.q_xyzw, R);
    for (i = 0; i < 3; i++) {
        T_world_imu.p_m[i] += v[i] * dt + 0.5 * gravity_mps2[i] * dt * dt;
        v[i] += gravity_mps2[i] * dt;
    }
    vil__add_turned(R, alpha, 0, T_world_imu.p_m);
    vil__add_turned(R, beta, 0, v);
    vil__q_mul(T_world_imu.q_xyzw, q, T_world_imu.q_xyzw);
    now->t_ns = t_ns;
    now->T_world_body = vil__after(&T_world_imu, &T_imu_body);
    vil__q_matrix(T_body_imu->q_xyzw, R);
    memset(now->w_body_radps, 0, sizeof now->w_body_radps);
    vil__add_turned(R, cut[count - 1].w_radps, 0, now->w_body_radps);
    vil__cross(T_body_imu->p_m, now->w_body_radps, lever); /* back from the IMU to the body's origin */
    vil__q_matrix(now->T_world_body.q_xyzw, R);
    vil__add_turned(R, lever, 0, v);
    memcpy(now->v_world_mps, v, sizeof v);
    free(cut);
    return NULL;
}

/* --- pictures: moved as a plane -------------------------------------------------------------------------------- */

static inline void vil__distort(const vil_camera *camera, double x, double y, double out[2]) {
    const double *k = camera->coefficients;
    double r2 = x * x + y * y;
    if (camera->lens == 1) {
        double radial = 1 + r2 * (k[0] + r2 * (k[1] + r2 * k[4]));
        out[0] = x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x);
        out[1] = y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y;
    } else {
        double r = fmax(sqrt(r2), 1e-9), theta = atan(r), t2 = theta * theta;
        double scale = theta * (1 + t2 * (k[0] + t2 * (k[1] + t2 * (k[2] + t2 * k[3])))) / r;
        out[0] = camera->lens ? x * scale : x;
        out[1] = camera->lens ? y * scale : y;
    }
}

/* The slopes of the distorted point: by x a and b, by y c and d. */
static inline void vil__slopes(const vil_camera *camera, const double xy[2], double slopes[4]) {
    const double h = 1e-6;
    double more[2], less[2];
    int i, j;
    for (i = 0; i < 2; i++) {
        vil__distort(camera, xy[0] + (i ? 0 : h), xy[1] + (i ? h : 0), more);
        vil__distort(camera, xy[0] - (i ? 0 : h), xy[1] - (i ? h : 0), less);
        for (j = 0; j < 2; j++) slopes[2 * i + j] = (more[j] - less[j]) / (2 * h);
    }
}

/* The ideal coordinates of distorted ones, by Newton's method; NaN outside the lens model. */
static inline void vil__undistort(const vil_camera *camera, const double xy[2], double out[2]) {
    double s[4], bent[2], ex, ey, det;
    int i;
    out[0] = xy[0];
    out[1] = xy[1];
    if (!camera->lens) return;
    for (i = 0; i < 20; i++) {
        vil__distort(camera, out[0], out[1], bent);
        vil__slopes(camera, out, s);
        ex = bent[0] - xy[0];
        ey = bent[1] - xy[1];
        det = s[0] * s[3] - s[1] * s[2];
        out[0] -= (s[3] * ex - s[2] * ey) / det;
        out[1] -= (s[0] * ey - s[1] * ex) / det;
    }
    vil__distort(camera, out[0], out[1], bent);
    vil__slopes(camera, out, s);
    if (!(fabs(bent[0] - xy[0]) < 1e-6 && fabs(bent[1] - xy[1]) < 1e-6 && s[0] * s[3] > s[1] * s[2] && s[0] + s[3] > 0))
        out[0] = out[1] = NAN;
}

static inline int vil_grid_columns(const vil_camera *camera) { return (camera->width + VIL_GRID - 1) / VIL_GRID + 2; }
static inline int vil_grid_rows(const vil_camera *camera) { return (camera->height + VIL_GRID - 1) / VIL_GRID + 2; }

/* Ideal coordinates of the nodes, one cell beyond the picture on each side: x and y of each, row by row. */
static inline void vil_grid_rays(const vil_camera *camera, double *rays) {
    int row, column;
    for (row = 0; row < vil_grid_rows(camera); row++)
        for (column = 0; column < vil_grid_columns(camera); column++, rays += 2) {
            double xy[2];
            xy[0] = ((column - 0.5) * VIL_GRID - 0.5 - camera->cx) / camera->fx;
            xy[1] = ((row - 0.5) * VIL_GRID - 0.5 - camera->cy) / camera->fy;
            vil__undistort(camera, xy, rays);
        }
}

/* For each node the pixel, x and y, of the picture taken at T_world_shown that is seen there from T_world_now; -1e6
 * where none is. */
static inline void vil_grid_map(const vil_camera *camera, const double *rays, const vil_pose *T_world_shown,
                                const vil_pose *T_world_now, const vil_plane *plane, double *map) {
    vil_pose T_shown_world = vil__inverse(T_world_shown), T_shown_now = vil__after(&T_shown_world, T_world_now);
    double R[9], m[3], ahead;
    int i, k, nodes = vil_grid_rows(camera) * vil_grid_columns(camera);
    vil__q_matrix(T_shown_now.q_xyzw, R);
    for (i = 0; i < 3; i++) m[i] = plane->normal[i] / plane->d_m;
    ahead = 1.0 - vil__dot(m, T_shown_now.p_m);
    for (k = 0; k < nodes; k++, rays += 2, map += 2) {
        double ray[3], X[3] = {0, 0, 0}, along, bent[2];
        ray[0] = rays[0];
        ray[1] = rays[1];
        ray[2] = 1.0;
        vil__add_turned(R, ray, 0, X);
        along = X[2] > 1e-3 ? vil__dot(X, m) / ahead : NAN;
        for (i = 0; i < 3; i++) X[i] += T_shown_now.p_m[i] * along;
        vil__distort(camera, X[0] / X[2], X[1] / X[2], bent);
        map[0] = bent[0] * camera->fx + camera->cx;
        map[1] = bent[1] * camera->fy + camera->cy;
        if (!(fabs(map[0]) < 1e6 && fabs(map[1]) < 1e6 && X[2] > 0)) map[0] = map[1] = -1e6;
    }
}

/* Draws a gray picture through a map, bilinear; 0 where it shows nothing. */
static inline void vil_remap(const vil_camera *camera, const uint8_t *from, const double *map, uint8_t *to) {
    int columns = vil_grid_columns(camera), w = camera->width, h = camera->height, u, v, i;
    for (v = 0; v < h; v++) {
        double row = (v + 0.5) / VIL_GRID + 0.5, down = row - floor(row);
        const double *upper = map + 2 * columns * (int)row, *lower = upper + 2 * columns;
        for (u = 0; u < w; u++) {
            double column = (u + 0.5) / VIL_GRID + 0.5, across = column - floor(column), at[2], x, y, sum = 0;
            int node = 2 * (int)column, x0, y0;
            for (i = 0; i < 2; i++)
                at[i] = (1 - down) * ((1 - across) * upper[node + i] + across * upper[node + 2 + i]) +
                        down * ((1 - across) * lower[node + i] + across * lower[node + 2 + i]);
            if (at[0] > -1 && at[1] > -1 && at[0] < w && at[1] < h) {
                x0 = (int)floor(at[0]);
                y0 = (int)floor(at[1]);
                x = at[0] - x0;
                y = at[1] - y0;
                for (i = 0; i < 4; i++) {
                    int px = x0 + (i & 1), py = y0 + (i >> 1);
                    if (px >= 0 && py >= 0 && px < w && py < h)
                        sum += (i & 1 ? x : 1 - x) * (i >> 1 ? y : 1 - y) * from[(size_t)w * (size_t)py + (size_t)px];
                }
            }
            *to++ = (uint8_t)(sum + 0.5);
        }
    }
}

/* --- the wire ---------------------------------------------------------------------------------------------- */

static inline void *vil__socket(vil_receiver *r, const char *endpoint, int64_t limit_bytes, const char *identity) {
    void *socket = zmq_socket(r->context, ZMQ_DEALER);
    /* Keep-alive of TCP, not ZeroMQ's heartbeats: libzmq's issue 4364. */
    const int options[][2] = {{ZMQ_LINGER, 0},           {ZMQ_IMMEDIATE, 1},          {ZMQ_RCVHWM, 16},
                              {ZMQ_RECONNECT_IVL, 50},   {ZMQ_RECONNECT_IVL_MAX, 500}, {ZMQ_TCP_MAXRT, 5000},
                              {ZMQ_TCP_KEEPALIVE, 1},    {ZMQ_TCP_KEEPALIVE_IDLE, 2}, {ZMQ_TCP_KEEPALIVE_INTVL, 1},
                              {ZMQ_TCP_KEEPALIVE_CNT, 3}};
    size_t i;
    if (!socket) return NULL;
    for (i = 0; i < sizeof options / sizeof options[0]; i++)
        zmq_setsockopt(socket, options[i][0], &options[i][1], sizeof(int));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &limit_bytes, sizeof limit_bytes);
    if (identity) zmq_setsockopt(socket, ZMQ_ROUTING_ID, identity, strlen(identity));
    if (zmq_connect(socket, endpoint) != 0) {
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

static inline void vil__leave(vil_receiver *r) {
    if (r->data) zmq_close(r->data);
    r->data = NULL;
    r->token[0] = '\0';
    r->t_ping_ns = r->t_register_ns = 0;
    r->aged = 0;
    snprintf(r->problem, sizeof r->problem, "not registered");
}

static inline int vil__say(vil_receiver *r, const char *text, int length) {
    return zmq_send(r->control, text, (size_t)length, ZMQ_DONTWAIT) == length;
}

/* Says what is due: a clock exchange, a registration. */
static inline void vil__talk(vil_receiver *r, int64_t now_ns) {
    char text[512];
    if (now_ns - r->t_heard_ns > 2 * VIL_SECOND)
        snprintf(r->problem, sizeof r->problem, "no answer from %.100s", r->endpoint);
    if (now_ns >= r->t_ping_ns) {
        int64_t t1 = vil_now_ns();
        int n = snprintf(text, sizeof text,
                         "{\"type\":\"ping\",\"token\":\"%s\",\"t1\":%" PRId64 ",\"too_old\":%" PRIu64 "}", r->token, t1,
                         r->too_old);
        if (vil__say(r, text, n)) r->pings[r->ping_count++ % 64] = t1;
        r->ping_count = r->ping_count % 64;
        r->t_ping_ns = now_ns + (r->clock.count < VIL_FIRST_PINGS ? VIL_SECOND / 50
                                 : r->token[0]                    ? VIL_SECOND * 3 / 50
                                                                  : VIL_SECOND / 5);
    }
    if (!r->token[0] && r->clock.count >= VIL_FIRST_PINGS && now_ns >= r->t_register_ns) {
        int n = snprintf(text, sizeof text,
                         "{\"type\":\"register\",\"v\":1,\"camera\":\"%s\",\"modality\":\"rgb\",\"variant\":\"%s\","
                         "\"encoding\":\"raw\",\"color\":\"gray\",\"name\":\"vil_receiver.h\"}",
                         r->camera, r->variant);
        vil__say(r, text, n);
        r->t_register_ns = now_ns + VIL_SECOND / 2;
    }
}

static inline int vil__on_pong(vil_receiver *r, vil_json pong, int64_t t4) {
    int64_t t1, t2, t3, in_flight;
    char instance[65];
    int i, known = vil__is(vil__member(pong, "known"), "true");
    vil_json problem = vil__member(pong, "problem");
    if (vil__integer(vil__member(pong, "t1"), &t1) || vil__integer(vil__member(pong, "t2"), &t2) ||
        vil__integer(vil__member(pong, "t3"), &t3) || vil__integer(vil__member(pong, "in_flight"), &in_flight) ||
        vil__text(vil__member(pong, "instance"), instance, sizeof instance))
        return -1;
    for (i = 0; i < 64 && r->pings[i] != t1; i++) continue;
    if (i == 64 || t1 == 0) return -1; /* never asked */
    r->pings[i] = 0;
    r->t_heard_ns = t4;
    if (strcmp(instance, r->instance)) { /* another process, perhaps another clock */
        memcpy(r->instance, instance, sizeof instance);
        memset(&r->clock, 0, sizeof r->clock);
        r->last_t_bridge_ns = -VIL_MAX_TIME;
        vil__leave(r);
    }
    vil_clock_add(&r->clock, t1, t2, t3, t4);
    if (r->token[0]) {
        int64_t since = r->t_frame_ns > r->t_register_ns ? r->t_frame_ns : r->t_register_ns;
        if (vil__is(vil__member(pong, "frozen"), "true")) r->t_usable_ns = -VIL_MAX_TIME;
        if (!known || (in_flight >= 2 && t4 - since > 5 * VIL_SECOND)) vil__leave(r);
        else if (r->aged)
            snprintf(r->problem, sizeof r->problem,
                     "pictures arrive older than the camera's max_age_ms: the link is too slow for their size");
        else if (!problem.at) r->problem[0] = '\0';
        else if (vil__text(problem, r->problem, sizeof r->problem))
            snprintf(r->problem, sizeof r->problem, "the bridge has a problem; its status has the text");
    }
    return 0;
}

/* A mounting as T_body_camera, optical axes. 0 on success. */
static inline int vil__mounted(vil_json mount, vil_pose *T_body_optical) {
    static const vil_pose T_camera_optical = {{0.0, 0.0, 0.0}, {-0.5, 0.5, -0.5, 0.5}};
    vil_pose T_body_camera;
    if (vil__placed(mount, &T_body_camera)) return -1;
    *T_body_optical = vil__after(&T_body_camera, &T_camera_optical);
    return 0;
}

/* The bridge's description of the camera, for the late warp. 0 on success. */
static inline int vil__described(vil_json info, vil_camera *camera) {
    vil_json lens = vil__member(info, "distortion"), model = vil__member(lens, "model");
    vil_json k = vil__member(lens, "coefficients");
    int64_t width, height;
    memset(camera, 0, sizeof *camera);
    if (vil__number(vil__member(info, "fx"), &camera->fx) || vil__number(vil__member(info, "fy"), &camera->fy) ||
        vil__number(vil__member(info, "cx"), &camera->cx) || vil__number(vil__member(info, "cy"), &camera->cy) ||
        vil__integer(vil__member(info, "width"), &width) || vil__integer(vil__member(info, "height"), &height) ||
        width < 1 || height < 1 || width > VIL_MAX_SIDE || height > VIL_MAX_SIDE ||
        vil__mounted(vil__member(info, "T_body_camera"), &camera->T_body_camera))
        return -1;
    camera->width = (int)width;
    camera->height = (int)height;
    if (!lens.at || vil__is(lens, "null")) return 0;
    camera->lens = vil__is(model, "\"plumb_bob\"") ? 1 : vil__is(model, "\"equidistant\"") ? 2 : 0;
    return camera->lens && !vil__numbers(k, camera->coefficients, camera->lens == 1 ? 5 : 4) ? 0 : -1;
}

static inline int vil__on_registered(vil_receiver *r, vil_json answer) {
    vil_json info = vil__member(answer, "camera");
    char token[65], endpoint[160];
    int64_t port;
    if (vil__text(vil__member(answer, "token"), token, sizeof token) || !token[0] ||
        vil__integer(vil__member(answer, "data_port"), &port) || port < 1 || port > 65535)
        return -1;
    vil__leave(r);
    snprintf(endpoint, sizeof endpoint, "%s:%d", r->host, (int)port);
    r->data = vil__socket(r, endpoint, VIL_MAX_PIXELS, token);
    if (!r->data) return -1;
    memcpy(r->token, token, sizeof token);
    r->has_camera = !vil__described(info, &r->described);
    r->has_T_body_imu = !vil__placed(vil__member(info, "T_body_imu"), &r->T_body_imu);
    r->problem[0] = '\0';
    r->t_register_ns = vil_now_ns();
    r->registrations++;
    return 0;
}

static inline int vil__on_control(vil_receiver *r, vil_json message, int64_t t_ns) {
    vil_json type = vil__member(message, "type");
    if (!vil__whole(message)) return -1;
    if (vil__is(type, "\"pong\"")) return vil__on_pong(r, message, t_ns);
    if (vil__is(type, "\"registered\"")) return vil__on_registered(r, message);
    if (vil__is(type, "\"error\"")) {
        char reason[128];
        if (vil__text(vil__member(message, "reason"), reason, sizeof reason)) return -1;
        memcpy(r->problem, reason, sizeof reason);
        return 0;
    }
    return -1;
}

static inline void vil__acknowledge(vil_receiver *r, int64_t frame_id, int64_t t_received_ns) {
    char text[256];
    int n = snprintf(text, sizeof text,
                     "{\"type\":\"credit\",\"token\":\"%s\",\"frame_id\":%" PRId64 ",\"t_received_ns\":%" PRId64
                     ",\"uncertainty_ns\":%" PRId64 "}",
                     r->token, frame_id, vil_clock_to_bridge_ns(&r->clock, t_received_ns),
                     vil_clock_uncertainty_ns(&r->clock, t_received_ns));
    vil__say(r, text, n);
}

/* Copies rows so that the top one comes first. */
static inline int vil__take(vil_receiver *r, const uint8_t *rows, int width, int height, int bottom_up) {
    size_t size = (size_t)width * (size_t)height;
    int y;
    if (size > r->capacity) {
        uint8_t *larger = (uint8_t *)realloc(r->pixels, size);
        if (!larger) return -1;
        r->pixels = larger;
        r->capacity = size;
    }
    for (y = 0; y < height; y++)
        memcpy(r->pixels + (size_t)width * (size_t)(bottom_up ? height - 1 - y : y), rows + (size_t)width * (size_t)y,
               (size_t)width);
    return 0;
}

/* Whether a picture is older than the camera's max_age_ms by this computer's clock; then it is counted. */
static inline int vil__is_too_old(vil_receiver *r, int64_t t_expires_ns) {
    int old = vil_now_ns() > t_expires_ns;
    if (old) r->too_old++;
    return old;
}

/* What the bridge knows of the carrier; offset_ns = this computer's time minus the bridge's. 0 on success. */
static inline int vil__motion_of(vil_json motion, int64_t offset_ns, vil_motion *known) {
    vil_json measured = vil__member(motion, "measured");
    vil_body *body = &known->measured;
    memset(known, 0, sizeof *known); /* what is not known is not corrected */
    if (vil__integer(vil__member(measured, "t_ns"), &body->t_ns) ||
        vil__numbers(vil__member(measured, "p_m"), body->T_world_body.p_m, 3) ||
        vil__numbers(vil__member(measured, "q_xyzw"), body->T_world_body.q_xyzw, 4) ||
        vil__numbers(vil__member(measured, "v_world_mps"), body->v_world_mps, 3) ||
        vil__numbers(vil__member(measured, "w_body_radps"), body->w_body_radps, 3))
        return -1;
    body->t_ns += offset_ns;
    vil__numbers(vil__member(motion, "gyro_bias_radps"), known->gyro_bias_radps, 3);
    vil__numbers(vil__member(motion, "accel_bias_mps2"), known->accel_bias_mps2, 3);
    vil__numbers(vil__member(motion, "gyro_scale"), known->gyro_scale, 3);
    vil__integer(vil__member(motion, "imu_late_ns"), &known->imu_late_ns);
    return 0;
}

/* The plane that the bridge took for the picture, in the axes of the camera that it shows; 8 m where it took none. */
static inline vil_plane vil__plane_of(vil_json header, const vil_frame *frame) {
    vil_json took = vil__member(header, "compensation"), rendered = vil__member(header, "pose_rendered");
    vil_plane plane = {8.0, {0.0, 0.0, 1.0}};
    vil_pose T_world_rendered, T_rendered_world, T_rendered_shown;
    double normal[3], R[9];
    if (vil__number(vil__member(took, "d_m"), &plane.d_m)) return plane;
    if (vil__numbers(vil__member(took, "normal"), normal, 3) ||
        vil__numbers(vil__member(rendered, "p_m"), T_world_rendered.p_m, 3) ||
        vil__numbers(vil__member(rendered, "q_xyzw"), T_world_rendered.q_xyzw, 4))
        return plane;
    memcpy(T_rendered_shown.p_m, frame->p_m, sizeof frame->p_m);
    memcpy(T_rendered_shown.q_xyzw, frame->q_xyzw, sizeof frame->q_xyzw);
    T_rendered_world = vil__inverse(&T_world_rendered);
    T_rendered_shown = vil__after(&T_rendered_world, &T_rendered_shown);
    plane.d_m -= vil__dot(normal, T_rendered_shown.p_m);
    memset(plane.normal, 0, sizeof plane.normal);
    vil__q_matrix(T_rendered_shown.q_xyzw, R);
    vil__add_turned(R, normal, 1, plane.normal);
    return plane;
}

static inline int vil__on_picture(vil_receiver *r, vil_json header, const uint8_t *rows, size_t size) {
    int64_t t_received_ns = vil_now_ns(), t_expires_ns = VIL_MAX_TIME, width, height;
    vil_json pose = vil__member(header, "pose_display"), expires = vil__member(header, "t_expires_ns");
    vil_frame frame;
    memset(&frame, 0, sizeof frame);
    r->received++;
    r->t_frame_ns = t_received_ns;
    if (!vil__whole(header) || vil__integer(vil__member(header, "frame_id"), &frame.frame_id) ||
        vil__integer(vil__member(header, "t_display_ns"), &frame.t_bridge_ns))
        return -1;
    vil__acknowledge(r, frame.frame_id, t_received_ns);
    if (vil__integer(vil__member(header, "width"), &width) || vil__integer(vil__member(header, "height"), &height) ||
        width < 1 || height < 1 || width > VIL_MAX_SIDE || height > VIL_MAX_SIDE || size != (size_t)(width * height) ||
        !vil__is(vil__member(header, "format"), "\"gray8\"") || !vil__is(vil__member(header, "encoding"), "\"raw\""))
        return -1;
    if (expires.at) { /* older bridges do not say it */
        if (vil__integer(expires, &t_expires_ns)) return -1;
        t_expires_ns = vil_clock_to_vehicle_ns(&r->clock, t_expires_ns);
    }
    frame.t_ns = vil_clock_to_vehicle_ns(&r->clock, frame.t_bridge_ns);
    if (frame.t_ns - t_received_ns > VIL_SECOND) return -1; /* else nothing would be newer for long */
    if (frame.t_bridge_ns <= r->last_t_bridge_ns || frame.t_ns <= r->last_t_ns) {
        r->late++;
        return 0;
    }
    r->aged = vil__is_too_old(r, t_expires_ns);
    if (r->aged) return 0;
    if (vil__take(r, rows, (int)width, (int)height, vil__is(vil__member(header, "rows"), "\"bottom_up\""))) return -1;
    r->last_t_bridge_ns = frame.t_bridge_ns;
    r->last_t_ns = frame.t_ns;
    r->t_expires_ns = t_expires_ns;
    frame.clock_uncertainty_ns = vil_clock_uncertainty_ns(&r->clock, t_received_ns);
    frame.pixels = r->pixels;
    frame.width = (int)width;
    frame.height = (int)height;
    if (vil__numbers(vil__member(header, "K"), frame.K, 4)) memset(frame.K, 0, sizeof frame.K);
    frame.has_pose = !vil__numbers(vil__member(pose, "p_m"), frame.p_m, 3) &&
                     !vil__numbers(vil__member(pose, "q_xyzw"), frame.q_xyzw, 4);
    frame.blank = vil__is(vil__member(header, "blank"), "true");
    frame.has_motion =
        !vil__motion_of(vil__member(header, "motion"), frame.t_ns - frame.t_bridge_ns, &frame.motion);
    frame.plane = vil__plane_of(header, &frame);
    frame.camera = r->described;
    vil__mounted(vil__member(header, "T_body_camera"), &frame.camera.T_body_camera); /* moved in flight */
    if (!frame.blank) {
        r->t_usable_ns = t_received_ns;
        r->usable_age_ns = t_received_ns - frame.t_ns;
    }
    if (r->fresh) r->superseded++;
    r->newest = frame;
    r->fresh = 1;
    return 0;
}

/* The next message of one or two parts, as far as it has that many; 1 = one came, 0 = none, -1 = it is wrong. */
static inline int vil__receive(void *socket, zmq_msg_t parts[2], int wanted) {
    int count = 0, more = 1;
    while (more) {
        zmq_msg_t spare, *part = count < wanted ? &parts[count] : &spare;
        if (count >= wanted) zmq_msg_init(&spare);
        if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
            if (count >= wanted) zmq_msg_close(&spare);
            return 0;
        }
        more = zmq_msg_more(part);
        if (count >= wanted) zmq_msg_close(&spare);
        count++;
    }
    return count == wanted && zmq_msg_size(&parts[0]) <= VIL_MAX_TEXT ? 1 : -1;
}

static inline vil_json vil__json_of(zmq_msg_t *part) {
    const char *text = (const char *)zmq_msg_data(part);
    return vil__span(text, text + zmq_msg_size(part));
}

/* Handles what has arrived: 64 messages at most, so that a flood cannot keep the caller here. */
static inline void vil__drain(vil_receiver *r, int pictures) {
    int i, got = 1;
    for (i = 0; i < 64 && got; i++) {
        void *socket = pictures ? r->data : r->control;
        zmq_msg_t parts[2];
        int wrong;
        if (!socket) return;
        zmq_msg_init(&parts[0]);
        zmq_msg_init(&parts[1]);
        got = vil__receive(socket, parts, pictures ? 2 : 1);
        wrong = got < 0;
        if (got > 0 && pictures)
            wrong = vil__on_picture(r, vil__json_of(&parts[0]), (const uint8_t *)zmq_msg_data(&parts[1]),
                                    zmq_msg_size(&parts[1])) != 0;
        else if (got > 0) wrong = vil__on_control(r, vil__json_of(&parts[0]), vil_now_ns()) != 0;
        if (wrong) r->malformed++;
        zmq_msg_close(&parts[0]);
        zmq_msg_close(&parts[1]);
    }
}

/* --- what users call --------------------------------------------------------------------------------------- */

static inline int vil__plain(const char *text, size_t size) {
    size_t i;
    for (i = 0; text[i]; i++)
        if (i + 1 >= size || text[i] == '"' || text[i] == '\\' || (unsigned char)text[i] < 0x20) return 0;
    return i > 0;
}

static inline void vil_close(vil_receiver *r) {
    char text[128];
    if (r->control && r->token[0]) {
        const int linger_ms = 100;
        int n = snprintf(text, sizeof text, "{\"type\":\"unregister\",\"token\":\"%s\"}", r->token);
        zmq_setsockopt(r->control, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        vil__say(r, text, n);
    }
    if (r->data) zmq_close(r->data);
    if (r->control) zmq_close(r->control);
    if (r->context) zmq_ctx_term(r->context);
    free(r->pixels);
    free(r->moved_pixels);
    free(r->rays);
    free(r->map);
    r->control = r->data = r->context = NULL;
    r->pixels = r->moved_pixels = NULL;
    r->rays = r->map = NULL;
}

/* Endpoint tcp://host:port; variant "compensated" or "raw". 0, or -1 with errno: nothing is sent before vil_next. */
static inline int vil_open(vil_receiver *r, const char *endpoint, const char *camera, const char *variant) {
    const char *colon = strrchr(endpoint, ':');
    memset(r, 0, sizeof *r);
    if (strncmp(endpoint, "tcp://", 6) || !vil__plain(endpoint, sizeof r->endpoint) || colon < endpoint + 7 ||
        !vil__plain(camera, sizeof r->camera) || !vil__plain(variant, sizeof r->variant)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(r->endpoint, endpoint, strlen(endpoint));
    memcpy(r->host, endpoint, (size_t)(colon - endpoint));
    memcpy(r->camera, camera, strlen(camera));
    memcpy(r->variant, variant, strlen(variant));
    r->last_t_ns = r->last_t_bridge_ns = r->handed_t_ns = -VIL_MAX_TIME;
    r->t_heard_ns = vil_now_ns();
    r->t_usable_ns = -VIL_MAX_TIME;
    snprintf(r->problem, sizeof r->problem, "no answer from %.100s yet", endpoint);
    r->context = zmq_ctx_new();
    r->control = r->context ? vil__socket(r, endpoint, VIL_MAX_TEXT, NULL) : NULL;
    if (r->control) return 0;
    vil_close(r);
    return -1;
}

/* From now on compensated pictures are moved to the moment of the call by these samples, which any thread appends;
 * without usable ones the bridge's picture comes, and frame->problem says why. Needs the variant "compensated". */
static inline void vil_use_imu(vil_receiver *r, vil_imu *imu) {
    r->imu = imu;
}

static inline int vil__same_rays(const vil_camera *a, const vil_camera *b) {
    return a->fx == b->fx && a->fy == b->fy && a->cx == b->cx && a->cy == b->cy && a->width == b->width &&
           a->height == b->height && a->lens == b->lens &&
           !memcmp(a->coefficients, b->coefficients, sizeof a->coefficients);
}

/* Memory for the map of a camera, with its rays. 0 on success. */
static inline int vil__prepare_map(vil_receiver *r, const vil_camera *camera) {
    size_t nodes = 2 * sizeof(double) * (size_t)vil_grid_rows(camera) * (size_t)vil_grid_columns(camera);
    if (r->rays && vil__same_rays(camera, &r->rays_of)) return 0;
    free(r->rays);
    free(r->map);
    free(r->moved_pixels);
    r->rays = (double *)malloc(nodes);
    r->map = (double *)malloc(nodes);
    r->moved_pixels = (uint8_t *)malloc((size_t)camera->width * (size_t)camera->height);
    r->rays_of = *camera;
    if (r->rays && r->map && r->moved_pixels) {
        vil_grid_rays(camera, r->rays);
        return 0;
    }
    free(r->rays);
    r->rays = NULL;
    return -1;
}

/* Moves a picture to an instant. NULL, or why it stays what it is. */
static inline const char *vil__move_picture(vil_receiver *r, vil_frame *frame, int64_t t_ns) {
    vil_camera *camera = &frame->camera;
    vil_pose shown, now;
    const char *problem;
    if (strcmp(r->variant, "compensated")) return "only compensated pictures are moved";
    if (frame->blank || !frame->has_pose) return "no pose";
    if (!frame->has_motion) return "the bridge sends no motion of the carrier";
    if (!r->has_T_body_imu) return "T_body_imu is not known";
    if (!r->has_camera || camera->width != frame->width || camera->height != frame->height)
        return "the camera is not known";
    problem = vil_move(r->imu, &frame->motion, &r->T_body_imu, t_ns, &frame->body, &frame->imu_age_ns);
    if (problem) return problem;
    if (vil__prepare_map(r, camera)) return "no memory";
    memcpy(shown.p_m, frame->p_m, sizeof shown.p_m);
    memcpy(shown.q_xyzw, frame->q_xyzw, sizeof shown.q_xyzw);
    now = vil__after(&frame->body.T_world_body, &camera->T_body_camera);
    vil_grid_map(camera, r->rays, &shown, &now, &frame->plane, r->map);
    vil_remap(camera, frame->pixels, r->map, r->moved_pixels);
    memcpy(frame->p_m, now.p_m, sizeof now.p_m);
    memcpy(frame->q_xyzw, now.q_xyzw, sizeof now.q_xyzw);
    frame->pixels = r->moved_pixels;
    frame->moved = 1;
    frame->moved_ns = t_ns - frame->t_ns;
    frame->t_ns = t_ns;
    frame->t_bridge_ns = vil_clock_to_bridge_ns(&r->clock, t_ns);
    return NULL;
}

/* Hands out the newest picture; 0 where it is too old, or shows an earlier instant than one that was moved before. */
static inline int vil__hand_out(vil_receiver *r, vil_frame *frame) {
    r->fresh = 0;
    if (vil__is_too_old(r, r->t_expires_ns)) return 0;
    *frame = r->newest;
    if (r->imu) {
        int64_t now_ns = vil_now_ns();
        frame->problem = vil__move_picture(r, frame, now_ns > r->handed_t_ns ? now_ns : r->handed_t_ns + 1);
        if (frame->moved) r->moved++;
        else r->unmoved++;
    }
    if (frame->t_ns <= r->handed_t_ns) {
        r->late++;
        memset(frame, 0, sizeof *frame);
        return 0;
    }
    r->handed_t_ns = frame->t_ns;
    r->delivered++;
    return 1;
}

/* The newest picture not handed out yet: 1; 0 and frame->pixels NULL when none came within timeout_ms or a signal
 * did; -1 with errno. */
static inline int vil_next(vil_receiver *r, vil_frame *frame, int timeout_ms) {
    int64_t deadline_ns = vil_now_ns() + (int64_t)timeout_ms * 1000000;
    memset(frame, 0, sizeof *frame);
    for (;;) {
        zmq_pollitem_t items[2];
        int64_t now_ns = vil_now_ns(), until_ns;
        vil__talk(r, now_ns);
        vil__drain(r, 0);
        vil__drain(r, 1);
        if (r->fresh && vil__hand_out(r, frame)) return 1;
        now_ns = vil_now_ns();
        if (now_ns >= deadline_ns) return 0;
        until_ns = deadline_ns < r->t_ping_ns ? deadline_ns : r->t_ping_ns;
        memset(items, 0, sizeof items);
        items[0].socket = r->control;
        items[1].socket = r->data;
        items[0].events = items[1].events = ZMQ_POLLIN;
        if (zmq_poll(items, r->data ? 2 : 1, until_ns > now_ns ? (long)((until_ns - now_ns) / 1000000 + 1) : 0) < 0)
            return errno == EINTR ? 0 : -1;
    }
}

/* The dead man's signal: 1 while the newest usable picture came, and had shown an instant, less than timeout_ms before,
 * and the bridge has not said since that its poses or pictures are frozen. */
static inline int vil_alive(const vil_receiver *r, int timeout_ms) {
    int64_t timeout_ns = (int64_t)timeout_ms * 1000000;
    return vil_now_ns() - r->t_usable_ns < timeout_ns && r->usable_age_ns < timeout_ns;
}

#endif
