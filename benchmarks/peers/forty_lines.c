/* Depth-first branch and bound over menus with several capacities, in whole numbers: the plain search in forty lines
 * that the exact search is compared with. A node is cut if for any vector of prices the worth so far, plus the best of
 * every open job at these prices, plus the price of what is left, does not beat the incumbent. Nothing else is done:
 * no first incumbent, nothing fixed, no second relaxation. The caller orders jobs and options and sees to it that no
 * total reaches 2^62. `rest[v][j]` is what the jobs from j on earn at most at prices v; prices and `rest` count in
 * units of 1/scale of a unit of worth. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef struct {
    int64_t jobs, rooms, vectors, scale;
    const int64_t *first, *worth, *use, *price, *rest; /* [jobs+1], [options], [options][rooms], [vectors][...] */
    int64_t *left, *choice, *best_choice;              /* [rooms], [jobs], [jobs] */
    int64_t best, nodes, until, late;                  /* until: reading of clock() at which to give up */
} Search;

static int hopeless(const Search *s, int64_t job, int64_t worth) {
    for (int64_t v = 0; v < s->vectors; v++) {
        int64_t bound = s->scale * worth + s->rest[v * (s->jobs + 1) + job];
        for (int64_t k = 0; k < s->rooms; k++) bound += s->price[v * s->rooms + k] * s->left[k];
        if (bound < s->scale * (s->best + 1)) return 1;
    }
    return 0;
}

static void descend(Search *s, int64_t job, int64_t worth) {
    if (job == s->jobs) {
        if (worth <= s->best) return;
        s->best = worth;
        memcpy(s->best_choice, s->choice, s->jobs * sizeof *s->choice);
        return;
    }
    for (int64_t option = s->first[job]; option < s->first[job + 1] && !s->late; option++) {
        const int64_t *use = s->use + option * s->rooms, earned = worth + s->worth[option];
        int64_t room = 0;
        if (!(++s->nodes & 0xffff)) s->late = clock() > s->until;
        s->choice[job] = option;
        for (int64_t k = 0; k < s->rooms; k++) room |= s->left[k] -= use[k];
        if (room >= 0 && !hopeless(s, job + 1, earned)) descend(s, job + 1, earned);
        for (int64_t k = 0; k < s->rooms; k++) s->left[k] += use[k];
    }
}

void search(Search *s) { descend(s, 0, 0); }
