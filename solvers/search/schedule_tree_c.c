/* Depth-first search for a schedule of jobs that each hold some of a pool's machines: the compiled twin of
 * `schedule_tree.py`.
 *
 * Every array belongs to the caller and is changed in place, so that the state of a search is plain data. Sums cannot
 * overflow: times and the length are at least 0, and the caller keeps count times length below 2^62.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { EXHAUSTED = 0, OUT_OF_NODES = 1, FOUND = 2 };
enum { DEPTH = 0, NODES = 1, LIMIT = 2, LEFT = 3, COUNT = 4, LENGTH = 5, BUDGET = 6, CONTROLS = 7 };
enum { NOW = 0, FREE = 1, IDLE = 2, CURSOR = 3, JOB = 4, FIELDS = 5 };

typedef struct {
    const int64_t *times, *widths; /* [jobs], alike ones beside each other */
    int64_t *end;                  /* [jobs]: when each ends, -1 before it is begun */
    int64_t (*level)[FIELDS];      /* [2 jobs + 2]: the moment, free machines, idle time so far, what is next, the job */
    int64_t *control;
    int64_t jobs;
} Search;

/* When the next job ends, and how many machines it frees; 0 where the search may not wait until then. */
static int waited(const Search *s, const int64_t *at, int64_t *below) {
    int64_t next = INT64_MAX, freed = 0;
    for (int64_t j = 0; j < s->jobs; j++) {
        if (s->end[j] <= at[NOW] || s->end[j] > next) continue;
        freed = s->end[j] < next ? s->widths[j] : freed + s->widths[j];
        next = s->end[j];
    }
    if (next == INT64_MAX) return 0;
    const int64_t wait = next - at[NOW], idle = at[IDLE] + at[FREE] * wait;
    if (idle > s->control[BUDGET]) return 0;
    for (int64_t j = 0; j < s->jobs; j++) {
        if (s->end[j] >= 0) continue;
        /* too late then, or it would fit in before: begun now it is no later, and nothing else is moved */
        if (next + s->times[j] > s->control[LENGTH] || (s->widths[j] <= at[FREE] && s->times[j] <= wait)) return 0;
    }
    below[NOW] = next, below[FREE] = at[FREE] + freed, below[IDLE] = idle, below[CURSOR] = 0;
    return 1;
}

/* Whether a job may be begun at a level: of alike ones the first goes first, of equally wide ones that follow each other
 * the longer. */
static int startable(const Search *s, const int64_t *at, int64_t j) {
    if (s->end[j] >= 0 || s->widths[j] > at[FREE]) return 0;
    if (j > 0 && s->end[j - 1] < 0 && s->times[j - 1] == s->times[j] && s->widths[j - 1] == s->widths[j]) return 0;
    for (int64_t i = j + 1; i < s->jobs && s->widths[i] == s->widths[j]; i++)
        if (s->end[i] == at[NOW] && s->times[i] < s->times[j]) return 0;
    return 1;
}

static int search(const Search *s) {
    int64_t *c = s->control, depth = c[DEPTH];
    const int64_t jobs = s->jobs;
    int status = OUT_OF_NODES;
    while (c[NODES] < c[LIMIT]) {
        int64_t *at = s->level[depth], *below = s->level[depth + 1], j = at[CURSOR];
        while (j < jobs && !startable(s, at, j)) j++;
        at[CURSOR] = j + 1;
        if (j < jobs) {
            c[NODES]++;
            s->end[j] = at[NOW] + s->times[j];
            at[JOB] = j;
            depth++;
            if (--c[LEFT] == 0) {
                status = FOUND;
                break;
            }
            below[NOW] = at[NOW], below[FREE] = at[FREE] - s->widths[j], below[IDLE] = at[IDLE], below[CURSOR] = j + 1;
            continue;
        }
        if (j == jobs && waited(s, at, below)) {
            c[NODES]++;
            at[JOB] = -1;
            depth++;
            continue;
        }
        at[CURSOR] = jobs + 1;
        if (j == jobs) continue;
        if (depth == 0) {
            status = EXHAUSTED;
            break;
        }
        j = s->level[--depth][JOB];
        if (j >= 0) {
            s->end[j] = -1;
            c[LEFT]++;
        }
    }
    c[DEPTH] = depth;
    return status;
}

static PyObject *run(PyObject *module, PyObject *arguments) {
    Py_buffer times, widths, end, level, control;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*w*w*w*", &times, &widths, &end, &level, &control)) return NULL;
    PyObject *answer = NULL;
    const int64_t jobs = times.len / 8, *state = control.buf;
    if (jobs < 1 || times.len != jobs * 8 || widths.len != times.len || end.len != times.len ||
        level.len != (2 * jobs + 2) * FIELDS * 8 || control.len != CONTROLS * 8 || state[LEFT] < 1 || state[LEFT] > jobs ||
        state[DEPTH] < 0 || state[DEPTH] > 2 * jobs) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the search do not fit together");
        goto done;
    }
    Search s = {times.buf, widths.buf, end.buf, (int64_t(*)[FIELDS])level.buf, control.buf, jobs};
    for (int64_t at = 0; at <= state[DEPTH]; at++)
        if (s.level[at][CURSOR] < 0 || s.level[at][CURSOR] > jobs + 1 ||
            (at < state[DEPTH] && (s.level[at][JOB] < -1 || s.level[at][JOB] >= jobs))) {
            PyErr_SetString(PyExc_ValueError, "a level of the search points outside the jobs");
            goto done;
        }
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = search(&s);
    Py_END_ALLOW_THREADS
    answer = PyLong_FromLong(status);
done:
    PyBuffer_Release(&times);
    PyBuffer_Release(&widths);
    PyBuffer_Release(&end);
    PyBuffer_Release(&level);
    PyBuffer_Release(&control);
    return answer;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "Search on until a schedule, the end or the limit of nodes; see schedule_tree.py."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "schedule_tree_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_schedule_tree_c(void) { return PyModuleDef_Init(&definition); }
