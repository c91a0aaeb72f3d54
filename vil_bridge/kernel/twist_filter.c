/* Kalman filters of bodies without an IMU; the twin of world/twist_filter.py and world/damping.py,
 * names as there. */
#include "tracks.h"

#include <math.h>

#define LEARN_EVERY_NS 80000000
#define LONGEST_GAP_S 0.3
#define SHORTEST_STEP_S 1e-5
#define JERK_GAIN 0.1
#define VARIANCE_GAIN 0.02
#define SURPRISE 27.0
#define GLITCH 8.0
#define SURPRISES_LIMIT 3
#define SURPRISES_LOG 4.0
#define FOLLOWING 20
#define SETTLING 6
#define YOUNG 60
#define LOW_INDEX (-16.0)
#define HIGH_INDEX 8.0
#define PER_LOG 10.0

#define LAG_NS 96000000
#define LONGEST_LAG_NS 200000000
#define MEMORY_S 3.5
#define PRIOR 1e-4
#define LEAST_DAMPING 0.02

static const double LEAST_VARIANCE[2] = {1e-11, 1e-10}, MOST_VARIANCE = 1e-3;

typedef struct {
    double x, v, a; /* gains */
    double variance;
} gains;

static double clip(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

/* Address of number `part`, `kind`, `axis` of a row in an array with the rows last. */
static double *at(const VilFilter *f, double *array, int part, int kind, int axis, int64_t row)
{
    return array + ((part * 2 + kind) * 3 + axis) * f->rows + row;
}

static void begin(const VilFilter *f, int64_t row, int64_t t_ns, const double *value)
{
    for (int kind = 0; kind < 2; kind++) {
        for (int axis = 0; axis < 3; axis++) {
            const double z = value[3 * kind + axis];
            *at(f, f->state, 0, kind, axis, row) = *at(f, f->newest, 0, kind, axis, row) = z;
            *at(f, f->state, 1, kind, axis, row) = *at(f, f->state, 2, kind, axis, row) = 0.0;
            *at(f, f->whitened, 0, kind, axis, row) = 0.0;
        }
        f->surprises[kind * f->rows + row] = 0;
    }
    for (int i = 0; i < 5; i++)
        f->unlearnt[i * f->rows + row] = 0.0;
    f->age[row] = 0;
    f->t_ns[row] = f->learnt_ns[row] = t_ns;
    f->held_ns[row] = -1;
}

static gains gains_of(const VilFilter *f, int kind, int64_t row, double log_step, double per_s)
{
    const int64_t of = kind * f->rows + row, age = f->age[row] + 1;
    const double log_index = clip(f->log_jerk[of] + 5.0 * log_step, LOW_INDEX, HIGH_INDEX);
    const int64_t column = (int64_t)((log_index - LOW_INDEX) * PER_LOG + 0.5);
    const double *steady = f->steady + column;
    gains g = {steady[0], steady[f->columns], steady[2 * f->columns],
               steady[3 * f->columns] * f->variance[of]};
    if (age < YOUNG) {
        const double *first = f->first + age;
        if (first[0] > g.x)
            g.x = first[0], g.v = first[YOUNG + 1], g.a = first[2 * (YOUNG + 1)];
        if (age < SETTLING)
            g.variance = INFINITY;
    }
    g.v *= per_s, g.a *= per_s * per_s;
    return g;
}

/* Return the factor of an innovation that no forecast explains, -1 where such innovations last. */
static double trust(const VilFilter *f, int kind, int64_t row, double squared, double variance)
{
    int64_t *surprises = f->surprises + kind * f->rows + row;
    const double limit = SURPRISE * variance;
    if (squared > limit)
        *surprises += 1;
    else if (*surprises > 0)
        *surprises = 0;
    else if (*surprises < 0)
        *surprises += 1;
    if (*surprises >= SURPRISES_LIMIT) {
        *surprises = -FOLLOWING;
        f->log_jerk[kind * f->rows + row] += SURPRISES_LOG;
        return -1.0;
    }
    return squared > GLITCH * limit && *surprises > 0 ? sqrt(GLITCH * limit / squared) : 1.0;
}

static void remember(const VilFilter *f, int kind, int64_t row, const double *nu, double variance)
{
    double repeated = 0.0, squared = 0.0;
    const double per_std = 1.0 / sqrt(3.0 * variance);
    for (int axis = 0; axis < 3; axis++) {
        double *before = at(f, f->whitened, 0, kind, axis, row);
        const double whitened = nu[axis] * per_std;
        repeated += whitened * *before;
        squared += whitened * whitened;
        *before = whitened;
    }
    f->unlearnt[kind * f->rows + row] += repeated;
    f->unlearnt[(2 + kind) * f->rows + row] += fmin(squared, 3.0) - 1.0;
}

/* A step between two poses: seconds, one over them and their logarithm, of no less than the
 * shortest. */
typedef struct {
    double s, per_s, log_s;
} step;

/* One filter, of translation or rotation: forward by a step, then what was measured. */
static void account(const VilFilter *f, int kind, int64_t row, step dt, const double *value)
{
    const gains g = gains_of(f, kind, row, dt.log_s, dt.per_s);
    double x[3], v[3], a[3], nu[3], squared = 0.0;
    for (int axis = 0; axis < 3; axis++) {
        a[axis] = *at(f, f->state, 2, kind, axis, row);
        v[axis] = *at(f, f->state, 1, kind, axis, row);
        const double dv = dt.s * a[axis];
        x[axis] = *at(f, f->state, 0, kind, axis, row) + dt.s * (v[axis] + 0.5 * dv);
        v[axis] += dv;
        nu[axis] = value[axis] - x[axis];
        squared += nu[axis] * nu[axis];
    }
    const double factor = trust(f, kind, row, squared, g.variance);
    for (int axis = 0; axis < 3; axis++) {
        double *newest = at(f, f->newest, 0, kind, axis, row);
        if (factor < 0.0) {
            x[axis] = value[axis], v[axis] = (value[axis] - *newest) * dt.per_s,
            a[axis] = nu[axis] = 0.0;
        } else {
            nu[axis] *= factor;
            x[axis] += g.x * nu[axis], v[axis] += g.v * nu[axis], a[axis] += g.a * nu[axis];
        }
        *newest = value[axis];
        *at(f, f->state, 0, kind, axis, row) = x[axis];
        *at(f, f->state, 1, kind, axis, row) = v[axis];
        *at(f, f->state, 2, kind, axis, row) = a[axis];
    }
    if (f->age[row] + 1 >= SETTLING)
        remember(f, kind, row, nu, g.variance);
}

static void learn(const VilFilter *f, int64_t row)
{
    const double log_step = 5.0 * log(f->step_s[row]), count = f->unlearnt[4 * f->rows + row];
    const double gain = fmax(VARIANCE_GAIN, 1.0 / (f->learnt[row] + count + 2.0));
    for (int kind = 0; kind < 2; kind++) {
        const int64_t of = kind * f->rows + row;
        const double jerk = f->log_jerk[of] + JERK_GAIN * clip(f->unlearnt[of], -9.0, 9.0);
        f->log_jerk[of] = clip(jerk, LOW_INDEX - log_step, HIGH_INDEX - log_step);
        const double variance =
            f->variance[of] * exp(gain * f->unlearnt[(2 + kind) * f->rows + row]);
        f->variance[of] = clip(variance, LEAST_VARIANCE[kind], MOST_VARIANCE);
    }
    f->learnt[row] += count;
    for (int i = 0; i < 5; i++)
        f->unlearnt[i * f->rows + row] = 0.0;
    f->learnt_ns[row] = f->t_ns[row];
}

/* Account the way of a row since its state was held in the regression of one kind. */
static void compare(const VilFilter *f, int kind, int64_t row, double lag_s)
{
    double vv = 0.0, va = 0.0, aa = 0.0, dv = 0.0, da = 0.0, squared = 0.0, *sums[7], *parts[2];
    for (int i = 0; i < 7; i++)
        sums[i] = f->sums + (i * 2 + kind) * f->rows + row;
    for (int i = 0; i < 2; i++)
        parts[i] = f->log_parts + (i * 2 + kind) * f->rows + row;
    const double of_v = exp(*parts[0]), of_a = exp(*parts[1]), half_s2 = 0.5 * lag_s * lag_s;
    for (int axis = 0; axis < 3; axis++) {
        const double v = lag_s * *at(f, f->held, 1, kind, axis, row),
                     a = half_s2 * *at(f, f->held, 2, kind, axis, row);
        const double way =
            *at(f, f->state, 0, kind, axis, row) - *at(f, f->held, 0, kind, axis, row);
        const double left = way - (of_v * v + of_a * a);
        vv += v * v, va += v * a, aa += a * a, dv += way * v, da += way * a, squared += left * left;
    }
    const double weight = 1.0 / sqrt(vv + aa + 1e-8), fading = exp(-1e-9 * LAG_NS / MEMORY_S);
    const double new[7] = {vv * weight, va * weight, aa * weight, dv * weight,
                           da * weight, squared, 3.0};
    for (int i = 0; i < 7; i++)
        *sums[i] = *sums[i] * fading + new[i];
    vv = *sums[0] + PRIOR, va = *sums[1], aa = *sums[2] + PRIOR, dv = *sums[3] + PRIOR,
    da = *sums[4] + 0.5 * PRIOR;
    const double determinant = vv * aa - va * va;
    *parts[0] = log(clip((aa * dv - va * da) / determinant, LEAST_DAMPING, 1.0));
    *parts[1] = log(clip((vv * da - va * dv) / determinant, LEAST_DAMPING, 1.0));
}

static void learn_damping(const VilFilter *f, int64_t row)
{
    const int64_t lag_ns = f->t_ns[row] - f->held_ns[row];
    if (f->held_ns[row] >= 0 && lag_ns >= LAG_NS && lag_ns < LONGEST_LAG_NS) {
        const double lag_s = 1e-9 * (double)lag_ns;
        for (int kind = 0; kind < 2; kind++)
            compare(f, kind, row, lag_s);
        f->lag_s[row] += 0.1 * (lag_s - f->lag_s[row]);
    }
    f->held_ns[row] = f->t_ns[row];
    for (int i = 0; i < 18; i++)
        f->held[i * f->rows + row] = f->state[i * f->rows + row];
}

void vil_filter_add(const VilFilter *f, int64_t row, int64_t t_ns, const double *value)
{
    const double step_s = 1e-9 * (double)(t_ns - f->t_ns[row]);
    if (f->t_ns[row] < 0 || step_s > LONGEST_GAP_S) {
        begin(f, row, t_ns, value);
        return;
    }
    if (step_s > 0.0)
        f->step_s[row] = step_s;
    const double floor_s = fmax(step_s, SHORTEST_STEP_S);
    const step dt = {step_s, 1.0 / floor_s, log(floor_s)};
    for (int kind = 0; kind < 2; kind++)
        account(f, kind, row, dt, value + 3 * kind);
    f->age[row] += 1;
    if (f->age[row] >= SETTLING)
        f->unlearnt[4 * f->rows + row] += 1.0;
    f->t_ns[row] = t_ns;
    const int due = t_ns - f->learnt_ns[row] >= LEARN_EVERY_NS;
    if (due)
        learn(f, row);
    if (f->held_ns[row] < 0 ? due : t_ns - f->held_ns[row] >= LAG_NS)
        learn_damping(f, row);
}

void vil_filter_shift(const VilFilter *f, int64_t row, int64_t by_ns)
{
    if (f->t_ns[row] >= 0) {
        f->t_ns[row] = later(f->t_ns[row], by_ns);
        f->learnt_ns[row] = later(f->learnt_ns[row], by_ns);
    }
    if (f->held_ns[row] >= 0)
        f->held_ns[row] = later(f->held_ns[row], by_ns);
}

void vil_filter_ahead(const VilFilter *f, int64_t row, double lead_s, double *value)
{
    for (int kind = 0; kind < 2; kind++) {
        const double part = fmax(lead_s, 0.0) / f->lag_s[row];
        const double of_v = exp(f->log_parts[kind * f->rows + row] * part);
        const double of_a = exp(f->log_parts[(2 + kind) * f->rows + row] * part);
        for (int axis = 0; axis < 3; axis++) {
            const double x = *at(f, f->state, 0, kind, axis, row),
                         v = *at(f, f->state, 1, kind, axis, row);
            const double a = *at(f, f->state, 2, kind, axis, row);
            value[3 * kind + axis] = x + lead_s * (of_v * v + 0.5 * lead_s * (of_a * a));
        }
    }
}
