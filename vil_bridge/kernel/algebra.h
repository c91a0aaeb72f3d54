/* Vectors, quaternions (Hamilton, unit, scalar last) and 3 x 3 matrices (row by row), as in
 * core/geometry.py. */
#ifndef VIL_ALGEBRA_H
#define VIL_ALGEBRA_H

#include <math.h>

static inline void cross3(const double *a, const double *b, double *out)
{
    const double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2],
                 z = a[0] * b[1] - a[1] * b[0];
    out[0] = x, out[1] = y, out[2] = z;
}

static inline double dot3(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void q_mul(const double *a, const double *b, double *out)
{
    const double x = a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1];
    const double y = a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0];
    const double z = a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3];
    const double w = a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2];
    out[0] = x, out[1] = y, out[2] = z, out[3] = w;
}

static inline void q_conj(const double *q, double *out)
{
    out[0] = -q[0], out[1] = -q[1], out[2] = -q[2], out[3] = q[3];
}

static inline void q_normalize(double *q)
{
    const double n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++)
        q[i] = n > 0.0 ? q[i] / n : (double)(i == 3);
}

static inline void q_to_matrix(const double *q, double *R)
{
    const double x = q[0], y = q[1], z = q[2], w = q[3];
    R[0] = x * x - y * y - z * z + w * w, R[1] = 2.0 * (x * y - z * w),
    R[2] = 2.0 * (x * z + y * w);
    R[3] = 2.0 * (x * y + z * w), R[4] = y * y - x * x - z * z + w * w,
    R[5] = 2.0 * (y * z - x * w);
    R[6] = 2.0 * (x * z - y * w), R[7] = 2.0 * (y * z + x * w),
    R[8] = z * z - x * x - y * y + w * w;
}

static inline void q_exp(const double *turn_rad, double *q)
{
    const double half = 0.5 * sqrt(dot3(turn_rad, turn_rad));
    const double scale = half < 1e-8 ? 0.5 : 0.5 * sin(half) / half;
    for (int i = 0; i < 3; i++)
        q[i] = scale * turn_rad[i];
    q[3] = cos(half);
}

static inline void q_log(const double *q, double *turn_rad)
{
    const double s = sqrt(dot3(q, q));
    const double scale = copysign(s > 1e-9 ? 2.0 * atan2(s, fabs(q[3])) / s : 2.0, q[3]);
    for (int i = 0; i < 3; i++)
        turn_rad[i] = scale * q[i];
}

/* Interpolate along the shortest arc from a (0) to b (1). */
static inline void q_slerp(const double *a, const double *b, double fraction, double *out)
{
    double back[4], q[4], turn[3];
    q_conj(a, back);
    q_mul(back, b, q);
    q_log(q, turn);
    for (int i = 0; i < 3; i++)
        turn[i] *= fraction;
    q_exp(turn, q);
    q_mul(a, q, out);
}

/* out = A v */
static inline void m_apply(const double *A, const double *v, double *out)
{
    const double x = dot3(A, v), y = dot3(A + 3, v), z = dot3(A + 6, v);
    out[0] = x, out[1] = y, out[2] = z;
}

/* out = A B */
static inline void m_mul(const double *A, const double *B, double *out)
{
    double product[9];
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            product[3 * r + c] =
                A[3 * r] * B[c] + A[3 * r + 1] * B[3 + c] + A[3 * r + 2] * B[6 + c];
    for (int i = 0; i < 9; i++)
        out[i] = product[i];
}

static inline void m_transpose(const double *A, double *out)
{
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            out[3 * c + r] = A[3 * r + c];
}

/* Matrix of the cross product with v, times a factor. */
static inline void m_skew(const double *v, double factor, double *out)
{
    const double x = factor * v[0], y = factor * v[1], z = factor * v[2];
    out[0] = 0.0, out[1] = -z, out[2] = y;
    out[3] = z, out[4] = 0.0, out[5] = -x;
    out[6] = -y, out[7] = x, out[8] = 0.0;
}

#endif
