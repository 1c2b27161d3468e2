/* Prices of work from the last completion back to the first: the compiled twin of `costates.py`.
 *
 * Every draw of the remaining work is a recursion of its own. Each sum and product is the one that the uncompiled
 * twin forms, in the same order, so that both return the same prices to the last bit.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__ /* gcc contracts nothing under -std=c11 */
#pragma STDC FP_CONTRACT OFF
#endif

typedef struct {
    const double *rates;    /* [speeds, options]: work done a second, 0 where there is none */
    const int64_t *speed;   /* [jobs]: the row of `rates` */
    const double *weights;  /* [jobs] */
    const int64_t *uses;    /* [options], at least 1 */
    const int64_t *pool;    /* [options]: which capacity */
    const int64_t *sizes;   /* [pools] */
    int64_t jobs, speeds, options, pools;
    double alike, last;     /* the mean weight; what the last completion counts beside it */
} Problem;

/* M after one more job: the greatest worth of so much of one capacity. */
static void add_job(const Problem *p, double *worth, double *before, int64_t pool, const double *rates, double paid) {
    const int64_t size = p->sizes[pool];
    memcpy(before, worth, (size_t)(size + 1) * sizeof(double));
    for (int64_t option = 0; option < p->options; option++) {
        const int64_t use = p->uses[option];
        if (p->pool[option] != pool || use > size || !(rates[option] > 0.0)) continue;
        const double earned = paid * rates[option];
        double *restrict to = worth + use;
        const double *restrict from = before;
        for (int64_t at = 0; at <= size - use; at++) {
            const double with_it = from[at] + earned;
            to[at] = to[at] > with_it ? to[at] : with_it;
        }
    }
}

/* One draw: `ahead` is [jobs] the remaining work per weight, `price` [jobs] is what comes out. */
static void recursion(const Problem *p, const double *seconds, const double *ahead, double *price, double *memory,
                      int64_t *waits) {
    int64_t room = 0, most = 0;
    for (int64_t pool = 0; pool < p->pools; pool++) {
        room += p->sizes[pool] + 1;
        if (p->sizes[pool] > most) most = p->sizes[pool];
    }
    double *worth = memory, *before = worth + room, *lost = before + most + 1, *typical = lost + p->options;
    for (int64_t at = 0; at < room; at++) worth[at] = 0.0;
    for (int64_t job = 0; job < p->jobs; job++) waits[job] = job;
    for (int64_t left = p->jobs; left > 0; left--) {
        const double base = p->alike + p->last * (left == p->jobs ? 1.0 : 0.0);
        for (int64_t option = 0; option < p->options; option++) {
            const double *own = worth;
            for (int64_t pool = 0; pool < p->pool[option]; pool++) own += p->sizes[pool] + 1;
            const int64_t size = p->sizes[p->pool[option]], use = p->uses[option];
            lost[option] = (use > size ? INFINITY : own[size] - own[size - use]) + base;
        }
        for (int64_t speed = 0; speed < p->speeds; speed++) {
            double least = INFINITY;
            for (int64_t option = 0; option < p->options; option++) {
                const double paid = lost[option] * seconds[speed * p->options + option];
                if (paid < least) least = paid;
            }
            typical[speed] = least;
        }
        int64_t place = 0;
        double latest = -INFINITY;
        for (int64_t at = 0; at < left; at++) {
            const double ends = typical[p->speed[waits[at]]] * ahead[waits[at]];
            if (ends > latest) latest = ends, place = at;
        }
        const int64_t job = waits[place];
        memmove(waits + place, waits + place + 1, (size_t)(left - 1 - place) * sizeof(int64_t));
        const double more = p->weights[job] - p->alike, *own = seconds + p->speed[job] * p->options;
        double paid = INFINITY;
        int64_t fastest = 0;
        for (int64_t option = 0; option < p->options; option++) {
            const double pays = (lost[option] + more) * own[option];
            if (pays < paid) paid = pays, fastest = option;
        }
        price[job] = isinf(paid) ? 0.0 : paid;
        if (!(price[job] > 0.0)) continue;
        double *changed = worth;
        for (int64_t pool = 0; pool < p->pool[fastest]; pool++) changed += p->sizes[pool] + 1;
        add_job(p, changed, before, p->pool[fastest], p->rates + p->speed[job] * p->options, paid);
    }
}

