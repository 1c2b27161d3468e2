/* Depth-first branch and bound over jobs that each go to one machine, machines having capacities.
 *
 * A node is bounded by relaxing "every job once": with integer prices L_j of the jobs,
 *     sum_j L_j + sum_i min { sum_j (c_ij - L_j) x_ij : sum_j a_ij x_ij <= b_i, x in {0, 1} }
 * is at most the cost of every plan below the node. Each machine is a 0/1 knapsack, solved by dynamic programming over
 * its capacity in steps of its grain (uses rounded down, so what is dropped is dropped from a relaxation). All numbers
 * are integers; tables hold them as doubles, exactly, because the caller keeps every sum below 2^52.
 *
 * The state is one block of plain memory that belongs to the caller.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { EXHAUSTED = 0, OUT_OF_NODES = 1, FOUND = 2, OUT_OF_WORK = 3 };
enum { ENTER, BOUND, FIX, BRANCH, NEXT, BACK, DONE };
enum {
    JOBS, MACHINES, RESOURCES, WIDTH, TARGET, UNIT, ROOT_STEPS, NODE_STEPS, LARGEST, /* given */
    DEPTH, PHASE, STEP, STALL, WORK, NODES, BASE, TRAIL, BEST, ALPHA, ROUND, CONTROLS /* kept */
};
#define NONE INT64_MIN

typedef struct {
    int64_t *control;
    const int64_t *cost, *use, *grain;
    int64_t *rem;    /* [resources, machines]: what is left of the capacities */
    int64_t *prices; /* [jobs + 2, jobs]: the best prices of each depth; the last row is the present one */
    int64_t *marks;
    double *table, *left, *without, *with, *direction;
    int32_t *degree, *at, *cover, *holder, *found, *item, *order, *branched, *count, *cursor, *trail, *kind, *held;
    uint8_t *open;
    int64_t n, m, r, width;
    int64_t path; /* bytes from the block's begin that say where the search is; what follows is made anew at every node */
} Tree;

/* Divide a block into the arrays of a tree; return its size in bytes (without a block: only that). */
static int64_t layout(Tree *t, char *block, int64_t n, int64_t m, int64_t r, int64_t width) {
    int64_t at = 0;
#define TAKE(field, type, entries)                                        \
    do {                                                                  \
        if (block) t->field = (type *)(void *)(block + at);               \
        at += ((entries) * (int64_t)sizeof(type) + 63) / 64 * 64;         \
    } while (0)
    TAKE(control, int64_t, CONTROLS);
    TAKE(rem, int64_t, r * m);
    TAKE(open, uint8_t, m * n);
    TAKE(at, int32_t, n);
    TAKE(degree, int32_t, n);
    TAKE(kind, int32_t, m);
    TAKE(held, int32_t, m);
    TAKE(trail, int32_t, m * n + n + 1);
    TAKE(marks, int64_t, n + 1);
    TAKE(order, int32_t, (n + 1) * m);
    TAKE(branched, int32_t, n + 1);
    TAKE(count, int32_t, n + 1);
    TAKE(cursor, int32_t, n + 1);
    TAKE(prices, int64_t, (n + 2) * n);
    t->path = at;
    TAKE(table, double, (n + 1) * width);
    TAKE(left, double, 2 * width);
    TAKE(without, double, m * n);
    TAKE(with, double, m * n);
    TAKE(direction, double, n);
    TAKE(cover, int32_t, n);
    TAKE(holder, int32_t, n);
    TAKE(found, int32_t, n);
    TAKE(item, int32_t, n);
#undef TAKE
    t->n = n, t->m = m, t->r = r, t->width = width;
    return at;
}

/* ---- the knapsack of one machine ---- */

static void extend(double *restrict to, const double *restrict from, int64_t top, int64_t use, double gain) {
    if (use > top) {
        memcpy(to, from, (size_t)(top + 1) * sizeof(double));
        return;
    }
    memcpy(to, from, (size_t)use * sizeof(double));
    const double *restrict later = from + use;
    double *restrict target = to + use;
    for (int64_t w = 0; w <= top - use; w++) {
        const double taken = from[w] + gain, kept = later[w];
        target[w] = taken > kept ? taken : kept;
    }
}

