/* Error-state Kalman filter of a body that mocap sees and that carries an IMU: propagation and
 * correction.
 *
 * Twin of vil_bridge/world/inertial/error_state.py and covariance.py, which explain the mathematics
 * and are the oracle of the tests. A state is one array: the numbers of X_*, then the covariance of
 * the 25 errors, row by row.
 */
#include "algebra.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { N = 25, M = 6 };
enum {
    ATTITUDE = 0,
    VELOCITY = 3,
    POSITION = 6,
    GYRO_BIAS = 9,
    ACCEL_BIAS = 12,
    LATE = 15,
    MOUNT = 16,
    SCALE = 19,
    LEVER = 22
};
enum {
    X_Q = 0,
    X_V = 4,
    X_P = 7,
    X_W = 10,
    X_GYRO = 13,
    X_ACCEL = 16,
    X_LATE = 19,
    X_MOUNT = 20,
    X_SCALE = 23,
    X_LEVER = 26,
    X_COVARIANCE = 29
};

static const double GRAVITY_MPS2 = 9.80665;
static const double LARGEST_BIAS_RADPS = 0.35, LATEST_S = 0.1, STILL_RADPS = 0.5, STILL_MPS = 0.1;
static const double WALKS[N] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1e-4, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3, 2e-5,
    1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-6, 1e-6, 1e-6,
};

/* One step between two samples. */
typedef struct {
    double R_middle[9]; /* attitude in its middle, from the axes at the start */
    double w_radps[3];
    double force_mps2[3]; /* axes at the start */
    double dt_s;
    double left_s; /* from its middle to the end */
} Step;

/* Increments over all steps, their derivatives by errors of the samples, and the noise that the
 * samples give them. */
typedef struct {
    double q_xyzw[4], beta_mps[3], alpha_m[3], dt_s, w_end_radps[3];
    double rate[9][3], force[9][3], scale[9][3], noise[9][9];
} Increments;

/* (1 - cos a)/a^2, (a - sin a)/a^3 and (a^2/2 + cos a - 1)/a^4 as series in a^2. */
static void series(double angle2, double *c)
{
    const double a2 = fmin(angle2, 100.0);
    double power = 1.0, factorial = 2.0; /* of 2 k + 2 */
    c[0] = c[1] = c[2] = 0.0;
    for (int k = 0; k < 24; k++) {
        const double n = 2.0 * k + 2.0;
        c[0] += power / factorial;
        c[1] += power / (factorial * (n + 1.0));
        c[2] += power / (factorial * (n + 1.0) * (n + 2.0));
        power *= -a2;
        factorial *= (n + 1.0) * (n + 2.0);
        if (fabs(power) < 1e-22 * factorial)
            break;
    }
}

/* Integrate one step; q_xyzw, beta_mps and alpha_m go on. */
static void integrate(Increments *sum, Step *step, const double *f_mps2)
{
    double angle_rad[3], half_rad[3], dq[4], q_middle[4], R[9], c[3], sf[3], ssf[3], dv[3], dp[3],
        turned[3];
    for (int i = 0; i < 3; i++) {
        angle_rad[i] = step->w_radps[i] * step->dt_s;
        half_rad[i] = 0.5 * angle_rad[i];
    }
    q_to_matrix(sum->q_xyzw, R);
    q_exp(half_rad, dq);
    q_mul(sum->q_xyzw, dq, q_middle);
    q_to_matrix(q_middle, step->R_middle);
    m_apply(step->R_middle, f_mps2, step->force_mps2);
    series(dot3(angle_rad, angle_rad), c);
    cross3(angle_rad, f_mps2, sf);
    cross3(angle_rad, sf, ssf);
    for (int i = 0; i < 3; i++) {
        dv[i] = (f_mps2[i] + c[0] * sf[i] + c[1] * ssf[i]) * step->dt_s;
        dp[i] = (0.5 * f_mps2[i] + c[1] * sf[i] + c[2] * ssf[i]) * step->dt_s * step->dt_s;
    }
    m_apply(R, dp, turned);
    for (int i = 0; i < 3; i++)
        sum->alpha_m[i] += sum->beta_mps[i] * step->dt_s + turned[i];
    m_apply(R, dv, turned);
    for (int i = 0; i < 3; i++)
        sum->beta_mps[i] += turned[i];
    q_exp(angle_rad, dq);
    q_mul(sum->q_xyzw, dq, sum->q_xyzw);
}

/* Add a step's derivatives and noise; A_beta and A_alpha are the sums of what the steps after it do
 * to a turn. */
