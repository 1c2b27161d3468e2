/* Local search over options of few uses each: the compiled twin of `local_search.py`, step by step.
 *
 * A step gives a job another option. With ejection, jobs in its way lose theirs and take the best that still fits; else
 * capacities may be exceeded, and what exceeds them has a price. Sums stay far below 2^63: uses of all jobs together are
 * below 2^62. The arrays belong to the caller; `choice`, `best` and `random` are changed.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EJECTED = 12, LOOKS = 3 };

typedef struct {
    const double *values, *prices;                             /* [options], [capacities] */
    const int64_t *first, *use, *capacities, *begins, *listed; /* entries of options; lists of options of jobs */
    const int32_t *capacity, *owner;                           /* [entries] */
    int64_t jobs, entries, places;
    int64_t *choice, *left, *count, *start, *users, *where; /* users: entries that are taken, capacity by capacity */
    int64_t *lacked; /* [options]: the entry, from the option's first, that had no room the last time */
    int64_t exceeded; /* capacities of which more is used than there is */
    uint64_t random;
} Search;

static uint64_t draw(Search *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static double share(Search *s) { return (double)(draw(s) >> 11) * (1.0 / 9007199254740992.0); }

static void put(Search *s, int64_t job, int64_t option) {
    s->choice[job] = option;
    for (int64_t k = s->first[option]; k < s->first[option + 1]; k++) {
        const int32_t c = s->capacity[k];
        s->left[c] -= s->use[k];
        s->where[k] = s->count[c]++;
        s->users[s->start[c] + s->where[k]] = k;
    }
}

static void take_away(Search *s, int64_t job) {
    const int64_t option = s->choice[job];
    s->choice[job] = -1;
    for (int64_t k = s->first[option]; k < s->first[option + 1]; k++) {
        const int32_t c = s->capacity[k];
        s->left[c] += s->use[k];
        const int64_t moved = s->users[s->start[c] + --s->count[c]];
        s->users[s->start[c] + s->where[k]] = moved;
        s->where[moved] = s->where[k];
    }
}

static int fits(Search *s, int64_t option) {
    const int64_t first = s->first[option], end = s->first[option + 1], lacked = first + s->lacked[option];
    if (first < end && s->left[s->capacity[lacked]] < s->use[lacked]) return 0;
    for (int64_t k = first; k < end; k++)
        if (s->left[s->capacity[k]] < s->use[k]) {
            s->lacked[option] = k - first;
            return 0;
        }
    return 1;
}

/* Of some options of a job, drawn from the front of its list, the one of greatest value less the price of overuse. */
static int64_t proposed(Search *s, int64_t job, int64_t samples, double temperature) {
    const int64_t size = s->begins[job + 1] - s->begins[job], now = s->choice[job];
    int64_t best = -1;
    double most = -INFINITY;
    for (int64_t k = s->first[now]; k < s->first[now + 1]; k++) s->left[s->capacity[k]] += s->use[k];
    for (int64_t sample = 0; sample < samples; sample++) {
        const double x = share(s);
        const int64_t option = s->listed[s->begins[job] + (int64_t)(x * x * (double)size)];
        if (option == now) continue;
        double worth = s->values[option];
        for (int64_t k = s->first[option]; k < s->first[option + 1]; k++) {
            const int64_t over = s->use[k] - s->left[s->capacity[k]];
            if (over > 0) worth -= s->prices[s->capacity[k]] * (double)over;
        }
        worth += temperature * share(s);
        if (worth > most) most = worth, best = option;
    }
    for (int64_t k = s->first[now]; k < s->first[now + 1]; k++) s->left[s->capacity[k]] -= s->use[k];
    return best;
}

/* `top`: the value of the best option in the list of every job. A step is given up once it cannot gain the least it must. */
static void eject(Search *s, const double *top, int64_t steps, int64_t samples, double temperature, double cooling,
                  int64_t *best, double *value, double *best_value) {
    int64_t moved[MOST_EJECTED + 1], before[MOST_EJECTED + 1];
    for (int64_t step = 0; step < steps; step++, temperature *= cooling) {
        const int64_t job = (int64_t)(draw(s) % (uint64_t)s->jobs);
        if (s->begins[job + 1] - s->begins[job] < 2) continue;
        const int64_t option = proposed(s, job, samples, temperature);
        if (option < 0) continue;
        int count = 1, possible = 1;
        moved[0] = job, before[0] = s->choice[job];
        const double least = temperature * log(1.0 - share(s));
        double gain = s->values[option] - s->values[before[0]], hope = 0.0;
        take_away(s, job);
        for (int64_t k = s->first[option]; k < s->first[option + 1] && possible; k++) {
            const int32_t c = s->capacity[k];
            while (s->left[c] < s->use[k]) {
                if (!s->count[c] || count > MOST_EJECTED) {
                    possible = 0;
                    break;
                }
                const int64_t *users = s->users + s->start[c];
                const int64_t one = s->owner[users[draw(s) % (uint64_t)s->count[c]]];
                const int64_t other = s->owner[users[draw(s) % (uint64_t)s->count[c]]];
                const int64_t out = s->values[s->choice[one]] < s->values[s->choice[other]] ? one : other;
                moved[count] = out, before[count++] = s->choice[out];
                gain -= s->values[s->choice[out]], hope += top[out];
                take_away(s, out);
            }
        }
        int placed = 0;
        if (possible && gain + hope >= least) {
            put(s, job, option);
            for (placed = 1; placed < count; placed++) {
                const int64_t out = moved[placed];
                hope -= top[out];
                const double enough = least - gain - hope;
                int64_t found = -1;
                int looks = 0;
                for (int64_t at = s->begins[out]; at < s->begins[out + 1] && looks < LOOKS; at++) {
                    const int64_t other = s->listed[at];
                    if (s->values[other] >= enough && (found < 0 || s->values[other] > s->values[found]) && fits(s, other))
                        found = other, looks++;
                }
                if (found < 0) break;
                put(s, out, found);
                gain += s->values[found];
            }
        }
        if (placed == count && gain >= least) {
            *value += gain;
            if (*value > *best_value) *best_value = *value, memcpy(best, s->choice, (size_t)s->jobs * sizeof *best);
            continue;
        }
        while (placed > 0) take_away(s, moved[--placed]);
        while (count > 0) count--, put(s, moved[count], before[count]);
    }
}

/* Use less, or more, by an option; return by how much the priced overuse grows. */
static double moved(Search *s, int64_t option, int64_t sign) {
    double growth = 0.0;
    for (int64_t k = s->first[option]; k < s->first[option + 1]; k++) {
        const int32_t c = s->capacity[k];
        const int64_t before = s->left[c], after = before + sign * s->use[k];
        s->left[c] = after;
        growth += s->prices[c] * (double)((after < 0 ? -after : 0) - (before < 0 ? -before : 0));
        s->exceeded += (after < 0) - (before < 0);
    }
    return growth;
}

/* `weight`: of the priced overuse beside the value; it grows as the temperature falls. */
static void anneal(Search *s, int64_t steps, double weight, double temperature, double cooling, double firmer, int64_t *best,
                   double *value, double *best_value) {
    for (int64_t step = 0; step < steps; step++, temperature *= cooling, weight *= firmer) {
        const int64_t job = (int64_t)(draw(s) % (uint64_t)s->jobs), size = s->begins[job + 1] - s->begins[job];
        if (size < 2) continue;
        const double x = share(s);
        const int64_t now = s->choice[job], option = s->listed[s->begins[job] + (int64_t)(x * x * (double)size)];
        if (option == now) continue;
        const double more = s->values[option] - s->values[now];
        double growth = moved(s, now, 1);
        growth += moved(s, option, -1);
        const double gain = more - weight * growth;
        if (gain < 0.0 && gain < temperature * log(1.0 - share(s))) {
            moved(s, option, 1), moved(s, now, -1);
            continue;
        }
        s->choice[job] = option;
        *value += more;
        if (s->exceeded == 0 && *value > *best_value)
            *best_value = *value, memcpy(best, s->choice, (size_t)s->jobs * sizeof *best);
    }
}

/* Whether an option exists and all it uses is its job's: then no entry is taken twice. */
static int owned(const Search *s, int64_t option, int64_t options, int64_t job) {
    if (option < 0 || option >= options) return 0;
    for (int64_t k = s->first[option]; k < s->first[option + 1]; k++)
        if (s->owner[k] != job) return 0;
    return 1;
}

/* Whether the arrays point into each other, and every job has and lists options of its own. */
static int sound(const Search *s, int64_t options, int64_t listed) {
    if (s->first[0] != 0 || s->first[options] != s->entries || s->begins[0] != 0 || s->begins[s->jobs] != listed) return 0;
    for (int64_t o = 0; o < options; o++)
        if (s->first[o] < 0 || s->first[o] > s->first[o + 1] || s->first[o + 1] > s->entries) return 0;
    for (int64_t k = 0; k < s->entries; k++)
        if (s->capacity[k] < 0 || s->capacity[k] >= s->places || s->owner[k] < 0 || s->owner[k] >= s->jobs || s->use[k] < 0)
            return 0;
    for (int64_t j = 0; j < s->jobs; j++) {
        if (s->begins[j] < 0 || s->begins[j] > s->begins[j + 1] || s->begins[j + 1] > listed) return 0;
        if (!owned(s, s->choice[j], options, j)) return 0;
        for (int64_t at = s->begins[j]; at < s->begins[j + 1]; at++)
            if (!owned(s, s->listed[at], options, j)) return 0;
    }
    return 1;
}

/* `special`: of ejection the options that are drawn for a step, else the weight of overuse; `firmer` is what that grows by. */
static PyObject *run(PyObject *arguments, int with_ejection) {
    Py_buffer b[12];
    long long steps;
    double special, temperature, cooling, firmer;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*y*y*y*w*w*w*Ldddd", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7],
                          &b[8], &b[9], &b[10], &b[11], &steps, &special, &temperature, &cooling, &firmer))
        return NULL;
    PyObject *answer = NULL;
    int64_t *block = NULL;
    double *top = NULL;
    Search s = {.values = b[0].buf, .first = b[1].buf, .capacity = b[2].buf, .use = b[3].buf, .owner = b[4].buf,
                .capacities = b[5].buf, .prices = b[6].buf, .begins = b[7].buf, .listed = b[8].buf, .choice = b[9].buf};
    const int64_t options = b[0].len / 8, listed = b[8].len / 8;
    s.entries = b[2].len / 4, s.places = b[5].len / 8, s.jobs = b[9].len / 8;
    if (b[1].len != (options + 1) * 8 || b[3].len != s.entries * 8 || b[4].len != s.entries * 4 || b[6].len != s.places * 8 ||
        b[7].len != (s.jobs + 1) * 8 || b[10].len != b[9].len || b[11].len != 8 || s.jobs < 1 || !sound(&s, options, listed)) {
        PyErr_SetString(PyExc_ValueError, "the arrays of the search do not fit together");
        goto done;
    }
    block = calloc((size_t)(3 * s.places + 1 + 2 * s.entries + options), sizeof *block);
    top = malloc((size_t)s.jobs * sizeof *top);
    if (!block || !top) {
        PyErr_NoMemory();
        goto done;
    }
    s.left = block, s.count = s.left + s.places, s.start = s.count + s.places;
    s.users = s.start + s.places + 1, s.where = s.users + s.entries, s.lacked = s.where + s.entries;
    int64_t *best = b[10].buf, *chosen = s.choice;
    double value = 0.0, best_value;
    Py_BEGIN_ALLOW_THREADS
    s.random = *(const uint64_t *)b[11].buf;
    memcpy(s.left, s.capacities, (size_t)s.places * sizeof *s.left);
    for (int64_t k = 0; k < s.entries; k++) s.start[s.capacity[k] + 1]++;
    for (int64_t c = 0; c < s.places; c++) s.start[c + 1] += s.start[c];
    for (int64_t j = 0; j < s.jobs; j++) put(&s, j, chosen[j]), value += s.values[chosen[j]];
    for (int64_t j = 0; j < s.jobs; j++) {
        top[j] = -INFINITY;
        for (int64_t at = s.begins[j]; at < s.begins[j + 1]; at++)
            if (s.values[s.listed[at]] > top[j]) top[j] = s.values[s.listed[at]];
    }
    memcpy(best, chosen, (size_t)s.jobs * sizeof *best);
    for (int64_t c = 0; c < s.places; c++) s.exceeded += s.left[c] < 0;
    best_value = s.exceeded ? -INFINITY : value;
    if (with_ejection)
        eject(&s, top, steps, (int64_t)special, temperature, cooling, best, &value, &best_value);
    else
        anneal(&s, steps, special, temperature, cooling, firmer, best, &value, &best_value);
    *(uint64_t *)b[11].buf = s.random;
    Py_END_ALLOW_THREADS
    answer = PyFloat_FromDouble(best_value);
done:
    free(block), free(top);
    for (int at = 0; at < 12; at++) PyBuffer_Release(&b[at]);
    return answer;
}

static PyObject *run_eject(PyObject *module, PyObject *arguments) {
    (void)module;
    return run(arguments, 1);
}

static PyObject *run_anneal(PyObject *module, PyObject *arguments) {
    (void)module;
    return run(arguments, 0);
}

static PyMethodDef methods[] = {
    {"eject", run_eject, METH_VARARGS, "Make so many steps with ejection; keep the best choice met. See local_search.py."},
    {"anneal", run_anneal, METH_VARARGS, "Make so many steps that may exceed capacities; keep the best choice met that fits."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "local_search_c", SOURCE_STAMP, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_local_search_c(void) { return PyModuleDef_Init(&definition); }
