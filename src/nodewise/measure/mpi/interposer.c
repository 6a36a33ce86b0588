/* nodewise: what an unmodified MPI program does with its time.

   Preloaded into every process of a run. It wraps the MPI calls of calls.h and fortran.h by the
   profiling interface (PMPI), starts the clock after MPI_Init, and leaves a report for each rank
   in the folder NODEWISE_RUN: mpi-RANK-PID.json, and mpi-RANK-PID.stamps with the times of single
   collectives and messages. It is harmless in a process without MPI: nothing of libmpi is linked,
   every symbol is looked up when it is first called.

   Variables that it reads (all optional but the first):
     NODEWISE_RUN             the folder of the run; without it all calls go straight through
     NODEWISE_MPI_GATE        1: meet at the socket NODEWISE_GATE after MPI_Init
     NODEWISE_MPI_REGION      what is timed: pcontrol, or from the first to the last call of a
                              collective (MPI_Allreduce), or between two of them (MPI_Barrier 3-4)
     NODEWISE_PACE_SHARE      cores of an emulated node: compute is stretched at every MPI call,
                              and where the program reads a clock
     NODEWISE_PACE_LATENCY    seconds a message, NODEWISE_PACE_BANDWIDTH bytes a second
     NODEWISE_MPI_PATIENT     1: a rank that waits inside MPI sleeps instead of spinning
     NODEWISE_MPI_COUNTERS    none: no counters; software: clocks of the kernel in their place, which
                              every machine has (for tests)  */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/perf_event.h>
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define REPORT_FORMAT 1
#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)

/* ------------------------------------------------------------------ symbols of the program's MPI */

struct wanted { const char *name; void *found; };

static int look_into(struct dl_phdr_info *library, size_t size, void *data)
{
    (void)size;
    struct wanted *wanted = data;
    const char *base = library->dlpi_name ? strrchr(library->dlpi_name, '/') : NULL;
    base = base ? base + 1 : library->dlpi_name;
    if (base == NULL || strncmp(base, "libmpi", 6) != 0) return 0;
    void *handle = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) return 0;
    wanted->found = dlsym(handle, wanted->name);
    dlclose(handle);  /* the program holds it */
    return wanted->found != NULL;
}

/* Also in a library that was loaded for itself, as Python does with extension modules. */
static void *find(const char *name)
{
    struct wanted wanted = {name, dlsym(RTLD_NEXT, name)};
    if (wanted.found == NULL) dl_iterate_phdr(look_into, &wanted);
    return wanted.found;
}

static void *need(const char *name)
{
    void *found = find(name);
    if (found == NULL) {
        fprintf(stderr, "nodewise: the MPI of this program has no %s.\n", name);
        abort();
    }
    return found;
}

static void *need_either(const char *name, const char *other)
{
    void *found = find(name);
    return found ? found : need(other);
}

