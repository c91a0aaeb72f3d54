/* Pictures from VIL Bridge for programs in C and C++: this one header and libzmq (link with -lzmq -lm).
 *
 *     vil_receiver receiver;
 *     if (vil_open(&receiver, "tcp://bridge:5560", "front", "raw") != 0) return 1;
 *     vil_frame frame;
 *     while (vil_next(&receiver, &frame, 1000) >= 0)
 *         if (frame.pixels) feed(frame.pixels, frame.width, frame.height, frame.t_ns, frame.K);
 *     vil_close(&receiver);
 *
 * Gray, uncompressed, always the newest picture; its stamp is the instant it shows, in this computer's
 * CLOCK_MONOTONIC, strictly increasing. Bridge and vehicle may start in any order and restart at any time.
 * Everything happens inside vil_next: call it several times a second, or from a thread of its own. The wire is
 * described in docs/reference/stream.md. Nothing here grows: 600 clock samples, one picture, messages of bounded size.
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
#define VIL_CLOCK_SAMPLES 600
#define VIL_CLOCK_SPAN INT64_C(60000000000)
#define VIL_FIRST_PINGS 5
#define VIL_SECOND INT64_C(1000000000)

/* --- the clock: a weighted line through 60 s of four-timestamp exchanges, as in client.py --------------- */

typedef struct {
    int64_t t_ns, offset_ns, rtt_ns; /* middle of the exchange, vehicle minus bridge, round trip */
} vil_clock_sample;

typedef struct {
    vil_clock_sample samples[VIL_CLOCK_SAMPLES]; /* a ring */
    int first, count, jumped, epoch;
    int64_t t_ref_ns, offset_ns; /* the line: reference time, offset there */
    double slope, best_rtt_ns;   /* ns per s */
    double covariance[3];
} vil_clock;

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
} vil_frame;

typedef struct {
    /* For reading: */
    uint64_t received, delivered, superseded, late, too_old, malformed, registrations;
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
    int fresh;
} vil_receiver;

static inline int64_t vil_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * VIL_SECOND + now.tv_nsec;
}

static inline int64_t vil_clock_offset_ns(const vil_clock *clock, int64_t t_vehicle_ns) {
    return clock->offset_ns + llround(clock->slope * (double)(t_vehicle_ns - clock->t_ref_ns) * 1e-9);
}

static inline int64_t vil_clock_to_vehicle_ns(const vil_clock *clock, int64_t t_bridge_ns) {
    int64_t guess = t_bridge_ns + clock->offset_ns;
    double slope = clock->slope * 1e-9;
    return guess + llround((double)(guess - clock->t_ref_ns) * slope / (1.0 - slope));
}

static inline int64_t vil_clock_to_bridge_ns(const vil_clock *clock, int64_t t_vehicle_ns) {
    return t_vehicle_ns - vil_clock_offset_ns(clock, t_vehicle_ns);
}

/* Half the best round trip (a lopsided path cannot be told) plus two standard deviations of the line. */
static inline int64_t vil_clock_uncertainty_ns(const vil_clock *clock, int64_t t_vehicle_ns) {
    double tau = (double)(t_vehicle_ns - clock->t_ref_ns) * 1e-9;
    double variance = clock->covariance[0] + 2.0 * tau * clock->covariance[1] + tau * tau * clock->covariance[2];
    return (int64_t)(0.5 * clock->best_rtt_ns + (variance > 0.0 ? 2.0 * sqrt(variance) : 0.0));
}

static inline int vil__ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static inline void vil__clock_fit(vil_clock *clock, int64_t t_ref, int64_t offset_ref) {
    int64_t rtt[VIL_CLOCK_SAMPLES];
    double s0 = 0, s1 = 0, s2 = 1.0 / (50e3 * 50e3), y0 = 0, y1 = 0, best, q, det; /* drift: 50 ppm */
    int i, n = clock->count, keep = n < 6 ? n : 6;
    for (i = 0; i < n; i++) rtt[i] = clock->samples[(clock->first + i) % VIL_CLOCK_SAMPLES].rtt_ns;
    qsort(rtt, (size_t)n, sizeof rtt[0], vil__ascending);
    if ((n + 9) / 10 > keep) keep = (n + 9) / 10;
    best = (double)rtt[0];
    q = (double)rtt[keep - 1];
    for (i = 0; i < n; i++) {
        const vil_clock_sample *s = &clock->samples[(clock->first + i) % VIL_CLOCK_SAMPLES];
        double tau = (double)(s->t_ns - t_ref) * 1e-9, residual = (double)(s->offset_ns - offset_ref);
        double sigma = 0.5 * ((double)s->rtt_ns - best) + 20e3 + 0.1 * (q - best);
        double w = ((double)s->rtt_ns > q ? 0.02 : 1.0) / (sigma * sigma);
        s0 += w;
        s1 += w * tau;
        s2 += w * tau * tau;
        y0 += w * residual;
        y1 += w * tau * residual;
    }
    det = s0 * s2 - s1 * s1;
    clock->t_ref_ns = t_ref;
    clock->offset_ns = offset_ref + llround((s2 * y0 - s1 * y1) / det);
    clock->slope = fmax(-1e6, fmin(1e6, (s0 * y1 - s1 * y0) / det)); /* no clock drifts by 1000 ppm */
    clock->best_rtt_ns = best;
    clock->covariance[0] = s2 / det;
    clock->covariance[1] = -s1 / det;
    clock->covariance[2] = s0 / det;
}