static void add_jacobians(Increments *sum, const Step *step, const double *R_end_T, double *A_beta,
                          double *A_alpha, const double *noise)
{
    double turned[9], beta[9], alpha[9], turn[9], by_rate[27], by_force[27] = {0};
    m_skew(step->force_mps2, step->dt_s, turned);
    for (int i = 0; i < 9; i++) {
        beta[i] = -(A_beta[i] + 0.5 * turned[i]);
        alpha[i] = -(A_alpha[i] + 0.5 * turned[i] * step->left_s);
        A_beta[i] += turned[i];
        A_alpha[i] += turned[i] * step->left_s;
        turn[i] = step->R_middle[i] * step->dt_s;
        by_force[9 + i] = turn[i];
        by_force[18 + i] = turn[i] * step->left_s;
    }
    m_mul(R_end_T, turn, by_rate);
    m_mul(beta, turn, by_rate + 9);
    m_mul(alpha, turn, by_rate + 18);
    const double rate2 = dot3(step->w_radps, step->w_radps);
    const double gyro = (noise[0] * noise[0] + noise[2] * noise[2] * rate2) / step->dt_s;
    const double accel = (noise[1] * noise[1] + noise[3] * rate2 * noise[3] * rate2) / step->dt_s;
    for (int r = 0; r < 9; r++) {
        for (int i = 0; i < 3; i++) {
            sum->rate[r][i] += by_rate[3 * r + i];
            sum->force[r][i] += by_force[3 * r + i];
            sum->scale[r][i] += by_rate[3 * r + i] * step->w_radps[i];
        }
        for (int c = 0; c < 9; c++)
            sum->noise[r][c] += gyro * dot3(by_rate + 3 * r, by_rate + 3 * c)
                                + accel * dot3(by_force + 3 * r, by_force + 3 * c);
    }
}

/* Integrate n >= 2 samples, free of the state's biases and gain. Returns 0, or -1 without
 * memory. */
static int preintegrate(const double *x, int64_t n, const int64_t *t_ns, const double *wf,
                        const double *noise, Increments *sum)
{
    Step *steps = malloc((size_t)(n - 1) * sizeof(Step));
    if (steps == NULL)
        return -1;
    memset(sum, 0, sizeof *sum);
    sum->q_xyzw[3] = 1.0;
    double w[2][3] = {{0}}, f[2][3] = {{0}};
    for (int64_t k = 0; k < n; k++) {
        const int now = (int)(k & 1), before = 1 - now;
        for (int i = 0; i < 3; i++) {
            w[now][i] = (wf[6 * k + i] - x[X_GYRO + i]) * (1.0 + x[X_SCALE + i]);
            f[now][i] = wf[6 * k + 3 + i] - x[X_ACCEL + i];
        }
        if (k == 0)
            continue;
        Step *step = steps + k - 1;
        double f_mps2[3];
        for (int i = 0; i < 3; i++) {
            step->w_radps[i] = 0.5 * (w[before][i] + w[now][i]);
            f_mps2[i] = 0.5 * (f[before][i] + f[now][i]);
        }
        step->dt_s = (double)(t_ns[k] - t_ns[k - 1]) / 1e9;
        step->left_s = (double)(t_ns[n - 1] - t_ns[k - 1]) / 1e9 - 0.5 * step->dt_s;
        integrate(sum, step, f_mps2);
    }
    memcpy(sum->w_end_radps, w[(n - 1) & 1], sizeof sum->w_end_radps);
    sum->dt_s = (double)(t_ns[n - 1] - t_ns[0]) / 1e9;
    double R_end[9], R_end_T[9], A_beta[9] = {0}, A_alpha[9] = {0};
    q_to_matrix(sum->q_xyzw, R_end);
    m_transpose(R_end, R_end_T);
    for (int64_t k = n - 2; k >= 0; k--)
        add_jacobians(sum, steps + k, R_end_T, A_beta, A_alpha, noise);
    free(steps);
    return 0;
}

/* Put a 3 x 3 block, times a factor, into a matrix with N columns. */
static void put(double (*A)[N], int row, int column, const double *block, double factor)
{
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            A[row + r][column + c] = factor * block[3 * r + c];
}

/* Turn rows 3 to 5 and 6 to 8 of nine rows into the world's axes: G = diag(1, R, R). */
static void into_world(const double *R, double (*rows)[3])
{
    for (int block = 3; block <= 6; block += 3)
        m_mul(R, rows[block], rows[block]);
}

