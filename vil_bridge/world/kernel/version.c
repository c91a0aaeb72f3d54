/* Version of the functions' arguments; library.py refuses a library of another one. */
enum { VIL_KERNEL_VERSION = 2 };

int vil_kernel_version(void)
{
    return VIL_KERNEL_VERSION;
}
