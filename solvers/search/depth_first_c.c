/* Depth-first search over menus under rows of integer costs: the compiled twin of `depth_first.py`.
 *
 * Every array belongs to the caller and is changed in place, so that the state of a search is plain data: it can be
 * stored, changed between two calls (a better incumbent shortens the rows of values) and taken up again. Sums cannot
 * overflow: what is left of a row lies in [-2^30, 2^30] and a cost in [0, 2^30 + 1], because the caller cut both off.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { EXHAUSTED = 0, OUT_OF_NODES = 1, LEAF = 2 };
enum { DEPTH = 0, NODES = 1, LIMIT = 2, FLOOR = 3, ROOT = 4, CONTROLS = 5 };

typedef struct {
    const int64_t *offsets; /* [jobs + 1]: the options of each job, in the order of the search */
    const int32_t *costs;   /* [options, rows] */
    const int64_t *worth;   /* [options] */
    int32_t *left;          /* [jobs + 1, rows]: what is left of each row above each job */
    int64_t *earned;        /* [jobs + 1]: the worth of the options chosen above each job */
    int64_t *cursor;        /* [jobs + 1]: the option to try next at each job */
    int64_t *control;       /* depth, nodes so far, nodes at which to return, worth to beat, depth of the root */
    int64_t jobs, rows;
} Search;

static int search(const Search *s) {
    const int64_t jobs = s->jobs, rows = s->rows;
    int64_t depth = s->control[DEPTH], nodes = s->control[NODES];
    const int64_t limit = s->control[LIMIT], root = s->control[ROOT];
    int status = OUT_OF_NODES;
    while (nodes < limit) {
        const int64_t option = s->cursor[depth];
        if (option >= s->offsets[depth + 1]) {
            if (depth == root) {
                status = EXHAUSTED;
                break;
            }
            depth--;
            continue;
        }
        s->cursor[depth] = option + 1;
        nodes++;
        const int32_t *cost = s->costs + option * rows;
        const int32_t *above = s->left + depth * rows;
        int32_t *below = s->left + (depth + 1) * rows;
        int32_t signs = 0;
        for (int64_t row = 0; row < rows; row++) {
            below[row] = above[row] - cost[row];
            signs |= below[row];
        }
        if (signs < 0) {
            /* Options stand in the order of their cost in row 0: the rest of the menu costs no less. */
            if (below[0] < 0) s->cursor[depth] = s->offsets[depth + 1];
            continue;
        }
        s->earned[depth + 1] = s->earned[depth] + s->worth[option];
        if (depth + 1 == jobs) {
            if (s->earned[jobs] <= s->control[FLOOR]) continue;
            status = LEAF;
            break;
        }
        depth++;
        s->cursor[depth] = s->offsets[depth];
    }
    s->control[DEPTH] = depth;
    s->control[NODES] = nodes;
    return status;
}

/* Whether a buffer holds exactly `count` entries of `size` bytes. */
static int holds(const Py_buffer *buffer, int64_t count, int64_t size) {
    return buffer->len == count * size;
}

static PyObject *run(PyObject *module, PyObject *arguments) {
    Py_buffer offsets, costs, worth, left, earned, cursor, control;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*w*w*w*", &offsets, &costs, &worth, &left, &earned, &cursor, &control))
        return NULL;
    PyObject *answer = NULL;
    const int64_t jobs = offsets.len / 8 - 1, options = worth.len / 8;
    const int64_t rows = jobs > 0 ? left.len / 4 / (jobs + 1) : 0;
    const int64_t *offset = offsets.buf, *state = control.buf;
    if (jobs < 1 || rows < 1 || !holds(&offsets, jobs + 1, 8) || !holds(&worth, options, 8) ||
        !holds(&costs, options * rows, 4) || !holds(&left, (jobs + 1) * rows, 4) || !holds(&earned, jobs + 1, 8) ||
        !holds(&cursor, jobs + 1, 8) || !holds(&control, CONTROLS, 8) || state[ROOT] < 0 ||
        state[DEPTH] < state[ROOT] || state[DEPTH] >= jobs) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the search do not fit together");
        goto done;
    }
    for (int64_t job = 0; job < jobs; job++) {
        const int64_t next = ((const int64_t *)cursor.buf)[job];
        if (offset[job] < 0 || offset[job] > offset[job + 1] || offset[job + 1] > options ||
            (job <= state[DEPTH] && (next < offset[job] || next > offset[job + 1]))) {
            PyErr_SetString(PyExc_ValueError, "offsets or cursors of the search point outside the options");
            goto done;
        }
    }
    Search s = {offset, costs.buf, worth.buf, left.buf, earned.buf, cursor.buf, control.buf, jobs, rows};
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = search(&s);
    Py_END_ALLOW_THREADS
    answer = PyLong_FromLong(status);
done:
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&costs);
    PyBuffer_Release(&worth);
    PyBuffer_Release(&left);
    PyBuffer_Release(&earned);
    PyBuffer_Release(&cursor);
    PyBuffer_Release(&control);
    return answer;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "Search on until a leaf, the end or the limit of nodes; see depth_first.py."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "depth_first_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_depth_first_c(void) { return PyModuleDef_Init(&definition); }