static double best_sum(const double *restrict a, const double *restrict b, int64_t count) {
    double m0 = -1e300, m1 = -1e300, m2 = -1e300, m3 = -1e300;
    int64_t w = 0;
    for (; w + 4 <= count; w += 4) {
        const double s0 = a[w] + b[w], s1 = a[w + 1] + b[w + 1], s2 = a[w + 2] + b[w + 2], s3 = a[w + 3] + b[w + 3];
        m0 = s0 > m0 ? s0 : m0;
        m1 = s1 > m1 ? s1 : m1;
        m2 = s2 > m2 ? s2 : m2;
        m3 = s3 > m3 ? s3 : m3;
    }
    for (; w < count; w++) {
        const double s = a[w] + b[w];
        m0 = s > m0 ? s : m0;
    }
    m0 = m1 > m0 ? m1 : m0;
    m2 = m3 > m2 ? m3 : m2;
    return m2 > m0 ? m2 : m0;
}

/* Fill the table of a machine over its profitable items; return their number, `*top` the steps of capacity left and
 * `*sure` the profit of the items that use no step (they are in every best packing). */
static int64_t forward(Tree *t, int64_t i, const int64_t *price, int64_t *top, double *sure) {
    const int64_t n = t->n, grain = t->grain[i];
    const int64_t *cost = t->cost + i * n, *use = t->use + i * n;
    const uint8_t *open = t->open + i * n;
    const int64_t b = t->rem[i] / grain;
    int64_t k = 0;
    *top = b;
    *sure = 0.0;
    memset(t->table, 0, (size_t)(b + 1) * sizeof(double));
    for (int64_t j = 0; j < n; j++) {
        if (!open[j] || t->at[j] >= 0) continue;
        const int64_t gain = price[j] - cost[j];
        if (gain <= 0) continue;
        const int64_t step = use[j] / grain;
        if (step == 0) {
            *sure += (double)gain;
            t->cover[j] += 1;
            t->holder[j] = (int32_t)i;
            continue;
        }
        extend(t->table + (k + 1) * t->width, t->table + k * t->width, b, step, (double)gain);
        t->item[k++] = (int32_t)j;
    }
    t->control[WORK] += (k + 1) * (b + 1) + n;
    return k;
}

/* The bound at given prices; counts in `cover` how often the best packings hold each job. */
static double relaxed(Tree *t, const int64_t *price) {
    double total = (double)t->control[BASE];
    for (int64_t j = 0; j < t->n; j++) {
        t->cover[j] = 0;
        if (t->at[j] < 0) total += (double)price[j];
    }
    for (int64_t i = 0; i < t->m; i++) {
        int64_t top;
        double sure;
        const int64_t k = forward(t, i, price, &top, &sure);
        total -= t->table[k * t->width + top] + sure;
        int64_t w = top;
        for (int64_t q = k; q > 0; q--) {
            if (t->table[q * t->width + w] == t->table[(q - 1) * t->width + w]) continue;
            const int32_t j = t->item[q - 1];
            t->cover[j] += 1;
            t->holder[j] = (int32_t)i;
            w -= t->use[i * t->n + j] / t->grain[i];
        }
    }
    return total;
}

/* For every open pair: by how much the machine's best packing falls with, and without, the job. */
static double conditional(Tree *t, const int64_t *price) {
    const int64_t n = t->n;
    double total = (double)t->control[BASE];
    for (int64_t j = 0; j < n; j++)
        if (t->at[j] < 0) total += (double)price[j];
    for (int64_t i = 0; i < t->m; i++) {
        int64_t top;
        double sure;
        const int64_t k = forward(t, i, price, &top, &sure), grain = t->grain[i];
        const double *whole = t->table + k * t->width;
        const double most = whole[top];
        total -= most + sure;
        double *with = t->with + i * n, *without = t->without + i * n;
        for (int64_t j = 0; j < n; j++) {
            if (!t->open[i * n + j] || t->at[j] >= 0) continue;
            const int64_t gain = price[j] - t->cost[i * n + j], step = t->use[i * n + j] / grain;
            if (gain > 0) {
                without[j] = step == 0 ? (double)gain : 0.0;
                with[j] = 0.0;
            } else {
                without[j] = 0.0;
                with[j] = most - whole[top - step] - (double)gain;
            }
        }
        double *here = t->left, *next = t->left + t->width;
        memset(here, 0, (size_t)(top + 1) * sizeof(double));
        for (int64_t q = k; q > 0; q--) {
            const int32_t j = t->item[q - 1];
            const int64_t step = t->use[i * n + j] / grain;
            const double gain = (double)(price[j] - t->cost[i * n + j]);
            const double *before = t->table + (q - 1) * t->width;
            without[j] = most - best_sum(before, here, top + 1);
            with[j] = most - gain - best_sum(before, here + step, top + 1 - step);
            /* here[w]: the best of the items after q in the capacity that w leaves */
            for (int64_t w = 0; w + step <= top; w++) {
                const double taken = here[w + step] + gain, kept = here[w];
                next[w] = taken > kept ? taken : kept;
            }
            memcpy(next + (top + 1 - step), here + (top + 1 - step), (size_t)step * sizeof(double));
            double *swap = here;
            here = next;
            next = swap;
        }
        t->control[WORK] += 3 * k * (top + 1);
    }
    return total;
}

