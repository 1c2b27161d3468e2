/* A second checker of proofs, in C: a statement in JSON and proofs, to true or false.

       cc -O2 -o checker checker.c
       zcat plan.proof > proof.json && ./checker statement.json proof.json

   Statements and proofs are those of src/apportion/proofs/reference.py, and the argument is the same; nothing else
   is shared. Read are capacities, pools (together and taken apart, with gangs), makespans, prices and orders; rows
   are read and not used as bounds, as they only make a walk shorter. Proofs with cuts, and of jobs that share
   machines by fractions of time, end as incomplete; so does what exceeds numbers of 127 bits, before it is used.
   Names are compared as they are spelt. A line a proof says true, false or incomplete; the exit code is 0, 1 or 2. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __int128 N;
typedef struct V V;
struct V { char kind, *key, *text; V *first, *next; int many; }; /* kind: { [ " 0 (a number) or l (a literal) */

enum { MOST_BYTES = 1 << 30 };
static long most_states = 3000000;
static jmp_buf out; static const char *why;
static struct Block { struct Block *next; N aligned; } *blocks;
static int verdict; static size_t taken;

static void stop(int code, const char *told) { verdict = code; why = told; longjmp(out, 1); }
static void need(int holds, const char *told) { if (!holds) stop(1, told); }
static void room_for(int holds) { if (!holds) stop(2, "numbers beyond 127 bits"); }
static void *make(size_t bytes) { /* zeros, given back after every proof */
    struct Block *block;
    if (bytes > MOST_BYTES || (taken += bytes) > MOST_BYTES || !(block = calloc(1, sizeof *block + bytes)))
        stop(2, "more than a gigabyte");
    block->next = blocks, blocks = block;
    return block + 1;
}
static void release(struct Block *until) {
    for (struct Block *next; blocks != until; blocks = next) next = blocks->next, free(blocks);
}
static N add(N a, N b) { N c; room_for(!__builtin_add_overflow(a, b, &c)); return c; }
static N sub(N a, N b) { N c; room_for(!__builtin_sub_overflow(a, b, &c)); return c; }
static N mul(N a, N b) { N c; room_for(!__builtin_mul_overflow(a, b, &c)); return c; }
static N least(N a, N b) { return a < b ? a : b; }
static N floor_of(N above, N below) { return above / below - (above % below < 0); } /* below > 0 */
static N shifted(N number, long bits) { /* times 2**bits, rounded down */
    if (bits < 0) return bits <= -127 ? -(number < 0) : floor_of(number, (N)1 << -bits);
    for (; bits && number; bits--) number = mul(number, 2);
    return number;
}

