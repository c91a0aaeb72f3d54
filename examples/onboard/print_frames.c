/* Prints one line per picture: where a visual-inertial estimator in C or C++ would be fed.
 *
 *     cc -O2 -o print_frames print_frames.c -lzmq -lm -lpthread
 *     ./print_frames tcp://127.0.0.1:5560 front raw 100
 */
#include "vil_receiver.h"

#include <signal.h>

static volatile sig_atomic_t over;

static void end(int number) {
    (void)number;
    over = 1;
}

static uint32_t checksum(const vil_frame *frame) { /* Adler-32 */
    uint32_t a = 1, b = 0;
    size_t i, size = (size_t)frame->width * (size_t)frame->height;
    for (i = 0; i < size; i++) {
        a = (a + frame->pixels[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

int main(int argc, char **argv) {
    vil_receiver receiver;
    vil_frame frame;
    long wanted = argc > 4 ? strtol(argv[4], NULL, 10) : 0, seen = 0;
    if (argc < 4 || vil_open(&receiver, argv[1], argv[2], argv[3]) != 0) {
        fprintf(stderr, "usage: %s tcp://host:port CAMERA compensated|raw [FRAMES]\n", argv[0]);
        return 2;
    }
    signal(SIGINT, end);
    signal(SIGTERM, end);
    while (!over && (!wanted || seen < wanted)) {
        int got = vil_next(&receiver, &frame, 1000);
        if (got < 0) break;
        if (got == 0) {
            fprintf(stderr, "%s\n", receiver.problem[0] ? receiver.problem : "no picture for a second");
            continue; /* not alive either: land by your own means */
        }
        seen++;
        printf("%" PRId64 " t_ns %" PRId64 " +- %" PRId64 " %dx%d fx %.3f p_m %.4f %.4f %.4f alive %d adler32 %08" PRIx32
               "\n",
               frame.frame_id, frame.t_ns, frame.clock_uncertainty_ns, frame.width, frame.height, frame.K[0],
               frame.p_m[0], frame.p_m[1], frame.p_m[2], vil_alive(&receiver, 300), checksum(&frame));
        fflush(stdout);
    }
    fprintf(stderr, "received %" PRIu64 " superseded %" PRIu64 " too_old %" PRIu64, receiver.received,
            receiver.superseded, receiver.too_old);
    fprintf(stderr, " late %" PRIu64, receiver.late);
    fprintf(stderr, " malformed %" PRIu64 " registrations %" PRIu64 "\n", receiver.malformed, receiver.registrations);
    vil_close(&receiver);
    return seen ? 0 : 1;
}