/* ---- the tree ---- */

static void place(Tree *t, int64_t j, int64_t i) {
    t->at[j] = (int32_t)i;
    t->held[i] += 1;
    t->control[BASE] += t->cost[i * t->n + j];
    for (int64_t q = 0; q < t->r; q++) t->rem[q * t->m + i] -= t->use[(q * t->m + i) * t->n + j];
    t->trail[t->control[TRAIL]++] = -(int32_t)(j + 1);
}

static void remove_pair(Tree *t, int64_t i, int64_t j) {
    t->open[i * t->n + j] = 0;
    t->degree[j] -= 1;
    t->trail[t->control[TRAIL]++] = (int32_t)(i * t->n + j);
}

static void undo(Tree *t, int64_t mark) {
    while (t->control[TRAIL] > mark) {
        const int32_t entry = t->trail[--t->control[TRAIL]];
        if (entry >= 0) {
            t->open[entry] = 1;
            t->degree[entry % t->n] += 1;
            continue;
        }
        const int64_t j = -(int64_t)entry - 1, i = t->at[j];
        t->at[j] = -1;
        t->held[i] -= 1;
        t->control[BASE] -= t->cost[i * t->n + j];
        for (int64_t q = 0; q < t->r; q++) t->rem[q * t->m + i] += t->use[(q * t->m + i) * t->n + j];
    }
}

static int fits(const Tree *t, int64_t i, int64_t j) {
    for (int64_t q = 0; q < t->r; q++)
        if (t->use[(q * t->m + i) * t->n + j] > t->rem[q * t->m + i]) return 0;
    return 1;
}

/* Remove what no longer fits, place jobs that have one machine left; 0 where a job has none. */
static int propagated(Tree *t) {
    for (int again = 1; again;) {
        again = 0;
        for (int64_t i = 0; i < t->m; i++)
            for (int64_t j = 0; j < t->n; j++)
                if (t->open[i * t->n + j] && t->at[j] < 0 && !fits(t, i, j)) remove_pair(t, i, j);
        t->control[WORK] += t->n * t->m;
        for (int64_t j = 0; j < t->n; j++) {
            if (t->at[j] >= 0) continue;
            if (t->degree[j] == 0) return 0;
            if (t->degree[j] > 1) continue;
            int64_t i = 0;
            while (!t->open[i * t->n + j]) i++;
            if (!fits(t, i, j)) return 0;
            place(t, j, i);
            again = 1;
        }
    }
    return 1;
}

/* Whether the packings, which hold every job once, keep to the capacities: then they are a plan of the bound's cost. */
static int is_plan(Tree *t) {
    for (int64_t q = 0; q < t->r; q++)
        for (int64_t i = 0; i < t->m; i++) {
            int64_t rest = t->rem[q * t->m + i];
            for (int64_t j = 0; j < t->n; j++)
                if (t->at[j] < 0 && t->holder[j] == i) rest -= t->use[(q * t->m + i) * t->n + j];
            if (rest < 0) return 0;
        }
    for (int64_t j = 0; j < t->n; j++) t->found[j] = t->at[j] >= 0 ? t->at[j] : t->holder[j];
    return 1;
}

static void begin_bounding(Tree *t, int64_t round) {
    int64_t *c = t->control;
    memcpy(t->prices + (t->n + 1) * t->n, t->prices + c[DEPTH] * t->n, (size_t)t->n * sizeof(int64_t));
    memset(t->direction, 0, (size_t)t->n * sizeof(double));
    c[STEP] = c[STALL] = 0;
    c[BEST] = NONE;
    c[ALPHA] = 1024;
    c[ROUND] = round;
    c[PHASE] = BOUND;
}