#define REAL(name)                                                            \
    ({                                                                        \
        static __typeof__(&name) found_##name;                                \
        if (!likely(found_##name)) found_##name = (__typeof__(&name))need("P" #name); \
        found_##name;                                                         \
    })
#define REAL_OF(name) REAL(name)  /* of a name that is put together by a macro */

#ifdef OPEN_MPI
/* A constant of Open MPI is the address of a variable, which the program may have a copy of. */
static void *constant(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    return found ? found : need(name);
}
#define CONSTANT(type, symbol, plain) ((type)constant(symbol))
#else
#define CONSTANT(type, symbol, plain) (plain)
#endif
static MPI_Comm world;
static MPI_Datatype byte_type, no_type;

/* ---------------------------------------------------------------------------------------- clocks */

static int (*clock_of_libc)(clockid_t, struct timespec *);  /* not ours, which paces */

static inline int read_clock(clockid_t id, struct timespec *t)
{
    return likely(clock_of_libc) ? clock_of_libc(id, t) : (int)syscall(SYS_clock_gettime, id, t);
}

static inline int64_t clock_of(clockid_t id)
{
    struct timespec t;
    read_clock(id, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline int64_t now(void) { return clock_of(CLOCK_MONOTONIC); }

static void sleep_ns(int64_t ns)
{
    struct timespec t = {ns / 1000000000LL, ns % 1000000000LL};
    while (ns > 0 && syscall(SYS_nanosleep, &t, &t) != 0) {}
}

static int schedule = -1;  /* of the thread that called MPI_Init */

/* How long the main thread was ready to run while another one had the core; -1: not known. */
static int64_t run_delay(void)
{
    char text[100];
    ssize_t length = schedule < 0 ? -1 : pread(schedule, text, sizeof text - 1, 0);
    if (length <= 0) return -1;
    text[length] = '\0';
    char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) : -1;
}

/* ---------------------------------------------------------------------------------- a map of bits */

struct map { uint64_t *keys, *values; uint64_t size, used, limit; };  /* key 0 is free */

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 33; x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

static inline uint64_t join(uint64_t a, uint64_t b) { return mix(a ^ (mix(b + 0x9e3779b97f4a7c15ULL) << 1)); }

static uint64_t *map_find(struct map *map, uint64_t key)
{
    if (map->size == 0) return NULL;
    for (uint64_t at = mix(key) & (map->size - 1);; at = (at + 1) & (map->size - 1)) {
        if (map->keys[at] == key) return &map->values[at];
        if (map->keys[at] == 0) return NULL;
    }
}

static uint64_t *map_add(struct map *map, uint64_t key)  /* NULL: the map is full */
{
    uint64_t *there = map_find(map, key);
    if (there != NULL) return there;
    if (map->used >= map->limit) return NULL;
    if (2 * (map->used + 1) > map->size) {
        struct map wider = {.size = map->size ? 2 * map->size : 256, .limit = map->limit};
        wider.keys = calloc(wider.size, sizeof *wider.keys);
        wider.values = calloc(wider.size, sizeof *wider.values);
        if (wider.keys == NULL || wider.values == NULL) {
            free(wider.keys); free(wider.values);
            return NULL;
        }
        for (uint64_t at = 0; at < map->size; at++)
            if (map->keys[at]) *map_add(&wider, map->keys[at]) = map->values[at];
        free(map->keys); free(map->values);
        *map = wider;
    }
    uint64_t at = mix(key) & (map->size - 1);
    while (map->keys[at]) at = (at + 1) & (map->size - 1);
    map->keys[at] = key;
    map->values[at] = 0;
    map->used++;
    return &map->values[at];
}

static void map_remove(struct map *map, uint64_t key)
{
    uint64_t *there = map_find(map, key);
    if (there == NULL) return;
    uint64_t hole = (uint64_t)(there - map->values), mask = map->size - 1;
    for (uint64_t at = (hole + 1) & mask; map->keys[at]; at = (at + 1) & mask) {
        uint64_t home = mix(map->keys[at]) & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->keys[hole] = map->keys[at];
            map->values[hole] = map->values[at];
            hole = at;
        }
    }
    map->keys[hole] = 0;
    map->used--;
}

/* --------------------------------------------------------------------------------- what is kept */

enum class { POINT, COLLECTIVE, WAIT, ONE_SIDED, IO, CLASSES };
static const char *const class_names[] = {"point_to_point", "collective", "wait", "one_sided", "io"};

struct total { int64_t ns, calls, bytes; };

enum { BUCKETS = 40, COMMS = 256 };

struct comm {  /* a communicator, also after it was freed */
    uint64_t id;  /* the same on all its ranks */
    int size, rank;
    int *world_of;  /* the rank in the world of each of its ranks */
    uint32_t collectives, children;
    struct total total, at_end;
};

struct totals {
    struct total by_class[CLASSES];
    int64_t durations[CLASSES][BUCKETS];  /* calls by the logarithm (base 2) of their nanoseconds */
    struct total other_threads;
    int64_t end, cpu, paced, late, linked, held_up;
    int64_t instructions, cycles;  /* outside MPI */
    int64_t process_cpu, main_cpu, delay;  /* since the process began; -1: not known */
};

/* One collective or message. `post`: when this rank was ready for it; a call that waits for it
   lasts from `enter` to `exit`. */
enum kind { ALL_TO_ALL = 1, FROM_ROOT = 2, TO_ROOT = 3, SENT = 4, RECEIVED = 5 };
struct stamp { int64_t post, enter, exit; uint64_t key; uint32_t seq, size, kind, root; };

enum { STAMPS = 1 << 17 };
struct stamps { struct stamp *kept; uint32_t count; uint32_t mask; int64_t seen; };

/* A request that is not complete yet. */
struct pending {
    struct stamp stamp;
    int source, tag;
    struct comm *comm;
    int64_t bytes;
    uint32_t starts;  /* of a persistent collective */
    bool wild, stays, reduces;
};
enum { NOT_STARTED = UINT32_MAX };  /* the number of a persistent request that is not active */

static struct totals totals, at_end;  /* `at_end`: up to the end of the region so far */
static struct stamps collectives, messages, collectives_at_end, messages_at_end;
static struct comm comms[COMMS];
static int comm_count;
static struct map comm_of = {.limit = 1 << 16}, channel_of = {.limit = 1 << 16},
                  pending_of = {.limit = 1 << 20};
static int64_t unmatched;

static const char *folder;
static int world_rank = -1, world_size;
static bool running, finished, aborted, written, multiple;
static bool by_session;  /* without MPI_Init */
static int abort_code;
static char library[256];
static int64_t begin, begin_usage_cpu, begin_main_cpu, begin_delay, began_1970_ns;
static int64_t begin_read, begin_written;
static int64_t clock_offset, clock_error = -1;  /* against rank 0, where ranks are on other hosts */
static int hosts = 1;
static pid_t process;
static pthread_t main_thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int gate = -1;
static __thread int depth;

static double share, latency, bandwidth;
static bool patient;
static int64_t debt, cpu_mark, wall_mark, delay_mark;
static int64_t paced_until;  /* up to where `debt` is right */
static int64_t after_pace;  /* from there until an MPI call began: it goes on the next account */

static const char *region;  /* as it was asked for, or NULL */
static char region_name[64];  /* a collective, without MPI_, or pcontrol */
static long region_first = 1, region_last = LONG_MAX, region_calls;
static bool region_open, region_seen;

static inline void lock(void) { if (multiple) pthread_mutex_lock(&mutex); }
static inline void unlock(void) { if (multiple) pthread_mutex_unlock(&mutex); }

/* ----------------------------------------------------------------------------- emulated nodes */

enum { SLACK_NS = 100000, LEAST_LATE_NS = 50000, MOST_CREDIT_NS = 50000000 };

/* Compute of `cpu` on a node of `share` cores takes cpu / share: sleep for what is missing.
   Time in which another process had the core is given back later, and counted as late. */
static void pace(void)
{
    paced_until = now();
    int64_t wall = paced_until - wall_mark, cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_mark;
    int64_t due = (int64_t)((double)cpu / share) - wall;
    totals.cpu += cpu;
    if (due < -LEAST_LATE_NS) {
        int64_t delay = run_delay();
        int64_t held_up = delay < 0 || delay_mark < 0 ? 0 : delay - delay_mark;
        due = -due < held_up ? due : -held_up;  /* the rest it slept or read by itself */
        totals.late -= due;
    } else if (due < 0) due = 0;
    debt += due;
    if (debt < -MOST_CREDIT_NS) debt = -MOST_CREDIT_NS;
    if (debt > SLACK_NS) {
        int64_t start = paced_until;
        sleep_ns(debt);
        paced_until = now();
        totals.paced += paced_until - start;
        debt -= paced_until - start;
    }
}

/* The program computes from here on; what passed since `from` took its time already. */
static void mark(int64_t from)
{
    cpu_mark = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    wall_mark = from;
}

/* A program that times its own parts must see each of them as slow as its node is: it is paced
   before it reads a clock, too. Not at every reading, as some programs do that all the time. */
enum { CLOCK_STEP_NS = 20000 };

static void pace_at_clock(void)
{
    if (share <= 0 || !running || depth > 0 || !pthread_equal(pthread_self(), main_thread)) return;
    if (now() - wall_mark < CLOCK_STEP_NS) return;
    pace();
    delay_mark = run_delay();
    mark(paced_until);
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
    pace_at_clock();
    return read_clock(id, t);
}

EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    pace_at_clock();
    struct timespec exact;
    if (zone != NULL || read_clock(CLOCK_REALTIME, &exact) != 0)
        return (int)syscall(SYS_gettimeofday, t, zone);
    *t = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return 0;
}

static void link_delay(double messages, double bytes)
{
    if (latency <= 0 && bandwidth <= 0) return;
    double seconds = messages * latency + (bandwidth > 0 ? bytes / bandwidth : 0);
    int64_t start = now();
    sleep_ns((int64_t)(seconds * 1e9));
    totals.linked += now() - start;
}

/* The least time of a collective on such links: a tree of messages, and the bytes of a rank. */
static void link_collective(enum kind kind, const struct comm *comm, int64_t bytes, bool reduces)
{
    if ((latency <= 0 && bandwidth <= 0) || comm == NULL || comm->size < 2) return;
    double others = comm->size - 1, part = others / comm->size;
    double traffic = kind == ALL_TO_ALL ? (reduces ? 2 * part * bytes : part * bytes) : bytes;
    link_delay(ceil(log2(comm->size)), traffic);
}

/* A rank that waits inside MPI gives its core to those that compute: where its MPI yields, it sleeps
   for a part of the time that it has waited already. */
enum { SHORTEST_NAP_NS = 10000, LONGEST_NAP_NS = 250000, NAPS = 16 };
static __thread int64_t waits_since;

static bool nap(void)
{
    if (depth == 0 || !patient) return false;
    int64_t naps = (now() - waits_since) / NAPS;
    if (naps < SHORTEST_NAP_NS / NAPS) return false;
    sleep_ns(naps < SHORTEST_NAP_NS ? SHORTEST_NAP_NS : naps > LONGEST_NAP_NS ? LONGEST_NAP_NS : naps);
    return true;
}

EXPORT int sched_yield(void) { return nap() ? 0 : (int)syscall(SYS_sched_yield); }

EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    if (wanted->tv_sec == 0 && wanted->tv_nsec < SHORTEST_NAP_NS && nap()) return 0;
    return (int)syscall(SYS_nanosleep, wanted, left);
}