/* Derivative (9, 25) of the nine errors after the increments by the errors before. */
static void transition(const double *R, Increments *on, double (*F)[N])
{
    double block[9], skewed[9];
    memset(F, 0, 9 * sizeof *F);
    for (int i = 0; i < 9; i++)
        F[i][i] = 1.0;
    q_to_matrix(on->q_xyzw, block);
    m_transpose(block, skewed);
    put(F, ATTITUDE, ATTITUDE, skewed, 1.0);
    m_skew(on->beta_mps, 1.0, skewed);
    m_mul(R, skewed, block);
    put(F, VELOCITY, ATTITUDE, block, -1.0);
    m_skew(on->alpha_m, 1.0, skewed);
    m_mul(R, skewed, block);
    put(F, POSITION, ATTITUDE, block, -1.0);
    into_world(R, on->rate);
    into_world(R, on->force);
    into_world(R, on->scale);
    for (int i = 0; i < 3; i++)
        F[POSITION + i][VELOCITY + i] = on->dt_s;
    for (int r = 0; r < 9; r++)
        for (int i = 0; i < 3; i++) {
            F[r][GYRO_BIAS + i] = -on->rate[r][i];
            F[r][ACCEL_BIAS + i] = -on->force[r][i];
            F[r][SCALE + i] = on->scale[r][i];
        }
}

/* Noise (9, 9) of the increments in the world's axes: G noise G^T. */
static void world_noise(const double *R, double (*noise)[9])
{
    double block[9];
    for (int r = 0; r < 9; r += 3)
        for (int c = 0; c < 9; c += 3) {
            double right[9];
            for (int i = 0; i < 9; i++)
                block[i] = noise[r + i / 3][c + i % 3];
            if (r > 0)
                m_mul(R, block, block);
            if (c > 0) {
                m_transpose(R, right);
                m_mul(block, right, block);
            }
            for (int i = 0; i < 9; i++)
                noise[r + i / 3][c + i % 3] = block[i];
        }
}

/* P = F P F^T + noise, for the nine errors that the increments change. */
static void propagate_covariance(double (*P)[N], double (*F)[N], double (*noise)[9], double dt_s)
{
    double top[9][N] = {{0}};
    for (int r = 0; r < 9; r++)
        for (int k = 0; k < N; k++)
            if (F[r][k] != 0.0)
                for (int c = 0; c < N; c++)
                    top[r][c] += F[r][k] * P[k][c];
    for (int r = 0; r < 9; r++) {
        for (int c = 9; c < N; c++)
            P[r][c] = P[c][r] = top[r][c];
        for (int c = 0; c <= r; c++) {
            double sum = 0.5 * (noise[r][c] + noise[c][r]);
            for (int k = 0; k < N; k++)
                sum += 0.5 * (top[r][k] * F[c][k] + top[c][k] * F[r][k]);
            P[r][c] = P[c][r] = sum;
        }
    }
    for (int i = 0; i < N; i++)
        P[i][i] += WALKS[i] * WALKS[i] * dt_s;
}

/* Carry a state over n >= 2 samples as measured: t_ns (n), wf (n, 6); noise: the four numbers of
 * ImuNoise.
 *
 * Returns 0, or -1 without memory; the state is unchanged then.
 */
int vil_propagate(int64_t n, double *state, const int64_t *t_ns, const double *wf,
                  const double *noise)
{
    Increments on;
    if (preintegrate(state, n, t_ns, wf, noise, &on) != 0)
        return -1;
    double R[9], F[9][N], moved[3], pushed[3];
    q_to_matrix(state + X_Q, R);
    m_apply(R, on.alpha_m, moved);
    m_apply(R, on.beta_mps, pushed);
    for (int i = 0; i < 3; i++) {
        const double g = i == 2 ? -GRAVITY_MPS2 : 0.0;
        state[X_P + i] += moved[i] + state[X_V + i] * on.dt_s + 0.5 * g * on.dt_s * on.dt_s;
        state[X_V + i] += g * on.dt_s + pushed[i];
        state[X_W + i] = on.w_end_radps[i];
    }
    q_mul(state + X_Q, on.q_xyzw, state + X_Q);
    q_normalize(state + X_Q);
    transition(R, &on, F);
    world_noise(R, on.noise);
    propagate_covariance((double (*)[N])(state + X_COVARIANCE), F, on.noise, on.dt_s);
    return 0;
}

/* Return a vector that vanishes where it is small against its noise, and what its squares lose, on
 * average. */