/* ---------------------------------------------------------------- JSON */
static char *at; static void blank(void) { at += strspn(at, " \t\r\n"); }
static char *string(void) { /* as it is spelt */
    char *begin = ++at;
    for (; *at != '"'; at++)
        need((unsigned char)*at >= ' ' && (*at != '\\' || (*++at == 'u' ? strspn(at + 1, "0123456789abcdefABCDEF") >= 4 : *at && strchr("\"\\/bfnrt", *at))), "no JSON");
    return *at++ = 0, begin;
}
static int is(V *one, const char *text) { return one->text && text && !strcmp(one->text, text); }
static size_t run(const char *text) { return strspn(text, "0123456789"); }
static int is_number(const char *text) { /* as JSON spells numbers */
    size_t size = run(text += *text == '-');
    if (!size || (*text == '0' && size > 1) || (*(text += size) == '.' && !run(++text))) return 0;
    if (*(text += run(text)) == 'e' || *text == 'E') text += 1 + (text[1] == '+' || text[1] == '-'), size = run(text), text += size;
    return size && !*text;
}
static V *value(int depth) {
    V *found = make(sizeof *found), **last = &found->first;
    need(depth < 60, "nested too deeply"), blank();
    if ((found->kind = *at) == '"') return found->text = string(), found;
    if (*at == '{' || *at == '[') {
        char end = *at == '{' ? '}' : ']';
        at++, blank();
        while (*at != end) {
            char *key = NULL;
            if (found->many++) need(*at++ == ',', "no JSON"), blank();
            if (end == '}') need(*at == '"', "no JSON"), key = string(), blank(), need(*at++ == ':', "no JSON");
            if (key && found->many > 20000) stop(2, "too many keys");
            for (V *one = found->first; key && one; one = one->next) need(strcmp(one->key, key), "a key twice");
            *last = value(depth + 1), (*last)->key = key, last = &(*last)->next;
            blank();
        }
        at++;
        return found;
    }
    size_t size = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    found->text = memcpy(make(size + 1), at, size), at += size;
    found->kind = is_number(found->text) ? '0' : 'l';
    need(found->kind == '0' || is(found, "null") || is(found, "true") || is(found, "false"), "no JSON");
    return found;
}
static V *parse(const char *path) {
    FILE *file = fopen(path, "rb");
    need(file != NULL, "no such file");
    long size = (fseek(file, 0, SEEK_END), ftell(file));
    rewind(file);
    if (size > 1 << 26) fclose(file), stop(1, "the file is too long");
    char *text = at = make(size + 1);
    size_t many = fread(text, 1, size, file), closed_now = fclose(file);
    need(!closed_now && many == (size_t)size && strlen(text) == many, "not read");
    V *found = value(0);
    return blank(), need(!*at, "no JSON"), found;
}
static V *maybe(V *in, const char *key) {
    need(in && in->kind == '{', "no object");
    for (V *one = in->first; one; one = one->next) if (!strcmp(one->key, key)) return one;
    return NULL;
}
static V *field(V *in, const char *key) { V *found = maybe(in, key); need(found != NULL, key); return found; }
static V *object(V *in, const char *key) { V *one = field(in, key); return maybe(one, key), one; }
static V *list(V *in, const char *key) { V *one = field(in, key); need(one->kind == '[', key); return one; }
static int null(V *one) { return !one || (one->kind == 'l' && is(one, "null")); }
static int digits(const char *text) { return *text && strspn(text, "0123456789") == strlen(text); }
static int integral(V *one) { return one->kind == '0' && digits(one->text + (*one->text == '-')); }
static N decimal(const char *text) {
    N found = 0, minus;
    for (minus = *text == '-', text += minus; *text >= '0' && *text <= '9'; text++) found = sub(mul(found, 10), *text - '0');
    return minus ? found : sub(0, found);
}
static N whole(V *one, N from, N to) { /* up to `to`; -1 for no limit but that of numbers */
    need(integral(one), "no whole number");
    N found = decimal(one->text);
    need(found >= from && (to == -1 || found <= to), "a number out of range");
    return found;
}
static N number(V *one, long shift, int up) { /* a whole number or a fraction as text, in units of 2**-shift */
    size_t size = one->text ? run(one->text + (*one->text == '-')) + (*one->text == '-') : 0;
    char *after = one->text ? one->text + size : "";
    need(integral(one) || (one->kind == '"' && size && (!*after || (*after == '/' && digits(after + 1)))), "no number");
    N above = mul(decimal(one->text), up ? -1 : 1), below = *after ? decimal(after + 1) : 1;
    need(below > 0, "no fraction");
    while (below % 2 == 0) below /= 2, shift--;
    if (shift < 0 && below == 1) above = shifted(above, shift);
    else above = shift < 0 ? floor_of(above, shifted(below, -shift)) : floor_of(shifted(above, shift), below);
    return up ? sub(0, above) : above;
}

/* ---------------------------------------------------------------- the statement under a claim, in whole numbers */
typedef struct { N worth, *uses; } Option;
static V *statement, *proof, *pools, *jobs, *prices;
static long shift, mantissa, exponent; /* the bound is mantissa * 2**exponent */
static int timed, bounded, width, num_jobs, many_vectors, *sizes, *turn_of;
static N *rooms, threshold, *vectors, *reach;
static Option **menus;

