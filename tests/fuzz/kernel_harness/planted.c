/* A reader that believes a length, so that a test can show that the like of it is found. */
#include "harness.h"

void fuzz_planted(Blob context, Blob input)
{
    volatile uint8_t last;
    (void)context;
    if (input.size > 1)
        last = input.bytes[1 + input.bytes[0]];
    (void)last;
}