static inline bool is_main(void) { return !multiple || pthread_equal(pthread_self(), main_thread); }

/* ----------------------------------------------------------------------------------- counters */

/* Instructions and cycles of the main thread outside MPI, in user mode: a rank that waits inside MPI
   spins. A reading is a system call, so they are given up where that takes too much of the time. */
struct counts { uint64_t members, instructions, cycles; };
enum { COUNTER_READINGS = 64, COUNTER_SHARE = 200, COUNTER_GRACE_NS = 10000000 };
static int counters = -1;
static struct counts counted;  /* where the program went on after MPI */
static int64_t counter_cost;  /* nanoseconds of a reading */
static int64_t counter_calls;
static const char *no_counters = "not asked for";

static void give_up_counters(const char *why)
{
    if (counters >= 0) close(counters);
    counters = -1;
    no_counters = why;
}

static int open_counter(uint32_t type, uint64_t config, int leader)
{
    struct perf_event_attr wanted = {
        .type = type, .size = sizeof wanted, .config = config, .read_format = PERF_FORMAT_GROUP,
        .exclude_kernel = 1, .exclude_hv = 1, .pinned = leader < 0,  /* never for a part of the time */
    };
    return (int)syscall(SYS_perf_event_open, &wanted, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static bool read_counters(struct counts *into)
{
    if (read(counters, into, sizeof *into) == sizeof *into && into->members == 2) return true;
    give_up_counters("they stopped counting");
    return false;
}

static void open_counters(void)
{
    const char *asked = getenv("NODEWISE_MPI_COUNTERS");
    bool software = asked != NULL && !strcmp(asked, "software");
    if (asked != NULL && !strcmp(asked, "none")) return;
    uint32_t type = software ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE;
    uint64_t first = software ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_HW_INSTRUCTIONS;
    uint64_t second = software ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_HW_CPU_CYCLES;
    counters = open_counter(type, first, -1);
    if (counters < 0 || open_counter(type, second, counters) < 0) {
        bool forbidden = errno == EACCES || errno == EPERM;
        give_up_counters(forbidden ? "not permitted (perf_event_paranoid)" : "the machine has none");
        return;
    }
    int64_t start = now();
    for (int at = 0; at < COUNTER_READINGS && counters >= 0; at++) read_counters(&counted);
    counter_cost = (now() - start) / COUNTER_READINGS;
}

/* The program comes into MPI. */
static inline void pause_counters(int64_t at)
{
    struct counts here;
    if (likely(counters < 0) || !is_main()) return;
    int64_t spent = 2 * counter_cost * ++counter_calls;
    if (spent * COUNTER_SHARE > at - begin + COUNTER_GRACE_NS * COUNTER_SHARE) {
        give_up_counters("too many MPI calls to read them at each");
        return;
    }
    if (!read_counters(&here)) return;
    totals.instructions += (int64_t)(here.instructions - counted.instructions);
    totals.cycles += (int64_t)(here.cycles - counted.cycles);
}

/* It goes on outside. */
static inline void resume_counters(void)
{
    if (!likely(counters < 0) && is_main()) read_counters(&counted);
}

/* ------------------------------------------------------------------------ around each outer call */

struct span { int64_t enter, exit; };

static inline bool outer(void) { return running && depth == 0; }

static inline struct span enter(void)
{
    depth++;
    bool paces = share > 0 && is_main();
    if (paces) {
        pace();
        delay_mark = run_delay();
    }
    waits_since = now();
    pause_counters(waits_since);
    if (paces) after_pace = waits_since - paced_until;
    return (struct span){waits_since, 0};
}

static inline int bucket_of(int64_t ns)
{
    int bits = ns > 0 ? 64 - __builtin_clzll((uint64_t)ns) : 0;
    return bits < BUCKETS ? bits : BUCKETS - 1;
}

static inline void add(struct total *total, int64_t ns, int64_t bytes)
{
    total->ns += ns;
    total->calls++;
    total->bytes += bytes;
}

static inline void leave(struct span *span, enum class class, struct comm *comm, int64_t bytes)
{
    span->exit = now();
    int64_t ns = span->exit - span->enter;
    lock();
    if (likely(is_main())) {
        add(&totals.by_class[class], ns, bytes);
        totals.durations[class][bucket_of(ns)]++;
        if (comm != NULL) add(&comm->total, ns, bytes);
    } else
        add(&totals.other_threads, ns, bytes);
    unlock();
    if (share > 0 && is_main()) {
        int64_t delay = run_delay();
        if (delay_mark >= 0 && delay > delay_mark) totals.held_up += delay - delay_mark;
        delay_mark = delay;
        mark(span->exit - after_pace);
    }
    resume_counters();
    depth--;
}

/* Kept are all, and when there are too many those whose hash ends in zeros: the same on all ranks. */
static inline void keep(struct stamps *stamps, const struct stamp *stamp)
{
    stamps->seen++;
    if (stamps->mask && (mix(join(stamp->key, stamp->seq)) & stamps->mask)) return;
    if (stamps->kept == NULL && (stamps->kept = malloc(STAMPS * sizeof *stamp)) == NULL) return;
    while (stamps->count == STAMPS) {
        stamps->mask = 2 * stamps->mask + 1;
        uint32_t left = 0;
        for (uint32_t at = 0; at < STAMPS; at++) {
            struct stamp *one = &stamps->kept[at];
            if (!(mix(join(one->key, one->seq)) & stamps->mask)) stamps->kept[left++] = *one;
        }
        stamps->count = left;
        if (mix(join(stamp->key, stamp->seq)) & stamps->mask) return;
    }
    stamps->kept[stamps->count++] = *stamp;
}

/* -------------------------------------------------------------------------------- communicators */

#define KEY(handle) ((uint64_t)(uintptr_t)(handle) + 1)

static struct comm *register_comm(MPI_Comm handle, uint64_t origin)
{
    int size = 0, rank = -1, inter = 0;
    REAL(MPI_Comm_test_inter)(handle, &inter);
    if (inter) REAL(MPI_Comm_remote_size)(handle, &size);  /* its messages go to the other side */
    else {
        REAL(MPI_Comm_size)(handle, &size);
        REAL(MPI_Comm_rank)(handle, &rank);
    }
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    if (ranks == NULL) return NULL;
    MPI_Group group, all;
    for (int at = 0; at < size; at++) ranks[at] = at;
    if (inter) REAL(MPI_Comm_remote_group)(handle, &group);
    else REAL(MPI_Comm_group)(handle, &group);
    REAL(MPI_Comm_group)(world, &all);
    REAL(MPI_Group_translate_ranks)(group, size, ranks, all, ranks + size);
    REAL(MPI_Group_free)(&group);
    REAL(MPI_Group_free)(&all);
    memmove(ranks, ranks + size, (size_t)size * sizeof *ranks);
    uint64_t id = join(origin, (uint64_t)size);
    for (int at = 0; at < size; at += size > 64 ? size / 64 : 1) id = join(id, (uint64_t)ranks[at]);
    lock();
    struct comm *comm = &comms[comm_count < COMMS ? comm_count++ : COMMS - 1];
    if (comm->world_of != NULL && comm->id != id) {  /* the last place is shared by all further ones */
        free(comm->world_of);
        comm->collectives = comm->children = 0;
    }
    comm->id = id;
    comm->size = size;
    comm->rank = rank;
    comm->world_of = ranks;
    uint64_t *place = map_add(&comm_of, KEY(handle));
    if (place != NULL) *place = (uint64_t)(comm - comms) + 1;
    unlock();
    return comm;
}

static inline struct comm *comm_at(MPI_Comm handle)
{
    static __thread uint64_t last_key;
    static __thread struct comm *last;
    uint64_t key = KEY(handle);
    if (likely(key == last_key && last != NULL)) return last;
    lock();
    uint64_t *place = map_find(&comm_of, key);
    struct comm *comm = place ? &comms[*place - 1] : NULL;
    unlock();
    if (comm == NULL) comm = register_comm(handle, 7);
    if (comm != &comms[COMMS - 1]) last_key = key, last = comm;
    return comm;
}

static void new_comm(MPI_Comm parent, MPI_Comm made)
{
    if (made == CONSTANT(MPI_Comm, "ompi_mpi_comm_null", MPI_COMM_NULL)) return;
    struct comm *from = comm_at(parent);
    register_comm(made, from ? join(from->id, from->children) : 11);
}

/* A child is counted on all ranks of the parent, also on those that are not in it. */
static void count_child(MPI_Comm parent)
{
    struct comm *from = comm_at(parent);
    if (from != NULL) from->children++;
}

static void forget_comm(MPI_Comm handle)
{
    lock();
    map_remove(&comm_of, KEY(handle));
    unlock();
}

/* ----------------------------------------------------------------------- collectives and messages */

static inline int64_t bytes_of(int64_t count, MPI_Datatype type)
{
    static __thread MPI_Datatype last;
    static __thread int size = -1;
    if (!likely(size >= 0 && last == type)) {
        if (type == no_type) return 0;
        if (REAL(MPI_Type_size)(type, &size) != MPI_SUCCESS) return 0;
        last = type;
    }
    return count * size;
}

static struct stamp collective_stamp(struct span span, struct comm *comm, enum kind kind, int root)
{
    return (struct stamp){
        .post = span.enter, .enter = span.enter, .exit = span.exit, .key = comm->id,
        .seq = comm->collectives++, .size = (uint32_t)comm->size, .kind = kind,
        .root = root == comm->rank,
    };
}

static inline void took_part(struct span span, struct comm *comm, enum kind kind, int root)
{
    if (comm == NULL || comm->rank < 0 || !is_main()) return;
    struct stamp stamp = collective_stamp(span, comm, kind, root);
    lock();
    keep(&collectives, &stamp);
    unlock();
}

/* The messages from one rank to another with one tag are counted on both sides. */
static bool message_stamp(struct stamp *stamp, struct comm *comm, int peer, int tag, bool sends)
{
    if (comm == NULL || peer < 0 || peer >= comm->size || !is_main()) return false;
    uint64_t own = (uint64_t)world_rank, other = (uint64_t)comm->world_of[peer];
    uint64_t way = sends ? own << 32 | other : other << 32 | own;
    stamp->key = join(join(comm->id, way), (uint64_t)(int64_t)tag);
    stamp->kind = sends ? SENT : RECEIVED;
    stamp->size = 2;
    uint64_t *count = map_add(&channel_of, join(stamp->key, sends) | 1);
    if (count == NULL) {
        unmatched++;
        return false;
    }
    stamp->seq = (uint32_t)(*count)++;
    return true;
}

static void message(struct span span, MPI_Comm handle, int peer, int tag, bool sends)
{
    struct stamp stamp = {.post = span.enter, .enter = span.enter, .exit = span.exit};
    struct comm *comm = comm_at(handle);
    lock();
    if (message_stamp(&stamp, comm, peer, tag, sends)) keep(&messages, &stamp);
    unlock();
}

static void emit(const struct pending *one)
{
    if (one->stamp.kind == 0) return;
    keep(one->stamp.kind < SENT ? &collectives : &messages, &one->stamp);
}

static void track(uint64_t request, struct pending *one)
{
    lock();
    uint64_t *place = map_add(&pending_of, request);
    if (place == NULL) unmatched++;
    else {
        struct pending *kept = (struct pending *)(uintptr_t)*place;
        if (kept != NULL) emit(kept);  /* MPICH has one handle for all sends that are complete */
        else kept = malloc(sizeof *kept);
        if (kept != NULL) *kept = *one;
        *place = (uint64_t)(uintptr_t)kept;
        if (kept == NULL) map_remove(&pending_of, request);
    }
    unlock();
}

static void track_message(struct span span, MPI_Comm handle, int peer, int tag, bool sends,
                          int64_t bytes, uint64_t request, bool stays)
{
    struct pending one = {.stamp = {.post = span.enter, .enter = span.enter, .exit = span.exit},
                          .source = peer, .tag = tag, .comm = comm_at(handle), .bytes = bytes,
                          .stays = stays};
    one.wild = !sends && (peer == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
    one.stamp.kind = 0;
    if (stays) one.stamp.kind = sends ? SENT : RECEIVED, one.stamp.seq = NOT_STARTED;
    else if (!one.wild) {
        lock();
        if (!message_stamp(&one.stamp, one.comm, peer, tag, sends)) one.stamp.kind = 0;
        unlock();
    }
    track(request, &one);
}

/* Persistent ones are made in the same order on all ranks, and may be started in any. */
static void track_collective(struct span span, struct comm *comm, enum kind kind, int root,
                             bool reduces, int64_t bytes, uint64_t request, bool stays)
{
    if (comm == NULL || comm->rank < 0 || !is_main()) return;
    struct pending one = {.stamp = collective_stamp(span, comm, kind, root), .comm = comm,
                          .bytes = bytes, .reduces = reduces, .stays = stays};
    if (stays) {
        one.stamp.key = join(join(one.stamp.key, one.stamp.seq), 13);
        one.stamp.seq = NOT_STARTED;
    }
    track(request, &one);
}

static struct pending *pending_at(uint64_t request)
{
    lock();
    uint64_t *place = map_find(&pending_of, request);
    unlock();
    return place ? (struct pending *)(uintptr_t)*place : NULL;
}

static bool is_wild(uint64_t request)
{
    struct pending *one = pending_at(request);
    return one != NULL && one->wild;
}

/* A persistent request is started: its message or collective is counted from here on. */
static void start_request(struct span span, uint64_t request)
{
    struct pending *one = pending_at(request);
    if (one == NULL || one->stamp.kind == 0) return;
    bool sends = one->stamp.kind == SENT;
    one->stamp.post = span.enter;
    lock();
    if (one->stamp.kind < SENT) one->stamp.seq = one->starts++;
    else if (one->wild || !message_stamp(&one->stamp, one->comm, one->source, one->tag, sends))
        one->stamp.seq = NOT_STARTED;
    unlock();
}

/* A call from `span.enter` to `span.exit` found the request complete. Gives the bytes received. */
static int64_t complete(struct span span, uint64_t request, int source, int tag)
{
    struct pending *one = pending_at(request);
    if (one == NULL) return 0;
    lock();
    if (one->wild && !one->stays && message_stamp(&one->stamp, one->comm, source, tag, false)) {}
    one->stamp.enter = span.enter;
    one->stamp.exit = span.exit;
    if (one->stamp.seq != NOT_STARTED) emit(one);
    if (one->stays) one->stamp.seq = NOT_STARTED;
    int64_t bytes = one->stamp.kind == RECEIVED || one->wild ? one->bytes : 0;
    if (!one->stays) {
        map_remove(&pending_of, request);
        free(one);
    }
    unlock();
    return bytes;
}

static void forget_request(uint64_t request)
{
    struct pending *one = pending_at(request);
    if (one == NULL) return;
    lock();
    if (!one->stays) emit(one);
    map_remove(&pending_of, request);
    free(one);
    unlock();
}

/* ------------------------------------------------------------------------------- the timed region */

static int64_t cpu_of_process(void) { return clock_of(CLOCK_PROCESS_CPUTIME_ID); }

static void read_io(int64_t *read, int64_t *wrote)
{
    char name[64];
    long long value;
    *read = *wrote = 0;
    FILE *file = fopen("/proc/self/io", "re");
    if (file == NULL) return;
    while (fscanf(file, "%63[^:]: %lld\n", name, &value) == 2) {
        if (!strcmp(name, "read_bytes")) *read = value;
        if (!strcmp(name, "write_bytes")) *wrote = value;
    }
    fclose(file);
}

/* Start the clock; what was recorded before does not count. */
static void begin_region(void)
{
    if (!running) return;
    lock();
    memset(&totals, 0, sizeof totals);
    memset(&at_end, 0, sizeof at_end);
    collectives.count = messages.count = 0;
    collectives.seen = messages.seen = 0;
    collectives_at_end = messages_at_end = (struct stamps){0};
    for (int at = 0; at < comm_count; at++) comms[at].total = comms[at].at_end = (struct total){0};
    begin_usage_cpu = cpu_of_process();
    begin_main_cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
    begin_delay = delay_mark = run_delay();
    read_io(&begin_read, &begin_written);
    began_1970_ns = clock_of(CLOCK_REALTIME);
    begin = now();
    debt = 0;
    mark(begin);
    counter_calls = 0;
    resume_counters();
    unlock();
}

/* The region ends here, unless more of it comes: this may be called often. So bytes of files and
   the CPU of other threads, which take long to read, are counted up to the report. */
static void end_region(void)
{
    if (!running) return;
    if (depth == 0) {
        pause_counters(now());
        resume_counters();
    }
    at_end = totals;
    at_end.end = now();
    at_end.process_cpu = cpu_of_process();
    at_end.main_cpu = is_main() ? clock_of(CLOCK_THREAD_CPUTIME_ID) : -1;
    at_end.delay = run_delay();
    for (int at = 0; at < comm_count; at++) comms[at].at_end = comms[at].total;
    collectives_at_end = collectives;
    messages_at_end = messages;
}

static void read_region(void)
{
    region = getenv("NODEWISE_MPI_REGION");
    if (region != NULL && *region == '\0') region = NULL;
    if (region == NULL) return;
    const char *name = strncasecmp(region, "MPI_", 4) ? region : region + 4;
    snprintf(region_name, sizeof region_name, "%.*s", (int)strcspn(name, " "), name);
    sscanf(name, "%*s %ld-%ld", &region_first, &region_last);
}

/* A collective has ended: the region begins as all leave the first call that its name fits. */
static void mark_region(const char *name)
{
    if (strcasecmp(region_name, name) != 0) return;
    region_calls++;
    if (region_calls == region_first) begin_region();
    else if (region_calls > region_first && region_calls <= region_last) {
        end_region();
        region_seen = true;
    }
}

/* The probe of a Python program knows its region. */
EXPORT void nodewise_mpi_begin(void)
{
    region = "probe";
    region_name[0] = '\0';
    region_seen = true;
    begin_region();
}

EXPORT void nodewise_mpi_end(void) { end_region(); }

/* ------------------------------------------------------------------------------------- the report */

static void quote(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', file);
        if ((unsigned char)*text >= ' ') fputc(*text, file);
        else fputc(' ', file);
    }
    fputc('"', file);
}

static void write_total(FILE *file, const struct total *total)
{
    fprintf(file, "{\"seconds\": %.9f, \"calls\": %lld, \"bytes\": %lld", total->ns / 1e9,
            (long long)total->calls, (long long)total->bytes);
}

static void write_classes(FILE *file, const struct totals *of)
{
    for (int class = 0; class < CLASSES; class++) {
        fprintf(file, "%s\"%s\": ", class ? ", " : "", class_names[class]);
        write_total(file, &of->by_class[class]);
        int last = BUCKETS - 1;
        while (last > 0 && of->durations[class][last] == 0) last--;
        fputs(", \"calls_by_log2_ns\": [", file);
        for (int at = 0; at <= last; at++)
            fprintf(file, "%s%lld", at ? ", " : "", (long long)of->durations[class][at]);
        fputs("]}", file);
    }
}

static void write_stamps(const char *path, const struct stamps *first, const struct stamps *second)
{
    FILE *file = fopen(path, "wbe");
    if (file == NULL) return;
    if (first->count) fwrite(first->kept, sizeof(struct stamp), first->count, file);
    if (second->count) fwrite(second->kept, sizeof(struct stamp), second->count, file);
    fclose(file);
}

static void write_usage(FILE *file, const struct totals *of)
{
    struct rusage used;
    int64_t read, wrote, delay = of->delay;
    getrusage(RUSAGE_SELF, &used);
    read_io(&read, &wrote);
    fprintf(file, "{\"cpu_seconds\": %.9f, \"memory_bytes\": %lld, ",
            (of->process_cpu - begin_usage_cpu) / 1e9, used.ru_maxrss * 1024LL);
    if (delay < 0 || begin_delay < 0) fputs("\"run_delay_seconds\": null, ", file);
    else fprintf(file, "\"run_delay_seconds\": %.9f, ", (delay - begin_delay) / 1e9);
    fprintf(file, "\"read_bytes\": %lld, \"written_bytes\": %lld}", (long long)(read - begin_read),
            (long long)(wrote - begin_written));
}

enum { THREADS = 256 };

/* CPU seconds of each thread since it began, and those in which it waited for a core; of the main
   thread, in the region. */
static void write_threads(FILE *file, const struct totals *of)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    double delays[THREADS];
    int count = 0;
    fputs(", \"thread_cpu_s\": [", file);
    while (tasks != NULL && (task = readdir(tasks)) != NULL && count < THREADS) {
        char path[300];
        long long ran = 0, waited = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *one = task->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (one == NULL) continue;
        int read = fscanf(one, "%lld %lld", &ran, &waited);
        fclose(one);
        if (atoi(task->d_name) == (int)process) {
            if (of->main_cpu >= 0) ran = of->main_cpu;
            ran -= begin_main_cpu;
            if (of->delay >= 0) waited = of->delay;
            waited -= begin_delay > 0 ? begin_delay : 0;
        }
        if (read != 2) continue;
        fprintf(file, "%s%.6f", count ? ", " : "", ran / 1e9);
        delays[count++] = waited > 0 ? waited / 1e9 : 0;
    }
    if (tasks != NULL) closedir(tasks);
    fputs("], \"thread_delay_s\": [", file);
    for (int at = 0; at < count; at++) fprintf(file, "%s%.6f", at ? ", " : "", delays[at]);
    fputs("]", file);
}

static void write_report(void)
{
    if (written || folder == NULL || world_rank < 0 || getpid() != process) return;
    written = true;
    if (at_end.end == 0 || region == NULL) end_region();
    const struct totals *of = &at_end;
    char path[4096], whole[4096 + 8], host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/mpi-%d-%d.stamps", folder, world_rank, (int)process);
    write_stamps(path, &collectives_at_end, &messages_at_end);
    snprintf(path, sizeof path, "%s/mpi-%d-%d.part", folder, world_rank, (int)process);
    FILE *file = fopen(path, "we");
    if (file == NULL) return;
    double mpi = 0;
    for (int class = 0; class < CLASSES; class++) mpi += of->by_class[class].ns / 1e9;
    double seconds = (of->end - begin) / 1e9, io = of->by_class[IO].ns / 1e9;
    fprintf(file, "{\"rank\": %d, \"has_rank\": true, \"host\": ", world_rank);
    quote(file, host);
    fprintf(file, ", \"began\": %.9f, \"seconds\": %.9f, \"setup_seconds\": 0.0, \"steps\": 0",
            began_1970_ns / 1e9, seconds);
    fprintf(file, ", \"stages\": {\"compute\": %.9f, \"communication\": %.9f, \"io\": %.9f}",
            seconds - mpi, mpi - io, io);
    fputs(", \"items\": null, \"quality\": null, \"facts\": {}, \"modules\": {}", file);
    fputs(", \"comm_calls\": 0, \"step_ends\": 0, \"usage\": ", file);
    write_usage(file, of);
    if (share > 0)
        fprintf(file, ", \"cpu_s\": %.9f, \"paced_s\": %.9f, \"late_s\": %.9f, \"link_s\": %.9f"
                ", \"held_up_s\": %.9f, \"pace_share\": %.9f", of->cpu / 1e9, of->paced / 1e9,
                of->late / 1e9, of->linked / 1e9, of->held_up / 1e9, share);
    if (counters >= 0)
        fprintf(file, ", \"counters\": {\"instructions\": %lld, \"cycles\": %lld}",
                (long long)of->instructions, (long long)of->cycles);
    else fprintf(file, ", \"no_counters\": \"%s\"", no_counters);
    fprintf(file, ", \"mpi\": {\"process\": %d, \"world_size\": %d, \"library\": ", (int)process,
            world_size);
    quote(file, library);
    fprintf(file, ", \"finalized\": %s, \"aborted\": %s, \"abort_code\": %d",
            finished ? "true" : "false", aborted ? "true" : "false", abort_code);
    fprintf(file, ", \"interposer\": %d", REPORT_FORMAT);
    fprintf(file, ", \"begin_ns\": %lld, \"end_ns\": %lld, \"clock_offset_ns\": %lld",
            (long long)begin, (long long)of->end, (long long)clock_offset);
    fprintf(file, ", \"clock_error_ns\": %lld, \"hosts\": %d", (long long)clock_error, hosts);
    fprintf(file, ", \"collectives_seen\": %lld, \"messages_seen\": %lld, \"unmatched\": %lld",
            (long long)collectives_at_end.seen, (long long)messages_at_end.seen,
            (long long)unmatched);
    fputs(", \"region\": ", file);
    quote(file, region && !region_seen ? region : "");
    fprintf(file, ", \"region_calls\": %ld", region_calls);
    write_threads(file, of);
    fputs(", \"other_threads\": ", file);
    write_total(file, &of->other_threads);
    fputs("}, \"classes\": {", file);
    write_classes(file, of);
    fputs("}, \"communicators\": [", file);
    for (int at = 0; at < comm_count; at++) {
        fprintf(file, "%s{\"id\": \"%016llx\", \"size\": %d, ", at ? ", " : "",
                (unsigned long long)comms[at].id, comms[at].size);
        fprintf(file, "\"seconds\": %.9f, \"calls\": %lld, \"bytes\": %lld}",
                comms[at].at_end.ns / 1e9, (long long)comms[at].at_end.calls,
                (long long)comms[at].at_end.bytes);
    }
    fputs("]}}\n", file);
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    snprintf(whole, sizeof whole, "%s/mpi-%d-%d.json", folder, world_rank, (int)process);
    if (good) rename(path, whole);
}

/* ---------------------------------------------------------------------------- begin and end of MPI */

static void pass_gate(void)
{
    const char *wanted = getenv("NODEWISE_MPI_GATE"), *path = getenv("NODEWISE_GATE");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (wanted == NULL || path == NULL || strlen(path) >= sizeof address.sun_path) return;
    strcpy(address.sun_path, path);
    gate = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char words[16], answer;
    int length = snprintf(words, sizeof words, "%d\n", world_rank);
    if (gate < 0 || connect(gate, (struct sockaddr *)&address, sizeof address) != 0
        || send(gate, words, (size_t)length, MSG_NOSIGNAL) != length || recv(gate, &answer, 1, 0) < 0) {
        if (gate >= 0) close(gate);
        gate = -1;
    }
}

static void leave_gate(void)
{
    if (gate < 0) return;
    shutdown(gate, SHUT_RDWR);
    close(gate);
    gate = -1;
}

/* Ranks on other hosts have other clocks: the shortest of some round trips gives the difference. */
static void compare_clocks(void)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    int64_t own = 0, *all = malloc((size_t)world_size * sizeof *all);
    for (const char *c = name; *c; c++) own = (int64_t)join((uint64_t)own, (uint64_t)*c);
    if (all == NULL) return;
    REAL(MPI_Allgather)(&own, sizeof own, byte_type, all, sizeof own, byte_type, world);
    for (int at = 1; at < world_size; at++) {
        bool is_new = true;
        for (int before = 0; before < at && is_new; before++) is_new = all[before] != all[at];
        hosts += is_new;
    }
    for (int peer = 1; peer < world_size && hosts > 1; peer++) {
        if (world_rank != 0 && world_rank != peer) continue;
        for (int turn = 0; turn < 20; turn++) {
            int64_t start = now(), there = 0;
            if (world_rank == 0) {
                REAL(MPI_Recv)(&there, sizeof there, byte_type, peer, 77, world, MPI_STATUS_IGNORE);
                there = now();
                REAL(MPI_Send)(&there, sizeof there, byte_type, peer, 77, world);
                continue;
            }
            REAL(MPI_Send)(&there, sizeof there, byte_type, 0, 77, world);
            REAL(MPI_Recv)(&there, sizeof there, byte_type, 0, 77, world, MPI_STATUS_IGNORE);
            int64_t end = now(), error = (end - start) / 2;
            if (clock_error >= 0 && error >= clock_error) continue;
            clock_error = error;
            clock_offset = there - (start + end) / 2;
        }
    }
    free(all);
}

