/* vil_propagate and vil_correct on any state, samples, noise and pose.
 *
 * Input: state (654 doubles), noise (4), pose (15), then a step (u64, below 2^32 ns) and a sample
 * (6 doubles) each.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { STATE = 29 + 25 * 25, NOISE = 4, POSE = 15, FOUND = 55, SAMPLE = 7, LEAST_SAMPLES = 2 };

int vil_propagate(int64_t n, double *state, const int64_t *t_ns, const double *wf,
                  const double *noise);
int vil_correct(double *state, const double *pose, double *found);

void fuzz_error_state(Blob context, Blob input)
{
    const size_t words = input.size / sizeof(double), fixed = STATE + NOISE + POSE;
    (void)context;
    if (words < fixed + LEAST_SAMPLES * SAMPLE)
        return;
    const size_t n = (words - fixed) / SAMPLE;
    const uint8_t *samples = input.bytes + fixed * sizeof(double);
    double *state = exactly(input.bytes, STATE * sizeof(double));
    double *noise = exactly(input.bytes + STATE * sizeof(double), NOISE * sizeof(double));
    double *pose = exactly(input.bytes + (STATE + NOISE) * sizeof(double), POSE * sizeof(double));
    double *found = calloc(FOUND, sizeof(double)), *wf = calloc(n, (SAMPLE - 1) * sizeof(double));
    int64_t *t_ns = calloc(n, sizeof(int64_t));
    for (size_t i = 0; i < n; i++) {
        uint32_t step_ns;
        memcpy(&step_ns, samples + i * SAMPLE * sizeof(double), sizeof step_ns);
        t_ns[i] = (i == 0 ? 0 : t_ns[i - 1]) + (int64_t)step_ns + 1;
        memcpy(wf + i * (SAMPLE - 1), samples + (i * SAMPLE + 1) * sizeof(double),
               (SAMPLE - 1) * sizeof(double));
    }
    vil_propagate((int64_t)n, state, t_ns, wf, noise);
    vil_correct(state, pose, found);
    free(state), free(noise), free(pose), free(found), free(wf), free(t_ns);
}