static double beyond_noise(const double *v, double variance, double *out)
{
    const double v2 = dot3(v, v), share = v2 / (v2 + variance);
    for (int i = 0; i < 3; i++)
        out[i] = v[i] * share;
    return (v2 - v2 * share * share) / 3.0;
}

/* Residual (6), its derivative H (6, 25), and variances (6) beyond the first order, of a pose: p
 * (3), q (4). */
static void measure(const double *x, double (*P)[N], const double *pose, double *residual,
                    double (*H)[N], double *beyond)
{
    double q_mount[4], q_seen[4], R[9], R_mount[9], RR_mount[9], R_mount_T[9], lever[3], block[9],
        skewed[9], w[3], v[3], along[3];
    q_exp(x + X_MOUNT, q_mount);
    q_to_matrix(q_mount, R_mount);
    q_to_matrix(x + X_Q, R);
    m_mul(R, R_mount, RR_mount);
    m_transpose(R_mount, R_mount_T);
    m_apply(R_mount, x + X_LEVER, lever);
    const double gyro2 = P[9][9] + P[10][10] + P[11][11], v2 = P[3][3] + P[4][4] + P[5][5];
    const double turning = beyond_noise(x + X_W, STILL_RADPS * STILL_RADPS + gyro2, w);
    const double moving = beyond_noise(x + X_V, STILL_MPS * STILL_MPS + v2, v);
    for (int i = 0; i < 3; i++) {
        beyond[i] = (turning + gyro2 / 3.0) * P[LATE][LATE];
        beyond[3 + i] = (moving + v2 / 3.0) * P[LATE][LATE];
    }
    q_mul(x + X_Q, q_mount, q_seen);
    q_conj(q_seen, q_seen);
    q_mul(q_seen, pose + 3, q_seen);
    q_log(q_seen, residual);
    memset(H, 0, M * sizeof *H);
    m_apply(R, lever, along);
    for (int i = 0; i < 3; i++) {
        residual[3 + i] = pose[i] - x[X_P + i] - along[i];
        H[i][MOUNT + i] = H[3 + i][POSITION + i] = 1.0;
    }
    put(H, 0, ATTITUDE, R_mount_T, 1.0);
    m_apply(R_mount_T, w, along);
    for (int i = 0; i < 3; i++)
        H[i][LATE] = along[i];
    m_skew(lever, 1.0, skewed);
    m_mul(R, skewed, block);
    put(H, 3, ATTITUDE, block, -1.0);
    cross3(w, lever, along);
    m_apply(R, along, along);
    for (int i = 0; i < 3; i++)
        H[3 + i][LATE] = v[i] + along[i];
    m_skew(x + X_LEVER, 1.0, skewed);
    m_mul(RR_mount, skewed, block);
    put(H, 3, MOUNT, block, -1.0);
    put(H, 3, LEVER, RR_mount, 1.0);
}

/* Replace the lower half of a symmetric, positive matrix (6, 6) by its Cholesky factor. Returns 0,
 * or -1. */
static int cholesky(double (*S)[M])
{
    for (int j = 0; j < M; j++)
        for (int i = j; i < M; i++) {
            double sum = S[i][j];
            for (int k = 0; k < j; k++)
                sum -= S[i][k] * S[j][k];
            if (i > j)
                S[i][j] = sum / S[j][j];
            else if (sum > 0.0)
                S[j][j] = sqrt(sum);
            else
                return -1;
        }
    return 0;
}

/* Solve L L^T x = b in place, for b with a stride. */
static void solve(double (*L)[M], double *b, int stride)
{
    for (int i = 0; i < M; i++) {
        for (int k = 0; k < i; k++)
            b[i * stride] -= L[i][k] * b[k * stride];
        b[i * stride] /= L[i][i];
    }
    for (int i = M - 1; i >= 0; i--) {
        for (int k = i + 1; k < M; k++)
            b[i * stride] -= L[k][i] * b[k * stride];
        b[i * stride] /= L[i][i];
    }
}

/* out (6, 25) = H P, of a symmetric P. */
static void apply_h(double (*H)[N], double (*P)[N], double (*out)[N])
{
    memset(out, 0, M * sizeof *out);
    for (int r = 0; r < M; r++)
        for (int k = 0; k < N; k++)
            if (H[r][k] != 0.0)
                for (int c = 0; c < N; c++)
                    out[r][c] += H[r][k] * P[k][c];
}

/* P = (1 - K H) P (1 - K H)^T + K R K^T, where gain (6, 25) is K^T and HP = H P, which is
 * overwritten. */