/* One exchange: sent t1 (vehicle), received t2 and answered t3 (bridge), received t4 (vehicle). */
static inline void vil_clock_add(vil_clock *clock, int64_t t1, int64_t t2, int64_t t3, int64_t t4) {
    int64_t rtt = (t4 - t1) - (t3 - t2), t = (t1 + t4) / 2, offset = ((t1 - t2) + (t4 - t3)) / 2;
    vil_clock_sample *sample;
    if (rtt < 0 || t4 < t1 || t3 < t2) return;
    if (clock->count && llabs(offset - vil_clock_offset_ns(clock, t)) > 5 * rtt + 100000) clock->jumped++;
    else clock->jumped = 0;
    if (clock->jumped >= 5) { /* either clock jumped: the line starts over */
        clock->count = clock->jumped = 0;
        clock->epoch++;
    }
    if (clock->count == VIL_CLOCK_SAMPLES) {
        clock->first = (clock->first + 1) % VIL_CLOCK_SAMPLES;
        clock->count--;
    }
    sample = &clock->samples[(clock->first + clock->count++) % VIL_CLOCK_SAMPLES];
    sample->t_ns = t;
    sample->offset_ns = offset;
    sample->rtt_ns = rtt;
    while (t - clock->samples[clock->first].t_ns > VIL_CLOCK_SPAN) {
        clock->first = (clock->first + 1) % VIL_CLOCK_SAMPLES;
        clock->count--;
    }
    vil__clock_fit(clock, t, offset);
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

/* An array of exactly that many numbers; 0 on success. */
static inline int vil__numbers(vil_json value, double *result, int count) {
    const char *at = value.at, *end = value.end;
    int i;
    if (!at || *at != '[') return -1;
    for (i = 0; i < count; i++) {
        const char *begin = vil__blank(at + 1, end);
        char digits[64], *stopped, *point;
        at = begin < end ? vil__past_value(begin, end) : NULL;
        if (!at || at == begin || (size_t)(at - begin) >= sizeof digits || !strchr("-0123456789", *begin)) return -1;
        memcpy(digits, begin, (size_t)(at - begin));
        digits[at - begin] = '\0';
        point = strchr(digits, '.');
        if (point) *point = *localeconv()->decimal_point;
        result[i] = strtod(digits, &stopped);
        if (*stopped || !isfinite(result[i])) return -1;
        at = vil__blank(at, end);
        if (at >= end || *at != (i + 1 < count ? ',' : ']')) return -1;
    }
    return 0;
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
        int n = snprintf(text, sizeof text, "{\"type\":\"ping\",\"token\":\"%s\",\"t1\":%" PRId64 "}", r->token, t1);
        if (vil__say(r, text, n)) r->pings[r->ping_count++ % 64] = t1;
        r->ping_count = r->ping_count % 64;
        r->t_ping_ns = now_ns + (r->clock.count < VIL_FIRST_PINGS ? VIL_SECOND / 50 : VIL_SECOND / 5);
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
        else if (!problem.at) r->problem[0] = '\0';
        else if (vil__text(problem, r->problem, sizeof r->problem))
            snprintf(r->problem, sizeof r->problem, "the bridge has a problem; its status has the text");
    }
    return 0;
}

static inline int vil__on_registered(vil_receiver *r, vil_json answer) {
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
    if (vil__is_too_old(r, t_expires_ns)) return 0;
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
    r->control = r->data = r->context = NULL;
    r->pixels = NULL;
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
    r->last_t_ns = r->last_t_bridge_ns = -VIL_MAX_TIME;
    r->t_heard_ns = vil_now_ns();
    r->t_usable_ns = -VIL_MAX_TIME;
    snprintf(r->problem, sizeof r->problem, "no answer from %.100s yet", endpoint);
    r->context = zmq_ctx_new();
    r->control = r->context ? vil__socket(r, endpoint, VIL_MAX_TEXT, NULL) : NULL;
    if (r->control) return 0;
    vil_close(r);
    return -1;
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
        if (r->fresh) {
            r->fresh = 0;
            if (!vil__is_too_old(r, r->t_expires_ns)) {
                *frame = r->newest;
                r->delivered++;
                return 1;
            }
        }
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