#define WORLD CONSTANT(MPI_Comm, "ompi_mpi_comm_world", MPI_COMM_WORLD)

/* `all`: a communicator of all ranks, which all of them have just come to. */
static void begin_mpi(MPI_Comm all)
{
    folder = getenv("NODEWISE_RUN");
    if (folder == NULL || running || finished) return;
    int length = 0, provided = 0;
    char full[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    REAL(MPI_Get_library_version)(full, &length);
#ifdef OPEN_MPI
    bool same = strstr(full, "Open MPI") != NULL;
#else
    bool same = strstr(full, "Open MPI") == NULL;
#endif
    if (!same) {
        fprintf(stderr, "nodewise: built for another MPI than %.40s; it records nothing.\n", full);
        return;
    }
    snprintf(library, sizeof library, "%.*s", (int)strcspn(full, "\n"), full);
    world = all;
    byte_type = CONSTANT(MPI_Datatype, "ompi_mpi_byte", MPI_BYTE);
    no_type = CONSTANT(MPI_Datatype, "ompi_mpi_datatype_null", MPI_DATATYPE_NULL);
    REAL(MPI_Comm_rank)(world, &world_rank);
    REAL(MPI_Comm_size)(world, &world_size);
    if (!by_session) REAL(MPI_Query_thread)(&provided);
    multiple = by_session || provided == MPI_THREAD_MULTIPLE;
    main_thread = pthread_self();
    process = getpid();
    schedule = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    read_region();
    open_counters();
    const char *value = getenv("NODEWISE_PACE_SHARE");
    share = value ? strtod(value, NULL) : 0;
    value = getenv("NODEWISE_PACE_LATENCY");
    latency = value ? strtod(value, NULL) : 0;
    value = getenv("NODEWISE_PACE_BANDWIDTH");
    bandwidth = value ? strtod(value, NULL) : 0;
    if (share > 0) prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    register_comm(world, 1);
    compare_clocks();
    pass_gate();
    REAL(MPI_Barrier)(world);
    running = true;
    begin_region();
}

static void end_mpi(void)
{
    if (share > 0 && running && depth == 0) pace();
    write_report();
    running = false;
    leave_gate();
}

#ifndef OPEN_MPI
/* The handles of Open MPI are wider than ours and would be cut off: start again without us. */
static void refuse_other_mpi(char **argv)
{
    Dl_info own;
    const char *preloaded = getenv("LD_PRELOAD");
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") == NULL || preloaded == NULL) return;
    char *others = strdup(preloaded), *at = NULL, *end = others;
    if (others == NULL || dladdr((void *)refuse_other_mpi, &own) == 0) return;
    char *kept = calloc(1, strlen(preloaded) + 2);
    for (at = strtok_r(others, ": ", &end); at && kept; at = strtok_r(NULL, ": ", &end))
        if (strcmp(at, own.dli_fname) != 0) strcat(strcat(kept, at), ":");
    if (kept == NULL) return;
    fprintf(stderr, "nodewise: this program uses Open MPI, not the MPI of its launcher.\n");
    if (*kept) setenv("LD_PRELOAD", kept, 1);
    else unsetenv("LD_PRELOAD");
    unsetenv("NODEWISE_MPI_GATE");
    execv("/proc/self/exe", argv);
}
#endif

__attribute__((constructor)) static void loaded(int argc, char **argv)
{
    (void)argc;
    (void)argv;
#ifndef OPEN_MPI
    refuse_other_mpi(argv);
#endif
    clock_of_libc = (__typeof__(clock_of_libc))dlsym(RTLD_NEXT, "clock_gettime");
    setenv("NODEWISE_MPI_INTERPOSED", "1", 1);
    patient = getenv("NODEWISE_PACE_SHARE") != NULL || getenv("NODEWISE_MPI_PATIENT") != NULL;
}

/* A program that ends without MPI_Finalize. */
__attribute__((destructor)) static void unloaded(void)
{
    if (running) end_mpi();
}

EXPORT int MPI_Init(int *argc, char ***argv)
{
    depth++;
    int code = REAL(MPI_Init)(argc, argv);
    begin_mpi(WORLD);
    depth--;
    return code;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    depth++;
    int code = REAL(MPI_Init_thread)(argc, argv, required, provided);
    begin_mpi(WORLD);
    depth--;
    return code;
}

EXPORT int MPI_Finalize(void)
{
    finished = true;
    end_mpi();
    return REAL(MPI_Finalize)();
}

#if MPI_VERSION >= 4
/* A program without MPI_Init. Nothing collective may be added before its ranks meet by themselves:
   the clock starts at its first communicator of all of them, of which we have a copy. */
static MPI_Group everyone;
static int sessions;

EXPORT int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session)
{
    int code = REAL(MPI_Session_init)(info, handler, session);
    if (code != MPI_SUCCESS || running || finished || sessions++ > 0) return code;
    REAL(MPI_Group_from_session_pset)(*session, "mpi://WORLD", &everyone);
    return code;
}

