/* Reception of NatNet frames, see natnet_stream.c. */
#ifndef VIL_NATNET_STREAM_H
#define VIL_NATNET_STREAM_H

#include "natnet.h"

#include <stdint.h>

enum { VIL_DATAGRAM_BYTES = 65536 };

/* Frames of one server whose layout, order and sender are known.
 *
 * server_ip: as on the wire. most_skipped, fastest_hz: limits of FrameOrder. bytes: three buffers
 * of VIL_DATAGRAM_BYTES: the datagram read last, the newest frame, and the newest frame that was
 * converted; their numbers are spare, held and shown. number to lost: state of FrameOrder;
 * t_capture_ns is INT64_MIN where it is unknown. taken: frames since the caller set it to 0.
 * superseded, latency_ns, params, unread, converted: of this call; converted is the answer of
 * vil_natnet_convert. size to odd_t_ns: of the datagram that the caller has to judge.
 */
typedef struct {
    int64_t server_ip, frame_port, sized, ticks_per_s, most_skipped, fastest_hz;
    VilNatNetBinding *binding;
    uint8_t *bytes;
    int64_t spare, held, shown, held_size, shown_size;
    int64_t number, t_capture_ns, t_newest_ns, lost, taken;
    int64_t superseded, latency_ns, params, unread, converted;
    int64_t size, odd_ip, odd_port, odd_t_ns;
} VilNatNetStream;

extern int64_t (*vil_machine_ns)(void);

int vil_natnet_accept(VilNatNetStream *stream, int64_t ip, int64_t port, int64_t size,
                      int64_t t_ns);
int vil_natnet_receive(VilNatNetStream *stream, int fd);

#endif
