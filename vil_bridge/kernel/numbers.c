/* Numbers as text: what a pose message to a renderer consists of
 * (renderer/vil_renderer/flightgoggles/compiled_writer.py). */
#include "numbers.h"

#include <math.h>
#include <string.h>

#define DECIMALS 9
#define SCALE 1000000000LL
#define LARGEST 1e9
#define MOST_CHARACTERS 22 /* sign, ten digits, point, nine digits */

/* Write a number with nine decimals at most and one at least; returns the end. */
static char *write_number(double value, char *out)
{
    int64_t scaled = llround(fabs(value) * (double)SCALE);
    if (value < 0.0 && scaled > 0)
        *out++ = '-';
    char digits[24];
    int64_t whole = scaled / SCALE, rest = scaled % SCALE;
    int count = 0;
    do
        digits[count++] = (char)('0' + whole % 10);
    while ((whole /= 10) > 0);
    while (count > 0)
        *out++ = digits[--count];
    *out++ = '.';
    for (int i = DECIMALS - 1; i >= 0; i--, rest /= 10)
        digits[i] = (char)('0' + rest % 10);
    int used = DECIMALS;
    while (used > 1 && digits[used - 1] == '0')
        used--;
    memcpy(out, digits, (size_t)used);
    return out + used;
}

/* Copy a text and put a number in place of each byte 1: values[indices[k]] for the k-th.
 *
 * Returns the size, -1 where it exceeds the capacity, or where a number is not finite or 1e9 and
 * more.
 */
int64_t vil_fill_numbers(const char *text, int64_t size, const int32_t *indices, int64_t count,
                         const double *values, char *out, int64_t capacity)
{
    const char *end = text + size, *limit = out + capacity;
    char *begin = out;
    for (int64_t k = 0; k <= count; k++) {
        const char *mark = k < count ? memchr(text, 1, (size_t)(end - text)) : end;
        if (mark == NULL || limit - out < mark - text + MOST_CHARACTERS)
            return -1;
        memcpy(out, text, (size_t)(mark - text));
        out += mark - text;
        if (k == count)
            break;
        const double value = values[indices[k]];
        if (!(fabs(value) < LARGEST))
            return -1;
        out = write_number(value, out);
        text = mark + 1;
    }
    return out - begin;
}

/* Write the text with the poses of now; returns as vil_fill_numbers does. */
int64_t vil_write_poses(const VilPoseText *t, const char *text, int64_t size)
{
    for (int64_t row = 0; row < t->bodies + t->cameras; row++) {
        const double *turn = row < t->bodies ? t->body_turn : t->camera_turn,
                     *in = t->poses + 7 * row;
        double *out = t->values + 7 * row;
        for (int c = 0; c < 7; c++) {
            out[c] = 0.0;
            for (int k = 0; k < 7; k++)
                out[c] += in[k] * turn[7 * k + c];
        }
    }
    return vil_fill_numbers(text, size, t->indices, t->gaps, t->values, t->out, t->capacity);
}
