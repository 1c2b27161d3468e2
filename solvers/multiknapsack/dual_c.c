/* The Lagrangian dual of menus with capacities by stabilised cutting planes: the compiled twin of `dual.solve_dual`.
 *
 * Everything is in doubles and nothing is to be trusted: multipliers are only prices, and whoever states a bound
 * computes it anew from them. The master program is a tiny primal simplex with an explicit inverse of its basis.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 12, RAY = 7, RAISES = 5, PIVOTS = 60 };
#define TOLERANCE 1e-11

typedef struct {
    const double *values, *uses, *capacities; /* [options], [k, options], [k] */
    const int64_t *offsets;                   /* [n + 1] */
    int64_t n, options, k, rounds;
    double *weights;  /* [k]: the best multipliers */
    int64_t *choices; /* [KEPT, n]: the choices met last, as a ring; row `count % KEPT` is the next to be filled */
    int64_t count;
    double bound; /* at the best multipliers */
    double *scores, *over, *scale;
    /* the master: columns of k capacities and the row of convexity */
    double *columns, *worth, *right, *inverse, *dual, *point, *step, *work;
    int64_t *basis;
    int64_t size, held;
} Dual;

/* ---- the master program ---- */

/* Invert the basis by Gauss and Jordan with row exchanges; 0 where it is singular. */
static int invert(Dual *d) {
    const int64_t s = d->size;
    double *a = d->work, *inverse = d->inverse;
    for (int64_t r = 0; r < s; r++)
        for (int64_t c = 0; c < s; c++) {
            a[r * s + c] = d->columns[d->basis[c] * s + r];
            inverse[r * s + c] = r == c;
        }
    for (int64_t c = 0; c < s; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < s; r++)
            if (fabs(a[r * s + c]) > fabs(a[pivot * s + c])) pivot = r;
        const double top = a[pivot * s + c];
        if (!(fabs(top) > 1e-14)) return 0;
        for (int64_t q = 0; q < s; q++) {
            const double x = a[pivot * s + q], y = inverse[pivot * s + q];
            a[pivot * s + q] = a[c * s + q], inverse[pivot * s + q] = inverse[c * s + q];
            a[c * s + q] = x / top, inverse[c * s + q] = y / top;
        }
        for (int64_t r = 0; r < s; r++) {
            const double factor = a[r * s + c];
            if (r == c || factor == 0.0) continue;
            for (int64_t q = 0; q < s; q++) {
                a[r * s + q] -= factor * a[c * s + q];
                inverse[r * s + q] -= factor * inverse[c * s + q];
            }
        }
    }
    return 1;
}

/* Dual prices and the point of the basis, from its inverse. */
static void price(Dual *d) {
    const int64_t s = d->size;
    for (int64_t c = 0; c < s; c++) d->dual[c] = d->point[c] = 0.0;
    for (int64_t r = 0; r < s; r++) {
        const double worth = d->worth[d->basis[r]];
        for (int64_t c = 0; c < s; c++) {
            d->dual[c] += worth * d->inverse[r * s + c];
            d->point[r] += d->inverse[r * s + c] * d->right[c];
        }
    }
}

/* Solve the master; write multipliers [k] in scaled units, return its value. */
static double master(Dual *d, double *weights) {
    const int64_t s = d->size;
    double largest = 1.0;
    for (int64_t c = s; c < d->held; c++)
        if (fabs(d->worth[c]) > largest) largest = fabs(d->worth[c]);
    const double least = TOLERANCE * largest;
    if (invert(d)) {
        price(d);
        for (int64_t pivot = 0; pivot < PIVOTS * s; pivot++) {
            const int bland = pivot >= 20 * s;
            int64_t enter = -1;
            double most = least;
            for (int64_t c = 0; c < d->held; c++) {
                double reduced = d->worth[c];
                const double *column = d->columns + c * s;
                for (int64_t r = 0; r < s; r++) reduced -= d->dual[r] * column[r];
                if (reduced <= most) continue;
                int basic = 0;
                for (int64_t r = 0; r < s; r++) basic |= d->basis[r] == c;
                if (basic) continue;
                enter = c;
                if (bland) break;
                most = reduced;
            }
            if (enter < 0) break;
            const double *column = d->columns + enter * s;
            double ratio = INFINITY;
            for (int64_t r = 0; r < s; r++) {
                double step = 0.0;
                for (int64_t c = 0; c < s; c++) step += d->inverse[r * s + c] * column[c];
                d->step[r] = step;
                const double own = d->point[r] > 0.0 ? d->point[r] : 0.0;
                if (step > TOLERANCE && own / step < ratio) ratio = own / step;
            }
            if (ratio == INFINITY) break;
            int64_t leave = -1;
            for (int64_t r = 0; r < s; r++) {
                const double own = d->point[r] > 0.0 ? d->point[r] : 0.0;
                if (d->step[r] > TOLERANCE && own / d->step[r] <= ratio * (1 + 1e-12) + 1e-15 &&
                    (leave < 0 || d->step[r] > d->step[leave]))
                    leave = r;
            }
            d->basis[leave] = enter;
            double *row = d->inverse + leave * s;
            for (int64_t c = 0; c < s; c++) row[c] /= d->step[leave];
            for (int64_t r = 0; r < s; r++) {
                if (r == leave || d->step[r] == 0.0) continue;
                for (int64_t c = 0; c < s; c++) d->inverse[r * s + c] -= d->step[r] * row[c];
            }
            if (pivot % 32 == 31 && !invert(d)) break;
            price(d);
        }
    }
    double value = 0.0;
    for (int64_t c = 0; c < s; c++) value += d->dual[c] * d->right[c];
    for (int64_t c = 0; c < s - 1; c++) weights[c] = d->dual[c] > 0.0 ? d->dual[c] : 0.0;
    return value;
}

