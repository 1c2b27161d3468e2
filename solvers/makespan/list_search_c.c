/* Simulated annealing over the lists by which pools of machines are scheduled: the compiled twin of `list_search.py`.
 *
 * The arrays belong to the caller; lists, lengths and `random` are changed. A step schedules two pools anew at most, by
 * machines that are kept in the order in which they are free.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const double *times;             /* [jobs, pools], infinite where a job cannot run */
    const int64_t *widths, *counts;  /* [jobs, pools]: machines held; [pools]: machines there are */
    int32_t *lists;                  /* [pools, jobs]: the jobs of every pool in turn */
    int64_t *lengths, jobs, pools;   /* [pools]: how many these are */
    double *ends, *free, work, machines, weight;
    uint64_t random;
} Search;

static inline uint64_t draw(Search *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static inline double time_of(const Search *s, int32_t job, int64_t pool) { return s->times[job * s->pools + pool]; }

static inline double work_of(const Search *s, int32_t job, int64_t pool) {
    return (double)s->widths[job * s->pools + pool] * time_of(s, job, pool);
}

/* When a pool is done: each job begins as early as it can, on the machines that were free last of those free then. */
static double scheduled(const Search *s, int64_t pool) {
    const int32_t *list = s->lists + pool * s->jobs;
    const int64_t count = s->counts[pool];
    double *free = s->free, last = 0.0;
    for (int64_t m = 0; m < count; m++) free[m] = 0.0;
    for (int64_t at = 0; at < s->lengths[pool]; at++) {
        const int64_t width = s->widths[list[at] * s->pools + pool];
        const double start = free[width - 1], end = start + time_of(s, list[at], pool);
        int64_t beyond = width;
        while (beyond < count && free[beyond] <= start) beyond++;
        int64_t later = beyond;
        while (later < count && free[later] < end) later++;
        memmove(free + beyond - width, free + beyond, (size_t)(later - beyond) * sizeof *free);
        for (int64_t m = later - width; m < later; m++) free[m] = end;
        if (end > last) last = end;
    }
    return last;
}

static double top(const Search *s) {
    double most = 0.0;
    for (int64_t p = 0; p < s->pools; p++)
        if (s->ends[p] > most) most = s->ends[p];
    return most;
}

static double cost(const Search *s) {
    double sum = 0.0;
    for (int64_t p = 0; p < s->pools; p++) sum += s->ends[p];
    return top(s) + s->weight * (sum / (double)s->pools + s->work / s->machines);
}

static int32_t lifted(Search *s, int64_t pool, int64_t at) {
    int32_t *list = s->lists + pool * s->jobs, job = list[at];
    memmove(list + at, list + at + 1, (size_t)(--s->lengths[pool] - at) * sizeof *list);
    return job;
}

static void insert(Search *s, int64_t pool, int64_t at, int32_t job) {
    int32_t *list = s->lists + pool * s->jobs;
    memmove(list + at + 1, list + at, (size_t)(s->lengths[pool]++ - at) * sizeof *list);
    list[at] = job;
}

/* Two jobs change places, or one goes to another place; the same with the places exchanged undoes it. */
static void change(Search *s, int exchanges, int64_t pool, int64_t at, int64_t other, int64_t there) {
    if (!exchanges) {
        insert(s, other, there, lifted(s, pool, at));
        return;
    }
    int32_t *one = s->lists + pool * s->jobs + at, *two = s->lists + other * s->jobs + there, job = *one;
    *one = *two, *two = job;
}

static void step(Search *s, double temperature) {
    int64_t pool = 0, other;
    if (draw(s) % 2) {
        for (int64_t p = 1; p < s->pools; p++)
            if (s->ends[p] > s->ends[pool]) pool = p;
    } else
        pool = (int64_t)(draw(s) % (uint64_t)s->pools);
    if (!s->lengths[pool]) return;
    const int64_t at = (int64_t)(draw(s) % (uint64_t)s->lengths[pool]);
    const int32_t job = s->lists[pool * s->jobs + at];
    int exchanges = (int)(draw(s) % 2);
    other = draw(s) % 2 ? pool : (int64_t)(draw(s) % (uint64_t)s->pools);
    const int64_t places = s->lengths[other] + (other != pool && !exchanges);
    if (!places || !isfinite(time_of(s, job, other))) return;
    const int64_t there = (int64_t)(draw(s) % (uint64_t)places);
    const double enough = cost(s) - temperature * log(1.0 - (double)(draw(s) >> 11) * 0x1p-53);
    const double ends[2] = {s->ends[pool], s->ends[other]}, work = s->work;
    if (other != pool) {
        s->work += work_of(s, job, other) - work_of(s, job, pool);
        if (exchanges) {
            const int32_t back = s->lists[other * s->jobs + there];
            if (!isfinite(time_of(s, back, pool))) {
                s->work = work;
                return;
            }
            s->work += work_of(s, back, pool) - work_of(s, back, other);
        }
    }
    change(s, exchanges, pool, at, other, there);
    s->ends[pool] = scheduled(s, pool);
    if (other != pool) s->ends[other] = scheduled(s, other);
    if (cost(s) <= enough) return;
    change(s, exchanges, other, there, pool, at);
    s->ends[pool] = ends[0], s->ends[other] = ends[1], s->work = work;
}

static int sound(const Search *s) {
    int64_t jobs = 0;
    for (int64_t p = 0; p < s->pools; p++) {
        if (s->lengths[p] < 0 || s->lengths[p] > s->jobs || s->counts[p] < 1) return 0;
        jobs += s->lengths[p];
        for (int64_t at = 0; at < s->lengths[p]; at++) {
            const int32_t job = s->lists[p * s->jobs + at];
            if (job < 0 || job >= s->jobs || !isfinite(time_of(s, job, p))) return 0;
        }
        for (int64_t j = 0; j < s->jobs; j++) {
            const int64_t width = s->widths[j * s->pools + p];
            if (isfinite(time_of(s, (int32_t)j, p)) && (width < 1 || width > s->counts[p])) return 0;
        }
    }
    return jobs == s->jobs;
}

static PyObject *run(PyObject *module, PyObject *arguments) {
    Py_buffer b[8];
    long long steps;
    double temperature, cooling, weight;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*w*w*w*w*Lddd", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &steps,
                          &temperature, &cooling, &weight))
        return NULL;
    PyObject *answer = NULL;
    Search s = {.times = b[0].buf, .widths = b[1].buf, .counts = b[2].buf, .lists = b[3].buf, .lengths = b[4].buf, .weight = weight};
    s.pools = b[2].len / 8, s.jobs = s.pools ? b[3].len / 4 / s.pools : 0;
    if (s.jobs < 1 || s.jobs > INT32_MAX || b[3].len != s.jobs * s.pools * 4 || b[0].len != s.jobs * s.pools * 8 ||
        b[1].len != b[0].len || b[4].len != s.pools * 8 || b[5].len != b[3].len || b[6].len != b[4].len || b[7].len != 8 ||
        !sound(&s)) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the search do not fit together");
        goto done;
    }
    int64_t most = 0;
    for (int64_t p = 0; p < s.pools; p++) most = s.counts[p] > most ? s.counts[p] : most;
    s.ends = malloc((size_t)(s.pools + most) * sizeof *s.ends);
    if (!s.ends) {
        PyErr_NoMemory();
        goto done;
    }
    s.free = s.ends + s.pools;
    double best;
    Py_BEGIN_ALLOW_THREADS
    s.random = *(const uint64_t *)b[7].buf;
    for (int64_t p = 0; p < s.pools; p++) {
        s.ends[p] = scheduled(&s, p), s.machines += (double)s.counts[p];
        for (int64_t at = 0; at < s.lengths[p]; at++) s.work += work_of(&s, s.lists[p * s.jobs + at], p);
    }
    memcpy(b[5].buf, s.lists, (size_t)b[5].len), memcpy(b[6].buf, s.lengths, (size_t)b[6].len);
    best = top(&s);
    for (long long k = 0; k < steps; k++, temperature *= cooling) {
        step(&s, temperature);
        if (top(&s) < best) {
            best = top(&s);
            memcpy(b[5].buf, s.lists, (size_t)b[5].len), memcpy(b[6].buf, s.lengths, (size_t)b[6].len);
        }
    }
    *(uint64_t *)b[7].buf = s.random;
    Py_END_ALLOW_THREADS
    free(s.ends);
    answer = PyFloat_FromDouble(best);
done:
    for (int at = 0; at < 8; at++) PyBuffer_Release(&b[at]);
    return answer;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "Make so many steps from lists, and keep the best ones met. See list_search.py."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "list_search_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_list_search_c(void) { return PyModuleDef_Init(&definition); }