/* One step of the prices along a deflected subgradient, its length from the target (Polyak); 1 where it met a plan. */
static int bound_step(Tree *t) {
    int64_t *c = t->control;
    const int64_t n = t->n;
    int64_t *own = t->prices + c[DEPTH] * n, *price = t->prices + (n + 1) * n;
    const int64_t bound = (int64_t)relaxed(t, price);
    if (c[BEST] == NONE || bound > c[BEST]) {
        if (c[BEST] != NONE && bound - c[BEST] < c[UNIT] / 64) c[STALL] += 1; else c[STALL] = 0;
        c[BEST] = bound;
        memcpy(own, price, (size_t)n * sizeof(int64_t));
    } else {
        c[STALL] += 1;
    }
    if (bound > c[TARGET]) {
        c[PHASE] = BACK;
        return 0;
    }
    double norm = 0.0;
    int even = 1;
    for (int64_t j = 0; j < n; j++) {
        if (t->at[j] >= 0) continue;
        const double gradient = 1.0 - (double)t->cover[j];
        if (gradient != 0.0) even = 0;
        t->direction[j] = gradient + 0.5 * t->direction[j];
        norm += t->direction[j] * t->direction[j];
    }
    c[STEP] += 1;
    const int64_t steps = c[DEPTH] == 0 ? c[ROOT_STEPS] : c[NODE_STEPS];
    if (c[STALL] > 0 && c[STALL] % 4 == 0) {
        c[ALPHA] = c[ALPHA] * 3 / 4;
    }
    if (even || norm == 0.0 || c[STEP] >= (c[ROUND] ? steps / 2 + 1 : steps) || c[ALPHA] < 4) {
        c[PHASE] = FIX;
        return even && is_plan(t);
    }
    const double length = (double)c[ALPHA] / 1024.0 * (double)(c[TARGET] + c[UNIT] / 2 + 1 - bound) / norm;
    for (int64_t j = 0; j < n; j++) {
        if (t->at[j] >= 0) continue;
        double moved = (double)price[j] + length * t->direction[j];
        if (moved > (double)c[LARGEST]) moved = (double)c[LARGEST];
        if (moved < -(double)c[LARGEST]) moved = -(double)c[LARGEST];
        price[j] = (int64_t)(moved < 0 ? moved - 0.5 : moved + 0.5);
    }
    return 0;
}

/* Remove every pair whose own bound is above the target. */
static void fix(Tree *t) {
    int64_t *c = t->control;
    const int64_t n = t->n, m = t->m;
    const double bound = conditional(t, t->prices + c[DEPTH] * n), target = (double)c[TARGET];
    int64_t removed = 0;
    for (int64_t j = 0; j < n; j++) {
        if (t->at[j] >= 0) continue;
        double all = bound;
        for (int64_t i = 0; i < m; i++)
            if (t->open[i * n + j]) all += t->without[i * n + j];
        for (int64_t i = 0; i < m; i++) {
            if (!t->open[i * n + j]) continue;
            double *with = t->with + i * n + j;
            *with += all - t->without[i * n + j];
            if (*with > target) {
                remove_pair(t, i, j);
                removed++;
            }
        }
    }
    if (removed == 0) {
        c[PHASE] = BRANCH;
        return;
    }
    if (!propagated(t)) {
        c[PHASE] = BACK;
        return;
    }
    begin_bounding(t, c[ROUND] + 1);
}

/* Whether an earlier machine of the same kind is empty like this one: what is placed on either may change places. */
static int has_empty_twin(const Tree *t, int64_t i, int64_t j) {
    if (t->held[i] > 0) return 0;
    for (int64_t k = t->kind[i]; k < i; k++)
        if (t->kind[k] == t->kind[i] && t->held[k] == 0 && t->open[k * t->n + j]) return 1;
    return 0;
}

