/* Entry points of the compiled kernel under the sanitizers; sanitized_kernel.py builds and runs
 * them. */
#ifndef VIL_FUZZ_HARNESS_H
#define VIL_FUZZ_HARNESS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes with nothing behind them that may be read. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
} Blob;

/* Copy of some elements in memory of exactly their size; ends the program without memory. */
void *exactly(const void *from, size_t size);

/* Entry points: context as its seed has it, input changed. */
void fuzz_natnet(Blob context, Blob input);
void fuzz_error_state(Blob context, Blob input);
void fuzz_vicon(Blob context, Blob input);
void fuzz_vicon_objects(Blob context, Blob input);
void fuzz_vrpn(Blob context, Blob input);
void fuzz_clock(Blob context, Blob input);
void fuzz_tracks(Blob context, Blob input);
void fuzz_numbers(Blob context, Blob input);
void fuzz_rays(Blob context, Blob input);
void fuzz_planted(Blob context, Blob input);

#endif