static N bound_units(N times, int up) { /* the bound times a number, rounded */
    N found = shifted(mul(up ? -mantissa : mantissa, times), exponent + shift);
    return up ? sub(0, found) : found;
}
static N before(N times) { return bound_units(times, 1) - 1; } /* the last unit below */
static void read_claim(void) {
    static const char *fields[] = {"format", "version", "instance", "claim", "shift",
                                   "prices", "order",   "apart",    "cuts",  "rows"};
    N version = whole(field(proof, "version"), 1, 4), many = version > 1 ? 10 : 9;
    V *claim = field(proof, "claim"), *bound = field(claim, "bound"), *kind = field(claim, "kind");
    need(is(field(proof, "format"), "apportion-proof") && field(proof, "format")->kind == '"', "no proof");
    for (int k = 0; k < many; k++) field(proof, fields[k]);
    need(proof->many == many, "an unknown field");
    need(claim->many == 2 && kind->kind == '"' && field(proof, "instance")->kind == '"', "no claim");
    need(is(field(proof, "instance"), field(statement, "instance")->text), "another instance");
    bounded = is(kind, "no_better_plan"), mantissa = exponent = 0;
    need(bounded ? bound->kind == '0' : is(kind, "infeasible") && null(bound), "no claim");
    if (bounded) {
        double given = strtod(bound->text, NULL);
        int bits;
        need(isfinite(given), "the bound is not finite");
        mantissa = (long)ldexp(frexp(given, &bits), 53), exponent = bits - 53;
    }
    shift = whole(field(proof, "shift"), -1200, 1200);
    need(list(proof, "prices")->many <= 64, "too many prices");
    for (V *one = list(proof, "prices")->first; one; one = one->next) {
        need(one->kind == '[', "no prices");
        for (V *price = one->first; price; price = price->next)
            need(integral(price) && *price->text != '-', "no price");
    }
    for (V *one = version > 1 ? list(proof, "rows")->first : NULL; one; one = one->next) {
        need(one->kind == '[' && one->many == num_jobs && list(proof, "rows")->many <= 64, "no rows");
        for (V *row = one->first; row; row = row->next) whole(row, 1 - ((N)1 << 62), ((N)1 << 62) - 1);
    }
}
static void read_positions(const char *name, int below, int *marks) { /* marks[position] = 1 + its turn */
    int turn = 0;
    for (V *one = list(proof, name)->first; one; one = one->next) {
        long position = (long)whole(one, 0, below > 0 ? below - 1 : (stop(1, "no position"), 0));
        need(!marks[position], "a position twice"), marks[position] = ++turn;
    }
}
static V *nth(V *in, long position) { V *one = in->first; while (position--) one = one->next; return one; }

static void option_added(int job, N worth, N *uses) {
    Option *grown = menus[job];
    if (!(sizes[job] & (sizes[job] - 1))) { /* a power of two, or none: it is full */
        grown = make((sizes[job] ? 2 * sizes[job] : 1) * sizeof *grown);
        if (sizes[job]) memcpy(grown, menus[job], sizes[job] * sizeof *grown);
    }
    menus[job] = grown, grown[sizes[job]].worth = worth, grown[sizes[job]++].uses = uses;
}
static void sets(int job, N worth, N *base, int *columns, int machines, int first, int gang, N use, N time) {
    if (!gang) {
        N *own = make((width + 1) * sizeof(N));
        memcpy(own, base, width * sizeof(N)), option_added(job, worth, own);
    }
    for (int k = first; gang && k + gang <= machines; k++) {
        int room = columns[2 * k], clock = columns[2 * k + 1];
        if (room >= 0) base[room] = add(base[room], use);
        if (clock >= 0) base[clock] = add(base[clock], time);
        sets(job, worth, base, columns, machines, k + 1, gang - 1, use, time);
        if (room >= 0) base[room] = sub(base[room], use);
        if (clock >= 0) base[clock] = sub(base[clock], time);
    }
}
static void state_choices(void) {
    V *goal = field(statement, "goal"), *limits = object(statement, "capacities");
    int maximizes = is(goal, "maximize"), refined = 0, first = -1;
    int *apart = make((pools->many + 1) * sizeof(int)), **columns = make((pools->many + 1) * sizeof(int *));
    need(maximizes || is(goal, "minimize") || is(goal, "makespan"), "an unknown goal"), timed = is(goal, "makespan") && bounded;
    for (V *one = prices->first; one; refined |= is(one, "cuts"), one = one->next)
        for (V *other = one->next; other; other = other->next) need(!is(other, one->text), "a section twice");
    read_positions("apart", pools->many, apart);
    need(refined || !list(proof, "apart")->many, "no pool to take apart");
    long most = limits->many, number_of_pool = 0;
    for (V *one = pools->first; one; one = one->next)
        most += 2 * (apart[number_of_pool++] ? (long)whole(field(one, "count"), 1, 10000) : 1);
    rooms = make((most + 1) * sizeof(N)), width = 0;
    for (V *section = prices->first; section; section = section->next) {
        if (need(section->kind == '"', "no section"), is(section, "capacities")) {
            first = width;
            for (V *one = limits->first; one; one = one->next) rooms[width++] = whole(one, -((N)1 << 120), -1);
        }
        number_of_pool = 0;
        for (V *one = is(section, "pools") ? pools->first : NULL; one; one = one->next, number_of_pool++) {
            long count = whole(field(one, "count"), 1, 1 << 30), together = apart[number_of_pool] ? 1 : count;
            int *own = columns[number_of_pool] = make(2 * count / together * sizeof(int) + sizeof(int));
            for (long k = 0; k < count / together; k++) {
                own[2 * k] = null(field(one, "capacity")) ? -1 : width, own[2 * k + 1] = -1;
                if (own[2 * k] >= 0) rooms[width++] = mul(together, whole(field(one, "capacity"), 0, -1));
                if (timed) own[2 * k + 1] = width, rooms[width++] = before(together);
            }
        }
    }
    need(first >= 0 && (!pools->many || columns[0]), "a section is missing");
    int job = 0, free_of_worth = is(goal, "makespan") || !bounded;
    for (V *one = jobs->first; one; one = one->next, job++)
        for (V *option = list(one, "options")->first; option; option = option->next) {
            N worth = free_of_worth ? 0 : number(field(option, "value"), shift, maximizes), time = 0, use = 0;
            N *base = make((width + 1) * sizeof(N));
            if (!free_of_worth && !maximizes) worth = sub(0, worth); /* minimised: rounded down, then turned */
            long together = 0, gang = 0, pool = 0;
            for (V *used = object(option, "uses")->first; used; used = used->next) {
                int k = first;
                V *limit = limits->first;
                while (limit && strcmp(limit->key, used->key)) limit = limit->next, k++;
                need(limit != NULL, "no such capacity"), base[k] = whole(used, 0, -1);
            }
            if (!null(maybe(option, "pool"))) {
                pool = whole(field(option, "pool"), 0, pools->many - 1);
                V *own = nth(pools, pool), *most = field(own, "capacity");
                time = timed ? number(field(option, "time"), shift, 0) : 0, use = whole(field(option, "use"), 0, -1);
                gang = whole(field(option, "gang"), 1, 1 << 30);
                if ((timed && time > before(1)) || (!null(most) && use > whole(most, 0, -1))) continue;
                together = apart[pool] ? (long)whole(field(own, "count"), 1, 10000) : 1;
                if (!apart[pool]) use = mul(use, gang), time = mul(time, gang), gang = 1;
            }
            need(!gang || columns[pool] != NULL, "pools have no section");
            sets(job, worth, base, columns[pool], together, 0, gang, use, time);
        }
}