/* Choose the job whose machines' bounds leave the least to search, by an estimate of the trees below. */
static int branch(Tree *t) {
    int64_t *c = t->control;
    const int64_t n = t->n, m = t->m, depth = c[DEPTH];
    double least = 1e300, room = (double)(c[TARGET] + 1 - c[BEST]);
    int64_t chosen = -1;
    if (room < 1.0) room = 1.0;
    for (int64_t j = 0; j < n; j++) {
        if (t->at[j] >= 0) continue;
        double weight = 0.0;
        for (int64_t i = 0; i < m; i++) {
            if (!t->open[i * n + j]) continue;
            double share = ((double)c[TARGET] + 1.0 - t->with[i * n + j]) / room; /* 1: no rise, 0: pruned */
            if (share < 0) share = 0;
            if (share > 1) share = 1;
            weight += share * share * share * share + 0.02;
        }
        if (weight < least) {
            least = weight;
            chosen = j;
        }
    }
    if (chosen < 0) return 0;
    int32_t *order = t->order + depth * m;
    int64_t count = 0;
    for (int64_t i = 0; i < m; i++) {
        if (!t->open[i * n + chosen] || has_empty_twin(t, i, chosen)) continue;
        int64_t at = count++;
        while (at > 0 && t->with[order[at - 1] * n + chosen] > t->with[i * n + chosen]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (int32_t)i;
    }
    t->branched[depth] = (int32_t)chosen;
    t->count[depth] = (int32_t)count;
    t->cursor[depth] = 0;
    t->marks[depth] = c[TRAIL];
    return 1;
}

static int search(Tree *t, int64_t limit, int64_t most_nodes) {
    int64_t *c = t->control;
    const int64_t n = t->n;
    while (c[WORK] < limit) {
        switch (c[PHASE]) {
        case ENTER:
            if (c[NODES] >= most_nodes) return OUT_OF_NODES;
            c[NODES] += 1;
            if (!propagated(t)) c[PHASE] = BACK;
            else begin_bounding(t, 0);
            break;
        case BOUND:
            if (bound_step(t)) return FOUND;
            break;
        case FIX:
            fix(t);
            break;
        case BRANCH:
            if (branch(t)) {
                c[PHASE] = NEXT;
                break;
            }
            c[PHASE] = BACK;
            if (c[BASE] > c[TARGET]) break;
            memcpy(t->found, t->at, (size_t)n * sizeof(int32_t));
            return FOUND;
        case BACK:
            if (c[DEPTH] == 0) {
                c[PHASE] = DONE;
                break;
            }
            c[DEPTH] -= 1;
            undo(t, t->marks[c[DEPTH]]);
            c[PHASE] = NEXT;
            break;
        case NEXT: {
            const int64_t d = c[DEPTH];
            if (t->cursor[d] >= t->count[d]) {
                c[PHASE] = BACK;
                break;
            }
            const int64_t i = t->order[d * t->m + t->cursor[d]++], j = t->branched[d];
            place(t, j, i);
            memcpy(t->prices + (d + 1) * n, t->prices + d * n, (size_t)n * sizeof(int64_t));
            c[DEPTH] = d + 1;
            c[PHASE] = ENTER;
            break;
        }
        default:
            return EXHAUSTED;
        }
    }
    return c[PHASE] == DONE ? EXHAUSTED : OUT_OF_WORK;
}

/* The least depth above the present one at which machines are still to be tried, -1 without one. */
static int64_t widest(const Tree *t) {
    for (int64_t d = 0; d < t->control[DEPTH]; d++)
        if (t->cursor[d] < t->count[d]) return d;
    return -1;
}

/* Give what is still to be tried at the widest depth to another block; nothing is open above that depth. */
static void divide(Tree *t, Tree *given, int64_t depth) {
    memcpy(given->control, t->control, (size_t)t->path);
    t->count[depth] = t->cursor[depth];
    undo(given, given->marks[depth]);
    given->control[DEPTH] = depth;
    given->control[PHASE] = NEXT;
    given->control[NODES] = given->control[WORK] = 0;
}

/* ---- Python ---- */

static int bind(Tree *t, const Py_buffer *block) {
    const int64_t *c = block->buf;
    if (block->len < (int64_t)(CONTROLS * sizeof(int64_t)) || c[JOBS] < 1 || c[MACHINES] < 1 || c[RESOURCES] < 1 ||
        c[WIDTH] < 1 || block->len < layout(t, NULL, c[JOBS], c[MACHINES], c[RESOURCES], c[WIDTH])) {
        PyErr_SetString(PyExc_ValueError, "this block is no tree");
        return 0;
    }
    layout(t, block->buf, c[JOBS], c[MACHINES], c[RESOURCES], c[WIDTH]);
    return 1;
}

static PyObject *size(PyObject *module, PyObject *arguments) {
    long long n, m, r, width;
    Tree t;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "LLLL", &n, &m, &r, &width)) return NULL;
    return PyLong_FromLongLong(layout(&t, NULL, n, m, r, width));
}