static double artificial(const Dual *d) {
    for (int64_t r = 0; r < d->size; r++)
        if (d->basis[r] == d->k) return d->point[r];
    return 0.0;
}

/* ---- the dual ---- */

/* Evaluate, keep the cut, update the best. */
static double look(Dual *d, const double *weights) {
    double *scores = d->scores, *column = d->columns + d->held * d->size;
    memcpy(scores, d->values, (size_t)d->options * sizeof(double));
    for (int64_t c = 0; c < d->k; c++) {
        const double weight = weights[c], *use = d->uses + c * d->options;
        if (weight != 0.0)
            for (int64_t i = 0; i < d->options; i++) scores[i] -= weight * use[i];
    }
    int64_t *choice = d->choices + d->count % KEPT * d->n;
    double bound = 0.0, value = 0.0;
    for (int64_t j = 0; j < d->n; j++) {
        int64_t best = d->offsets[j];
        for (int64_t i = best + 1; i < d->offsets[j + 1]; i++)
            if (scores[i] > scores[best]) best = i;
        choice[j] = best;
        bound += scores[best];
        value += d->values[best];
    }
    for (int64_t c = 0; c < d->k; c++) {
        const double *use = d->uses + c * d->options;
        double used = 0.0;
        for (int64_t j = 0; j < d->n; j++) used += use[choice[j]];
        d->over[c] = used - d->capacities[c];
        column[c] = used / d->scale[c];
        bound += weights[c] * d->capacities[c];
    }
    column[d->k] = 1.0;
    d->worth[d->held++] = value;
    d->count += 1;
    if (bound < d->bound) {
        d->bound = bound;
        memcpy(d->weights, weights, (size_t)d->k * sizeof(double));
    }
    return bound;
}

static double sum_of_least(const Dual *d, const double *weights) {
    double total = 0.0;
    for (int64_t j = 0; j < d->n; j++) {
        double least = INFINITY;
        for (int64_t i = d->offsets[j]; i < d->offsets[j + 1]; i++) {
            double paid = 0.0;
            for (int64_t c = 0; c < d->k; c++) paid += weights[c] * d->uses[c * d->options + i];
            if (paid < least) least = paid;
        }
        total += least;
    }
    return total;
}

/* Minimise; returns whether no choice can fit. `trial`, `weights` are [k] each. */
static int minimise(Dual *d, double gap, int begun, double *trial, double *weights) {
    const int64_t k = d->k;
    double least = 0.0, most = 0.0;
    for (int64_t j = 0; j < d->n; j++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = d->offsets[j]; i < d->offsets[j + 1]; i++) {
            low = d->values[i] < low ? d->values[i] : low;
            high = d->values[i] > high ? d->values[i] : high;
        }
        least += low, most += high;
    }
    const double spread = most - least > 1e-9 ? most - least : 1e-9;
    /* Leaving everything out must not pay: raised below whenever it still does at the end. */
    const double penalty = 4.0 * fmax(spread, fmax(fabs(most), fabs(least)));
    d->worth[k] = least - penalty;
    memcpy(weights, d->weights, (size_t)k * sizeof(double)); /* where to begin, if `begun` */
    memset(trial, 0, (size_t)k * sizeof(double));
    look(d, trial);
    int inside = 1;
    for (int64_t c = 0; c < k; c++) inside &= d->over[c] <= 0;
    if (inside) return 0;
    if (begun) {
        look(d, weights);
    } else {
        /* Along one ray first: prices in proportion to what is overdrawn at no price. */
        double low = -9.0, high = 3.0;
        for (int64_t c = 0; c < k; c++) weights[c] = d->over[c] > 0 ? spread / (d->scale[c] * (double)k) : 0.0;
        for (int again = 0; again < RAY; again++) {
            const double middle = (low + high) / 2;
            double rise = 0.0;
            for (int64_t c = 0; c < k; c++) trial[c] = weights[c] * exp2(middle);
            look(d, trial);
            for (int64_t c = 0; c < k; c++) rise += d->over[c] * weights[c];
            if (rise > 0) low = middle; else high = middle;
        }
    }
    double pull = 0.5;
    int raised = 0;
    while (d->count < d->rounds) {
        const double floor = master(d, weights);
        for (int64_t c = 0; c < k; c++) weights[c] /= d->scale[c];
        if (d->bound - floor <= gap * fmax(1.0, fabs(d->bound))) {
            if (artificial(d) <= 1e-9 || raised == RAISES) return 0;
            double paid = 0.0;
            for (int64_t c = 0; c < k; c++) paid += weights[c] * d->capacities[c];
            if (sum_of_least(d, weights) > paid * (1 + 1e-9)) return 1;
            raised += 1;
            d->worth[k] = least - penalty * pow(30.0, raised);
            continue;
        }
        const double before = d->bound;
        for (int64_t c = 0; c < k; c++) trial[c] = pull * d->weights[c] + (1 - pull) * weights[c];
        const double seen = look(d, trial);
        if (seen > before) {
            /* The subgradient at the trial says on which side of it the minimum lies. */
            double away = 0.0;
            for (int64_t c = 0; c < k; c++) away -= d->over[c] * (weights[c] - d->weights[c]);
            pull = away > 0 ? fmin(0.9, pull + 0.1) : fmax(0.0, pull - 0.1);
        } else {
            pull = fmax(0.0, pull - 0.1);
        }
        if (seen - floor <= gap * fmax(1.0, fabs(seen)) || pull == 0.0) continue;
        if (d->bound > before - 1e-12 * fmax(1.0, fabs(before)) && d->count < d->rounds) {
            /* The pulled point may have cut nothing away; the master's own always does. */
            if (master(d, trial) >= floor - 1e-12 * fmax(1.0, fabs(floor))) look(d, weights);
        }
    }
    return 0;
}