EXPORT int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info, MPI_Errhandler handler, MPI_Comm *made)
{
    struct span span = outer() ? enter() : (struct span){0};
    int code = REAL(MPI_Comm_create_from_group)(group, tag, info, handler, made), same = MPI_UNEQUAL;
    if (span.enter) leave(&span, COLLECTIVE, NULL, 0);
    if (code != MPI_SUCCESS || running || finished || sessions == 0) return code;
    if (everyone) REAL(MPI_Group_compare)(group, everyone, &same);
    if (same == MPI_UNEQUAL) return code;
    MPI_Comm copy;
    if (REAL(MPI_Comm_dup)(*made, &copy) != MPI_SUCCESS) return code;
    by_session = true;
    depth++;
    begin_mpi(copy);
    depth--;
    return code;
}

EXPORT int MPI_Session_finalize(MPI_Session *session)
{
    if (by_session && sessions == 1 && !finished) {
        finished = true;
        end_mpi();
        REAL(MPI_Comm_free)(&world);
    }
    if (sessions > 0 && --sessions == 0 && everyone) REAL(MPI_Group_free)(&everyone);
    return REAL(MPI_Session_finalize)(session);
}
#endif

EXPORT int MPI_Abort(MPI_Comm comm, int code)
{
    aborted = true;
    abort_code = code;
    end_mpi();
    return REAL(MPI_Abort)(comm, code);
}

EXPORT double MPI_Wtime(void)
{
    pace_at_clock();
    return REAL(MPI_Wtime)();
}

EXPORT int MPI_Pcontrol(const int level, ...)
{
    if (running && !strcasecmp(region_name, "pcontrol")) {
        region_calls++;
        if (level > 0 && !region_open) {
            if (!region_seen) begin_region();
            region_seen = region_open = true;
        } else if (level == 0 && region_open) {
            end_region();
            region_open = false;
        }
    }
    return MPI_SUCCESS;
}

#include "calls.h"
#include "fortran.h"
