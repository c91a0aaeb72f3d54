/* Reception of NatNet frames: a wake-up reads all that waits in a socket, and converts the newest
 * frame.
 *
 * Twin of the usual case of adapters/vil_adapters/optitrack/source.py and common/frame_order.py,
 * which explain it and are the oracle of the tests: a frame of the server, from its port, of a
 * plain layout, later than the one before, without news in its flags. The first datagram that is
 * anything else ends the call: the caller judges it.
 */
#define _POSIX_C_SOURCE 200809L
#include "natnet_stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

enum { HEADER = 4, FRAMEOFDATA = 7, NEWS = 2 | 8, MOST_DATAGRAMS = 512, FRAME = 1, ODD = 2 };
enum { SUFFIX_30 = 46, SUFFIX_41 = 54, STAMPS = 16 };
#define NS_PER_S 1000000000

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Clock of arrivals: the machine's, as core/bridge_time.py reads it. Simulated machines of the
 * tests set their own. */
int64_t (*vil_machine_ns)(void) = monotonic_ns;

static uint8_t *buffer(const VilNatNetStream *s, int64_t number)
{
    return s->bytes + number * VIL_DATAGRAM_BYTES;
}

static void swap(int64_t *a, int64_t *b)
{
    const int64_t before = *a;
    *a = *b, *b = before;
}

/* Convert ticks to nanoseconds, rounded down; returns -1 where 63 bits do not hold them. */
static int64_t ns_of(uint64_t ticks, uint64_t ticks_per_s)
{
    const uint64_t whole_s = ticks / ticks_per_s, rest = ticks % ticks_per_s;
    if (whole_s >= INT64_MAX / NS_PER_S)
        return -1;
    return (int64_t)(whole_s * NS_PER_S + rest * NS_PER_S / ticks_per_s);
}

/* Read stamps and flags, which end a frame; returns 0 where it has no stamp, or news. */
static int read_suffix(VilNatNetStream *s, const uint8_t *suffix, int64_t suffix_bytes,
                       int64_t *t_capture_ns)
{
    uint64_t stamps[3];
    int16_t params;
    memcpy(stamps, suffix + STAMPS, sizeof stamps);
    memcpy(&params, suffix + suffix_bytes - 6, sizeof params);
    const uint64_t captured = stamps[0] != 0 ? stamps[0] : stamps[1];
    const uint64_t ticks = captured != 0 ? captured : stamps[2], per_s = (uint64_t)s->ticks_per_s;
    *t_capture_ns = ticks == 0 ? -1 : ns_of(ticks, per_s);
    if (*t_capture_ns < 0 || params & NEWS)
        return 0;
    const int64_t latency_ns =
        captured != 0 && stamps[2] > captured ? ns_of(stamps[2] - captured, per_s) : 0;
    s->latency_ns = latency_ns > 0 ? latency_ns : 0;
    s->params = params;
    return 1;
}

/* Judge the datagram in the spare buffer: returns 1 where it is the next frame, which is held then,
 * else 0. */
int vil_natnet_accept(VilNatNetStream *s, int64_t ip, int64_t port, int64_t size, int64_t t_ns)
{
    const uint8_t *datagram = buffer(s, s->spare);
    const int64_t suffix_bytes = s->sized ? SUFFIX_41 : SUFFIX_30;
    uint16_t header[2];
    int32_t number;
    int64_t t_capture_ns;
    if (ip != s->server_ip || port != s->frame_port || size < HEADER + 4 + suffix_bytes
        || t_ns < s->t_newest_ns)
        return 0;
    memcpy(header, datagram, sizeof header);
    memcpy(&number, datagram + HEADER, sizeof number);
    if (header[0] != FRAMEOFDATA || header[1] != size - HEADER)
        return 0;
    const int unread = vil_natnet_scan(datagram, size, (int)s->sized);
    if (unread < 0 || !read_suffix(s, datagram + size - suffix_bytes, suffix_bytes, &t_capture_ns))
        return 0;
    const int64_t step = (int64_t)number - s->number, elapsed_ns = t_ns - s->t_newest_ns;
    const int64_t passed =
        elapsed_ns / NS_PER_S * s->fastest_hz + elapsed_ns % NS_PER_S * s->fastest_hz / NS_PER_S;
    if (step <= 0 || step > s->most_skipped + passed || t_capture_ns < s->t_capture_ns)
        return 0;
    s->lost += step - 1, s->taken += 1;
    s->number = number, s->t_capture_ns = t_capture_ns, s->t_newest_ns = t_ns;
    s->unread = unread, s->held_size = size;
    swap(&s->held, &s->spare);
    return 1;
}

/* Read a datagram into the spare buffer and judge it; returns FRAME or ODD, 0 where none waits, or
 * -errno. */
static int read_one(VilNatNetStream *s, int fd)
{
    struct sockaddr_in sender = {0};
    socklen_t sender_bytes = sizeof sender;
    const ssize_t size = recvfrom(fd, buffer(s, s->spare), VIL_DATAGRAM_BYTES, MSG_DONTWAIT,
                                  (struct sockaddr *)&sender, &sender_bytes);
    if (size < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
    const int64_t t_ns = vil_machine_ns();
    if (vil_natnet_accept(s, sender.sin_addr.s_addr, ntohs(sender.sin_port), size, t_ns))
        return FRAME;
    s->size = size, s->odd_ip = sender.sin_addr.s_addr, s->odd_port = ntohs(sender.sin_port),
    s->odd_t_ns = t_ns;
    return ODD;
}

/* Read what waits in a socket that does not block.
 *
 * Returns FRAME where a frame is held: it was converted, unless the answer is FRAME + ODD, which
 * adds that a datagram waits in the spare buffer; 0 where nothing waited; -errno where the socket
 * failed.
 */
int vil_natnet_receive(VilNatNetStream *s, int fd)
{
    int found = 0;
    s->superseded = 0;
    for (int i = 0; i < MOST_DATAGRAMS; i++) {
        const int one = read_one(s, fd);
        if (one < 0)
            return one;
        if (one == ODD)
            return found + ODD;
        if (one == 0)
            break;
        s->superseded += found;
        found = FRAME;
    }
    if (found == 0)
        return 0;
    s->converted = vil_natnet_convert(buffer(s, s->held), s->held_size, (int)s->sized, s->binding);
    if (s->converted >= 0) {
        s->shown_size = s->held_size;
        swap(&s->shown, &s->held);
    }
    return found;
}
