/* Version of the functions' arguments; library.py refuses a library of another one. */
#include <stdint.h>

enum { VIL_KERNEL_VERSION = 10 };

/* Structs hold addresses as integers of 64 bits: on other machines there is no version that
 * fits. */
int vil_kernel_version(void)
{
    return sizeof(void *) == sizeof(int64_t) ? VIL_KERNEL_VERSION : 0;
}