/* ---- Python ---- */

static PyObject *solve(PyObject *module, PyObject *arguments) {
    Py_buffer values, uses, offsets, capacities, weights, choices;
    double gap;
    long long rounds;
    int begun;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*w*dLp", &values, &uses, &offsets, &capacities, &weights, &choices, &gap,
                          &rounds, &begun))
        return NULL;
    PyObject *answer = NULL;
    void *block = NULL;
    Dual d = {0};
    d.values = values.buf, d.uses = uses.buf, d.capacities = capacities.buf, d.offsets = offsets.buf;
    d.n = offsets.len / 8 - 1, d.options = values.len / 8, d.k = capacities.len / 8, d.rounds = rounds;
    d.weights = weights.buf, d.choices = choices.buf, d.bound = INFINITY;
    if (d.n < 1 || d.k < 1 || rounds < 1 || rounds > 1000000 || uses.len != d.k * d.options * 8 ||
        weights.len != d.k * 8 || choices.len != KEPT * d.n * 8 || d.offsets[0] != 0 || d.offsets[d.n] != d.options) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the dual do not fit together");
        goto done;
    }
    for (int64_t j = 0; j < d.n; j++)
        if (d.offsets[j] >= d.offsets[j + 1]) {
            PyErr_SetString(PyExc_ValueError, "a menu of the dual is empty");
            goto done;
        }
    d.size = d.k + 1;
    /* every round adds a column, and so may the ray and the last look */
    const int64_t s = d.size, held = s + rounds + RAY + 4;
    block = malloc((size_t)(d.options + held * (s + 1) + 2 * s * s + 9 * s) * sizeof(double) + (size_t)s * sizeof(int64_t));
    if (block == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    double *at = block;
    d.scores = at, at += d.options;
    d.columns = at, at += held * s;
    d.worth = at, at += held;
    d.inverse = at, at += s * s;
    d.work = at, at += s * s;
    d.over = at, at += s;
    d.scale = at, at += s;
    d.right = at, at += s;
    d.dual = at, at += s;
    d.point = at, at += s;
    d.step = at, at += s;
    double *trial = at, *here = at + s;
    d.basis = (int64_t *)(void *)(at + 2 * s);
    /* slacks, the artificial choice, and then the choices */
    memset(d.columns, 0, (size_t)(s * s) * sizeof(double));
    for (int64_t c = 0; c < s; c++) {
        d.columns[c * s + c] = 1.0;
        d.worth[c] = 0.0;
        d.basis[c] = c;
        d.scale[c] = c < d.k && d.capacities[c] > 1.0 ? d.capacities[c] : 1.0;
        d.right[c] = c < d.k ? d.capacities[c] / d.scale[c] : 1.0;
        d.dual[c] = d.point[c] = 0.0;
    }
    d.held = s;
    int infeasible;
    Py_BEGIN_ALLOW_THREADS
    infeasible = minimise(&d, gap, begun, trial, here);
    Py_END_ALLOW_THREADS
    answer = Py_BuildValue("dLO", d.bound, (long long)d.count, infeasible ? Py_True : Py_False);
done:
    free(block);
    PyBuffer_Release(&values);
    PyBuffer_Release(&uses);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&capacities);
    PyBuffer_Release(&weights);
    PyBuffer_Release(&choices);
    return answer;
}

static PyMethodDef methods[] = {
    {"solve", solve, METH_VARARGS, "Minimise the dual; see dual.py."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dual_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_dual_c(void) { return PyModuleDef_Init(&definition); }