static void update_covariance(double (*P)[N], double (*H)[N], double (*HP)[N], double (*gain)[N],
                              const double *R)
{
    for (int m = 0; m < M; m++)
        for (int r = 0; r < N; r++)
            for (int c = 0; c < N; c++)
                P[r][c] -= gain[m][r] * HP[m][c];
    for (int m = 0; m < M; m++) {
        double left[N];
        for (int r = 0; r < N; r++)
            left[r] = -gain[m][r] * R[m];
        for (int k = 0; k < N; k++)
            if (H[m][k] != 0.0)
                for (int r = 0; r < N; r++)
                    left[r] += P[r][k] * H[m][k];
        memcpy(HP[m], left, sizeof left);
    }
    for (int m = 0; m < M; m++)
        for (int r = 0; r < N; r++)
            for (int c = 0; c < N; c++)
                P[r][c] -= HP[m][r] * gain[m][c];
    for (int r = 0; r < N; r++)
        for (int c = 0; c < r; c++)
            P[r][c] = P[c][r] = 0.5 * (P[r][c] + P[c][r]);
}

/* Apply the errors e (25) to the state. */
static void apply_errors(double *x, const double *e)
{
    double q[4], q_mount[4];
    q_exp(e + ATTITUDE, q);
    q_mul(x + X_Q, q, x + X_Q);
    q_normalize(x + X_Q);
    for (int i = 0; i < 3; i++) {
        x[X_V + i] += e[VELOCITY + i];
        x[X_P + i] += e[POSITION + i];
        x[X_GYRO + i] =
            fmin(fmax(x[X_GYRO + i] + e[GYRO_BIAS + i], -LARGEST_BIAS_RADPS), LARGEST_BIAS_RADPS);
        x[X_ACCEL + i] += e[ACCEL_BIAS + i];
        x[X_SCALE + i] += e[SCALE + i];
        x[X_LEVER + i] += e[LEVER + i];
    }
    x[X_LATE] = fmin(fmax(x[X_LATE] + e[LATE], -LATEST_S), LATEST_S);
    q_exp(x + X_MOUNT, q_mount);
    q_exp(e + MOUNT, q);
    q_mul(q_mount, q, q_mount);
    q_log(q_mount, x + X_MOUNT);
}

/* Correct a state by a pose.
 *
 * pose: p (3), q of the body times the configured mount (4), seconds from the state to the pose,
 * the gate of the normalized innovation squared, and the variances of the pose (6). found: residual
 * (6), S (6, 6), normalized innovation squared, variances beyond the noise (6), and squares of what
 * the update left plus the state's own variances in it, less those (6). Returns 1, or 0 where the
 * gate or a matrix that is not positive refuses the pose; the state is unchanged then.
 */
int vil_correct(double *state, const double *pose, double *found)
{
    double (*P)[N] = (double (*)[N])(state + X_COVARIANCE);
    double H[M][N], HP[M][N], gain[M][N], S[M][M], R[M], residual[M], solved[M],
        *beyond = found + 43, e[N] = {0};
    measure(state, P, pose, residual, H, beyond);
    apply_h(H, P, HP);
    for (int r = 0; r < M; r++) {
        R[r] = pose[9 + r] + beyond[r];
        residual[r] -= H[r][LATE] * pose[7];
        for (int c = 0; c < M; c++) {
            S[r][c] = r == c ? R[r] : 0.0;
            for (int k = 0; k < N; k++)
                S[r][c] += HP[r][k] * H[c][k];
        }
    }
    memcpy(found, residual, sizeof residual);
    memcpy(found + 6, S, sizeof S);
    found[42] = INFINITY;
    if (cholesky(S) != 0)
        return 0;
    memcpy(solved, residual, sizeof residual);
    solve(S, solved, 1);
    found[42] = 0.0;
    for (int r = 0; r < M; r++)
        found[42] += residual[r] * solved[r];
    if (!(found[42] <= pose[8]))
        return 0;
    memcpy(gain, HP, sizeof gain);
    for (int c = 0; c < N; c++) {
        solve(S, &gain[0][c], N);
        for (int r = 0; r < M; r++)
            e[c] += gain[r][c] * residual[r];
    }
    update_covariance(P, H, HP, gain, R);
    apply_errors(state, e);
    apply_h(H, P, HP);
    for (int r = 0; r < M; r++) {
        found[49 + r] = R[r] * solved[r] * R[r] * solved[r] - beyond[r];
        for (int k = 0; k < N; k++)
            found[49 + r] += HP[r][k] * H[r][k];
    }
    return 1;
}