/* Whether a buffer holds exactly `count` entries of eight bytes. */
static int holds(const Py_buffer *buffer, int64_t count) { return buffer->len == count * 8; }

static int fits(const Problem *p, const Py_buffer *weights, const Py_buffer *ahead, const Py_buffer *price,
                const Py_buffer *rates, const Py_buffer *pool, int64_t draws) {
    if (p->jobs < 1 || p->options < 1 || p->pools < 1 || !holds(weights, p->jobs) || !holds(pool, p->options) ||
        !holds(rates, p->speeds * p->options) || !holds(ahead, draws * p->jobs) || !holds(price, draws * p->jobs))
        return 0;
    for (int64_t job = 0; job < p->jobs; job++)
        if (p->speed[job] < 0 || p->speed[job] >= p->speeds) return 0;
    for (int64_t option = 0; option < p->options; option++)
        if (p->uses[option] < 1 || p->pool[option] < 0 || p->pool[option] >= p->pools) return 0;
    for (int64_t each = 0; each < p->pools; each++)
        if (p->sizes[each] < 0 || p->sizes[each] > (int64_t)1 << 40) return 0;
    return 1;
}

static PyObject *run(PyObject *module, PyObject *arguments) {
    Py_buffer rates, speed, weights, uses, pool, sizes, ahead, price;
    double alike, last;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*ddy*w*", &rates, &speed, &weights, &uses, &pool, &sizes, &alike,
                          &last, &ahead, &price))
        return NULL;
    PyObject *answer = NULL;
    double *memory = NULL, *seconds = NULL;
    int64_t *waits = NULL;
    Problem p = {rates.buf, speed.buf, weights.buf, uses.buf, pool.buf, sizes.buf, speed.len / 8, 0, uses.len / 8,
                 sizes.len / 8, alike, last};
    p.speeds = p.options > 0 ? rates.len / 8 / p.options : 0;
    const int64_t draws = p.jobs > 0 ? ahead.len / 8 / p.jobs : 0;
    if (!fits(&p, &weights, &ahead, &price, &rates, &pool, draws)) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the recursion do not fit together");
        goto done;
    }
    size_t room = (size_t)(p.options + p.speeds + 1), most = 0;
    for (int64_t each = 0; each < p.pools; each++) {
        const size_t size = (size_t)p.sizes[each] + 1;
        room += size;
        most = size > most ? size : most;
    }
    memory = malloc((room + most) * sizeof(double));
    seconds = malloc((size_t)(p.speeds * p.options) * sizeof(double));
    waits = malloc((size_t)p.jobs * sizeof(int64_t));
    if (memory == NULL || seconds == NULL || waits == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (int64_t at = 0; at < p.speeds * p.options; at++)
        seconds[at] = p.rates[at] > 0.0 ? 1.0 / p.rates[at] : INFINITY;
    for (int64_t draw = 0; draw < draws; draw++)
        recursion(&p, seconds, (const double *)ahead.buf + draw * p.jobs, (double *)price.buf + draw * p.jobs, memory,
                  waits);
    Py_END_ALLOW_THREADS
    answer = Py_NewRef(Py_None);
done:
    free(memory);
    free(seconds);
    free(waits);
    PyBuffer_Release(&rates);
    PyBuffer_Release(&speed);
    PyBuffer_Release(&weights);
    PyBuffer_Release(&uses);
    PyBuffer_Release(&pool);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&ahead);
    PyBuffer_Release(&price);
    return answer;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "Fill the prices of every draw; see costates.py."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "costates_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_costates_c(void) { return PyModuleDef_Init(&definition); }