/* ---------------------------------------------------------------- every choice */
static N dot(N *prices_of, N *uses) {
    N total = 0;
    for (int k = 0; k < width; k++) if (prices_of[k] && uses[k]) total = add(total, mul(prices_of[k], uses[k]));
    return total;
}
static int by_room(const void *a, const void *b) { /* equal rooms beside each other, the most worth first */
    const N *one = *(N *const *)a, *other = *(N *const *)b;
    for (int k = 0; k <= width; k++) {
        N x = k == width ? -one[k] : least(one[k], reach[k]), y = k == width ? -other[k] : least(other[k], reach[k]);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}
static N loss(N *best, int v, int job, Option one) {
    return sub(best[v * num_jobs + job], sub(one.worth, dot(vectors + v * width, one.uses)));
}
static void closed(void) { /* stops: true where no choice is worth more than the threshold */
    N *slack = make(many_vectors * sizeof(N)), *most = make((width + 1) * sizeof(N));
    N *best = make(many_vectors * (num_jobs + 1) * sizeof(N));
    for (int changed = 1; changed;) {
        changed = 0, memset(slack, 0, many_vectors * sizeof(N));
        for (int job = 0; job < num_jobs; job++) {
            if (!sizes[job]) stop(0, "a job has no option left");
            for (int k = 0; k < width; k++) { /* whatever a job gets, it takes its least uses */
                N fewest = menus[job][0].uses[k];
                for (int i = 1; i < sizes[job]; i++) fewest = least(fewest, menus[job][i].uses[k]);
                for (int i = 0; i < sizes[job]; i++) menus[job][i].uses[k] -= fewest;
                rooms[k] = sub(rooms[k], fewest);
            }
        }
        for (int k = 0; k < width; k++) if (rooms[k] < 0) stop(0, "a capacity is below what jobs need");
        for (int v = 0; v < many_vectors; v++) {
            slack[v] = sub(sub(dot(vectors + v * width, rooms), threshold), 1);
            for (int job = 0; job < num_jobs; job++) {
                for (int i = 0; i < sizes[job]; i++) {
                    N term = sub(menus[job][i].worth, dot(vectors + v * width, menus[job][i].uses));
                    if (!i || term > best[v * num_jobs + job]) best[v * num_jobs + job] = term;
                }
                slack[v] = add(slack[v], best[v * num_jobs + job]);
            }
            if (slack[v] < 0) stop(0, "a bound of prices");
        }
        for (int job = 0; job < num_jobs; job++) {
            int kept = 0;
            for (int i = 0; i < sizes[job]; i++) {
                Option one = menus[job][i];
                int open = 1;
                for (int k = 0; k < width; k++) open &= one.uses[k] <= rooms[k];
                for (int v = 0; v < many_vectors && open; v++) open &= loss(best, v, job, one) <= slack[v];
                if (open) menus[job][kept++] = one;
            }
            changed |= kept < sizes[job], sizes[job] = kept;
        }
    }
    int *order = make((num_jobs + 1) * sizeof(int)), named_jobs = list(proof, "order")->many, rest = named_jobs;
    for (int job = 0; job < num_jobs; job++) order[turn_of[job] ? turn_of[job] - 1 : rest++] = job;
    int cells = width + many_vectors;
    long count = 1, all = 0;
    N **states = make(sizeof(N *)), **after, *losses = make(many_vectors * sizeof(N));
    states[0] = make(cells * sizeof(N));
    memcpy(states[0], rooms, width * sizeof(N)), memcpy(states[0] + width, slack, many_vectors * sizeof(N));
    for (int turn = 0, job; turn < num_jobs; turn++) {
        long found = 0;
        job = order[turn];
        reach = make((width + 1) * sizeof(N));
        for (int later = turn + 1; later < num_jobs; later++)
            for (int k = 0; k < width; k++) {
                for (int i = most[k] = 0; i < sizes[order[later]]; i++)
                    if (menus[order[later]][i].uses[k] > most[k]) most[k] = menus[order[later]][i].uses[k];
                reach[k] = add(reach[k], most[k]);
            }
        after = make((count * sizes[job] + 1) * sizeof(N *));
        for (int i = 0; i < sizes[job]; i++) {
            Option one = menus[job][i];
            for (int v = 0; v < many_vectors; v++) losses[v] = loss(best, v, job, one);
            for (long s = 0; s < count; s++) {
                int open = 1;
                for (int k = 0; k < width && open; k++) open = states[s][k] >= one.uses[k];
                for (int v = 0; v < many_vectors && open; v++) open = states[s][width + v] >= losses[v];
                if (!open) continue;
                if (++all > most_states) stop(2, "too many states");
                N *next = after[found++] = make(cells * sizeof(N));
                for (int k = 0; k < cells; k++) next[k] = states[s][k] - (k < width ? one.uses[k] : losses[k - width]);
            }
        }
        qsort(after, found, sizeof *after, by_room), count = 0;
        for (long s = 0; s < found; s++) {
            int same = count > 0;
            for (int k = 0; k < width && same; k++)
                same = least(after[s][k], reach[k]) == least(after[count - 1][k], reach[k]);
            if (!same) after[count++] = after[s];
        }
        states = after;
    }
    stop(count > 0, count ? "a choice exceeds the threshold" : "the walk is closed");
}
static void check(const char *path) {
    proof = parse(path), read_claim();
    if (is(field(statement, "goal"), "shares")) stop(2, "shares of machines are not read here");
    if (list(proof, "cuts")->many) stop(2, "cuts are not read here");
    sizes = make((num_jobs + 1) * sizeof(int)), menus = make((num_jobs + 1) * sizeof *menus);
    turn_of = make((num_jobs + 1) * sizeof(int));
    state_choices(), read_positions("order", num_jobs, turn_of);
    many_vectors = 1 + list(proof, "prices")->many, vectors = make((many_vectors * width + 1) * sizeof(N));
    int v = 1;
    for (V *vector = list(proof, "prices")->first; vector; vector = vector->next, v++) {
        int k = 0;
        need(vector->many == width, "a price vector of another length");
        for (V *price = vector->first; price; price = price->next) vectors[v * width + k++] = whole(price, 0, -1);
    }
    V *goal = field(statement, "goal");
    threshold = is(goal, "makespan") || !bounded ? -1 : is(goal, "minimize") ? -bound_units(1, 1) : bound_units(1, 0);
    closed();
}
int main(int argc, char **argv) {
    static const char *words[] = {"true", "false", "incomplete"};
    if (getenv("MOST_STATES")) most_states = atol(getenv("MOST_STATES"));
    if (argc < 3) return fprintf(stderr, "checker STATEMENT PROOF ...\n"), 3;
    if (setjmp(out)) return fprintf(stderr, "%s: %s\n", argv[1], why), 3;
    statement = parse(argv[1]), whole(field(statement, "version"), 1, 1);
    need(is(field(statement, "format"), "apportion-statement"), "no statement");
    pools = list(statement, "pools"), jobs = list(statement, "jobs"), prices = list(statement, "prices");
    num_jobs = jobs->many;
    struct Block *kept = blocks;
    for (volatile int k = 2; k < argc; k++) {
        if (!setjmp(out)) check(argv[k]);
        printf("%s: %s\n", words[verdict], why);
        release(kept), taken = 0;
    }
    return verdict;
}