static PyObject *begin(PyObject *module, PyObject *arguments) {
    Py_buffer block, capacities, open, prices, kind;
    Tree t;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*y*y*", &block, &capacities, &open, &prices, &kind)) return NULL;
    PyObject *answer = NULL;
    if (!bind(&t, &block)) goto done;
    if (capacities.len != t.r * t.m * 8 || open.len != t.m * t.n || prices.len != t.n * 8 || kind.len != t.m * 4) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the tree do not fit together");
        goto done;
    }
    memcpy(t.rem, capacities.buf, (size_t)capacities.len);
    memcpy(t.open, open.buf, (size_t)open.len);
    memcpy(t.prices, prices.buf, (size_t)prices.len);
    for (int64_t i = 0; i < t.m; i++) {
        const int32_t first = ((const int32_t *)kind.buf)[i];
        t.kind[i] = first < 0 ? 0 : first;
    }
    for (int64_t j = 0; j < t.n; j++) {
        t.at[j] = -1;
        t.degree[j] = 0;
        for (int64_t i = 0; i < t.m; i++) t.degree[j] += t.open[i * t.n + j] != 0;
    }
    answer = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&block);
    PyBuffer_Release(&capacities);
    PyBuffer_Release(&open);
    PyBuffer_Release(&prices);
    PyBuffer_Release(&kind);
    return answer;
}

/* Lend a tree its costs and uses; 0 where they are of another size. */
static int lend(Tree *t, const Py_buffer *cost, const Py_buffer *use) {
    if (cost->len != t->m * t->n * 8 || use->len != t->r * t->m * t->n * 8) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the tree do not fit together");
        return 0;
    }
    t->cost = cost->buf, t->use = use->buf;
    return 1;
}

static PyObject *run(PyObject *module, PyObject *arguments) {
    Py_buffer block, cost, use, grain;
    long long work, nodes;
    Tree t;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*y*LL", &block, &cost, &use, &grain, &work, &nodes)) return NULL;
    PyObject *answer = NULL;
    if (!bind(&t, &block) || !lend(&t, &cost, &use)) goto done;
    if (grain.len != t.m * 8) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the tree do not fit together");
        goto done;
    }
    t.grain = grain.buf;
    for (int64_t i = 0; i < t.m; i++)
        if (t.grain[i] < 1 || t.rem[i] < 0 || t.rem[i] / t.grain[i] >= t.width) {
            PyErr_SetString(PyExc_ValueError, "a capacity does not fit the width of the tree");
            goto done;
        }
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = search(&t, work, nodes);
    Py_END_ALLOW_THREADS
    answer = PyLong_FromLong(status);
done:
    PyBuffer_Release(&block);
    PyBuffer_Release(&cost);
    PyBuffer_Release(&use);
    PyBuffer_Release(&grain);
    return answer;
}

static PyObject *divided(PyObject *module, PyObject *arguments) {
    Py_buffer block, cost, use, other;
    Tree t, given;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*w*", &block, &cost, &use, &other)) return NULL;
    PyObject *answer = NULL;
    if (!bind(&t, &block) || !lend(&t, &cost, &use)) goto done;
    if (other.len != block.len || other.buf == block.buf) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the tree do not fit together");
        goto done;
    }
    const int64_t depth = widest(&t);
    if (depth >= 0) {
        given = t;
        layout(&given, other.buf, t.n, t.m, t.r, t.width);
        divide(&t, &given, depth);
    }
    answer = PyBool_FromLong(depth >= 0);
done:
    PyBuffer_Release(&block);
    PyBuffer_Release(&cost);
    PyBuffer_Release(&use);
    PyBuffer_Release(&other);
    return answer;
}

static PyObject *state(PyObject *module, PyObject *arguments) {
    Py_buffer block;
    Tree t;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*", &block)) return NULL;
    PyObject *answer = NULL;
    if (bind(&t, &block)) {
        const char *own = block.buf;
        answer = Py_BuildValue("LLL", (long long)((const char *)t.found - own), (long long)((const char *)t.prices - own),
                               (long long)widest(&t));
    }
    PyBuffer_Release(&block);
    return answer;
}

static PyMethodDef methods[] = {
    {"size", size, METH_VARARGS, "Bytes of the block of a tree of so many jobs, machines, resources and steps."},
    {"begin", begin, METH_VARARGS, "Put a tree at its root."},
    {"run", run, METH_VARARGS, "Search on until a plan, the end, or a limit; see assignment_tree.py."},
    {"divided", divided, METH_VARARGS, "Give what is to be tried at the widest depth to another block; whether there is such."},
    {"state", state, METH_VARARGS, "Where in the block the plan found and the root's prices stand, and the widest depth."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "assignment_tree_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_assignment_tree_c(void) { return PyModuleDef_Init(&definition); }
