/* The wrapped calls of C, one row each. counted.h has those with counts, which MPI 4 has twice:
   with int, and with MPI_Count under a name that ends in _c. */

/* A call that belongs to a class, with its communicator (or NULL) and its bytes. */
#define TIMED(name, class, of, bytes, parameters, arguments)       \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL_OF(name) arguments;              \
        struct span span = enter();                                \
        int code = REAL_OF(name) arguments;                        \
        leave(&span, class, of, bytes);                            \
        return code;                                               \
    }

/* A collective: all wait for all, all for the root, or the root for all. `reduces`: the bytes go
   both ways. */
#define COLLECT(name, kind, root, reduces, bytes, parameters, arguments) \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL_OF(name) arguments;              \
        struct span span = enter();                                \
        struct comm *at = comm_at(comm);                           \
        int64_t size = bytes;                                      \
        int code = REAL_OF(name) arguments;                        \
        link_collective(kind, at, size, reduces);                  \
        leave(&span, COLLECTIVE, at, size);                        \
        took_part(span, at, kind, root);                           \
        if (region) mark_region(SPELL(name));                      \
        return code;                                               \
    }

/* A collective that a request completes. One that `stays` is persistent: MPI_Start begins it. */
#define START_COLLECT(name, stays, kind, root, reduces, bytes, parameters, arguments) \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL_OF(name) arguments;              \
        struct span span = enter();                                \
        struct comm *at = comm_at(comm);                           \
        int64_t size = bytes;                                      \
        int code = REAL_OF(name) arguments;                        \
        leave(&span, COLLECTIVE, at, stays ? 0 : size);            \
        track_collective(span, at, kind, root, reduces, size, KEY(*request), stays); \
        return code;                                               \
    }

/* A call on a communicator that makes another one. */
#define MAKE_COMM(name, parent, made, parameters, arguments)       \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL_OF(name) arguments;              \
        struct span span = enter();                                \
        int code = REAL_OF(name) arguments;                        \
        leave(&span, COLLECTIVE, comm_at(parent), 0);              \
        count_child(parent);                                       \
        depth++;                                                   \
        if (code == MPI_SUCCESS) new_comm(parent, *(made));        \
        depth--;                                                   \
        return code;                                               \
    }

#define SPELL_(name) (#name + 4)  /* without MPI_ */
#define SPELL(name) SPELL_(name)

#define SEND(name, parameters)                                     \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL_OF(name)(buffer, count, type, peer, tag, comm); \
        struct span span = enter();                                \
        int code = REAL_OF(name)(buffer, count, type, peer, tag, comm); \
        leave(&span, POINT, comm_at(comm), bytes_of(count, type)); \
        message(span, comm, peer, tag, true);                      \
        return code;                                               \
    }

#define START_MESSAGE(name, sends, stays, parameters)              \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL_OF(name)(buffer, count, type, peer, tag, comm, request); \
        struct span span = enter();                                \
        int64_t size = bytes_of(count, type);                      \
        int code = REAL_OF(name)(buffer, count, type, peer, tag, comm, request); \
        leave(&span, POINT, comm_at(comm), stays ? 0 : size);      \
        track_message(span, comm, peer, tag, sends, size, KEY(*request), stays); \
        return code;                                               \
    }

static int64_t sum_int(const int *counts, int size, MPI_Datatype type)
{
    int64_t sum = 0;
    for (int at = 0; at < size; at++) sum += counts[at];
    return bytes_of(sum, type);
}

#define COUNT int
#define PLACE int
#define SUM sum_int
#define COUNTED(name) name
#include "counted.h"

#if MPI_VERSION >= 4
static int64_t sum_count(const MPI_Count *counts, int size, MPI_Datatype type)
{
    int64_t sum = 0;
    for (int at = 0; at < size; at++) sum += counts[at];
    return bytes_of(sum, type);
}

#undef COUNT
#undef PLACE
#undef SUM
#undef COUNTED
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define SUM sum_count
#define COUNTED(name) name##_c
#include "counted.h"
#endif

COLLECT(MPI_Barrier, ALL_TO_ALL, -1, false, 0, (MPI_Comm comm), (comm))
START_COLLECT(MPI_Ibarrier, false, ALL_TO_ALL, -1, false, 0, (MPI_Comm comm, MPI_Request *request), (comm, request))
#if MPI_VERSION >= 4
START_COLLECT(MPI_Barrier_init, true, ALL_TO_ALL, -1, false, 0, (MPI_Comm comm, MPI_Info info, MPI_Request *request), (comm, info, request))
#endif
TIMED(MPI_Probe, POINT, comm_at(comm), 0, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, status))
TIMED(MPI_Iprobe, POINT, comm_at(comm), 0, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, tag, comm, flag, status))
TIMED(MPI_Mprobe, POINT, comm_at(comm), 0, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status), (source, tag, comm, message, status))
TIMED(MPI_Improbe, POINT, comm_at(comm), 0, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status), (source, tag, comm, flag, message, status))

MAKE_COMM(MPI_Comm_dup, comm, made, (MPI_Comm comm, MPI_Comm *made), (comm, made))
MAKE_COMM(MPI_Comm_dup_with_info, comm, made, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
MAKE_COMM(MPI_Comm_split, comm, made, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
MAKE_COMM(MPI_Comm_split_type, comm, made, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made))
MAKE_COMM(MPI_Comm_create, comm, made, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
MAKE_COMM(MPI_Cart_create, comm, made, (MPI_Comm comm, int dims, const int *sizes, const int *periods, int reorder, MPI_Comm *made), (comm, dims, sizes, periods, reorder, made))
MAKE_COMM(MPI_Cart_sub, comm, made, (MPI_Comm comm, const int *remain, MPI_Comm *made), (comm, remain, made))
MAKE_COMM(MPI_Graph_create, comm, made, (MPI_Comm comm, int nodes, const int *index, const int *edges, int reorder, MPI_Comm *made), (comm, nodes, index, edges, reorder, made))
MAKE_COMM(MPI_Dist_graph_create, comm, made, (MPI_Comm comm, int n, const int *sources, const int *degrees, const int *targets, const int *weights, MPI_Info info, int reorder, MPI_Comm *made), (comm, n, sources, degrees, targets, weights, info, reorder, made))
MAKE_COMM(MPI_Dist_graph_create_adjacent, comm, made, (MPI_Comm comm, int in, const int *sources, const int *weights, int out, const int *targets, const int *out_weights, MPI_Info info, int reorder, MPI_Comm *made), (comm, in, sources, weights, out, targets, out_weights, info, reorder, made))

/* Not all ranks of the parent make these, or the new one is not there yet: it is known by its ranks
   alone, when it is first used. */
TIMED(MPI_Comm_create_group, COLLECTIVE, comm_at(comm), 0, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made))
TIMED(MPI_Comm_idup, COLLECTIVE, comm_at(comm), 0, (MPI_Comm comm, MPI_Comm *made, MPI_Request *request), (comm, made, request))
TIMED(MPI_Intercomm_create, COLLECTIVE, comm_at(comm), 0, (MPI_Comm comm, int leader, MPI_Comm bridge, int other, int tag, MPI_Comm *made), (comm, leader, bridge, other, tag, made))
TIMED(MPI_Intercomm_merge, COLLECTIVE, comm_at(comm), 0, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))
TIMED(MPI_Comm_spawn, COLLECTIVE, comm_at(comm), 0, (const char *command, char *words[], int most, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made, int codes[]), (command, words, most, info, root, comm, made, codes))

#define END_COMM(name)                                             \
    EXPORT int name(MPI_Comm *comm)                                \
    {                                                              \
        if (!outer()) return REAL_OF(name)(comm);                  \
        MPI_Comm old = *comm;                                      \
        struct span span = enter();                                \
        int code = REAL_OF(name)(comm);                            \
        leave(&span, COLLECTIVE, NULL, 0);                         \
        forget_comm(old);                                          \
        return code;                                               \
    }
END_COMM(MPI_Comm_free)
END_COMM(MPI_Comm_disconnect)

EXPORT int MPI_Type_free(MPI_Datatype *type)
{
    if (running) bytes_of(0, byte_type);  /* its handle may come back with another size */
    return REAL(MPI_Type_free)(type);
}

/* ------------------------------------------------------------------------- requests and their waits */

/* The requests as they were before a call that may end them; bounded on the stack. */
#define KEYS(count, requests)                                      \
    int keys_count = (count) > 0 ? (count) : 0;                    \
    uint64_t on_stack[64] = {0}, *keys = on_stack;                 \
    bool any_wild = false;                                         \
    if (keys_count > 64) keys = malloc((size_t)keys_count * sizeof *keys); \
    if (keys == NULL) keys_count = 0;                              \
    for (int at = 0; at < keys_count; at++) {                      \
        keys[at] = KEY((requests)[at]);                            \
        any_wild = any_wild || is_wild(keys[at]);                  \
    }
#define FREE_KEYS if (keys != on_stack) free(keys)

static int64_t pending_bytes(uint64_t request)
{
    struct pending *one = pending_at(request);
    return one != NULL && (one->stamp.kind == RECEIVED || one->wild) ? one->bytes : 0;
}

static void charge_link(const uint64_t *keys, int count)
{
    if (latency <= 0 && bandwidth <= 0) return;
    int64_t bytes = 0;
    for (int at = 0; at < count; at++) {
        struct pending *one = pending_at(keys[at]);
        if (one != NULL && one->stamp.kind > 0 && one->stamp.kind < SENT)
            link_collective((enum kind)one->stamp.kind, one->comm, one->bytes, one->reduces);
        else bytes += pending_bytes(keys[at]);
    }
    if (bytes > 0) link_delay(1, (double)bytes);
}

EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    if (!outer()) return REAL(MPI_Wait)(request, status);
    uint64_t key = KEY(*request);
    MPI_Status own = {.MPI_SOURCE = -1, .MPI_TAG = -1}, *got = status;
    if (status == MPI_STATUS_IGNORE && is_wild(key)) got = &own;
    struct span span = enter();
    int code = REAL(MPI_Wait)(request, got);
    charge_link(&key, 1);
    leave(&span, WAIT, NULL, 0);
    bool known = got != MPI_STATUS_IGNORE;
    complete(span, key, known ? got->MPI_SOURCE : -1, known ? got->MPI_TAG : -1);
    return code;
}

EXPORT int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    if (!outer()) return REAL(MPI_Test)(request, flag, status);
    uint64_t key = KEY(*request);
    MPI_Status own = {.MPI_SOURCE = -1, .MPI_TAG = -1}, *got = status;
    if (status == MPI_STATUS_IGNORE && is_wild(key)) got = &own;
    struct span span = enter();
    int code = REAL(MPI_Test)(request, flag, got);
    if (*flag) charge_link(&key, 1);
    leave(&span, WAIT, NULL, 0);
    bool known = got != MPI_STATUS_IGNORE;
    if (*flag) complete(span, key, known ? got->MPI_SOURCE : -1, known ? got->MPI_TAG : -1);
    return code;
}

#define ALL_REQUESTS(name, parameters, arguments, done)            \
    EXPORT int name parameters                                     \
    {                                                              \
        MPI_Status *got = statuses;                                \
        if (!outer()) return REAL(name) arguments;                 \
        KEYS(count, requests)                                      \
        if (statuses == MPI_STATUSES_IGNORE && any_wild) {         \
            got = malloc((size_t)count * sizeof *got);             \
            if (got == NULL) got = statuses;                       \
        }                                                          \
        struct span span = enter();                                \
        int code = REAL(name) arguments;                           \
        if (done) charge_link(keys, keys_count);                   \
        leave(&span, WAIT, NULL, 0);                               \
        bool known = got != MPI_STATUSES_IGNORE;                   \
        for (int at = 0; (done) && at < keys_count; at++)          \
            complete(span, keys[at], known ? got[at].MPI_SOURCE : -1, known ? got[at].MPI_TAG : -1); \
        if (got != statuses) free(got);                            \
        FREE_KEYS;                                                 \
        return code;                                               \
    }
ALL_REQUESTS(MPI_Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, got), true)
ALL_REQUESTS(MPI_Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]), (count, requests, flag, got), *flag)

#define ANY_REQUEST(name, parameters, arguments, done)             \
    EXPORT int name parameters                                     \
    {                                                              \
        MPI_Status own = {.MPI_SOURCE = -1, .MPI_TAG = -1}, *got = status; \
        if (!outer()) return REAL(name) arguments;                 \
        KEYS(count, requests)                                      \
        if (status == MPI_STATUS_IGNORE && any_wild) got = &own;   \
        struct span span = enter();                                \
        int code = REAL(name) arguments;                           \
        bool ended = (done) && *index >= 0 && *index < keys_count; \
        if (ended) charge_link(&keys[*index], 1);                  \
        leave(&span, WAIT, NULL, 0);                               \
        bool known = got != MPI_STATUS_IGNORE;                     \
        if (ended)                                                 \
            complete(span, keys[*index], known ? got->MPI_SOURCE : -1, known ? got->MPI_TAG : -1); \
        FREE_KEYS;                                                 \
        return code;                                               \
    }
ANY_REQUEST(MPI_Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status), (count, requests, index, got), true)
ANY_REQUEST(MPI_Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status), (count, requests, index, flag, got), *flag)

#define SOME_REQUESTS(name)                                        \
    EXPORT int name(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]) \
    {                                                              \
        MPI_Status *got = statuses;                                \
        if (!outer()) return REAL(name)(count, requests, outcount, indices, statuses); \
        KEYS(count, requests)                                      \
        if (statuses == MPI_STATUSES_IGNORE && any_wild) {         \
            got = malloc((size_t)count * sizeof *got);             \
            if (got == NULL) got = statuses;                       \
        }                                                          \
        struct span span = enter();                                \
        int code = REAL(name)(count, requests, outcount, indices, got); \
        for (int at = 0; at < *outcount && indices[at] < keys_count; at++) charge_link(&keys[indices[at]], 1); \
        leave(&span, WAIT, NULL, 0);                               \
        bool known = got != MPI_STATUSES_IGNORE;                   \
        for (int at = 0; at < *outcount && indices[at] < keys_count; at++) \
            complete(span, keys[indices[at]], known ? got[at].MPI_SOURCE : -1, known ? got[at].MPI_TAG : -1); \
        if (got != statuses) free(got);                            \
        FREE_KEYS;                                                 \
        return code;                                               \
    }
SOME_REQUESTS(MPI_Waitsome)
SOME_REQUESTS(MPI_Testsome)

/* A persistent request is begun; its bytes count here. */
static void started(struct span *span, const uint64_t *keys, int count)
{
    int64_t bytes = 0;
    struct pending *one = NULL;
    for (int at = 0; at < count; at++)
        if ((one = pending_at(keys[at])) != NULL) bytes += one->bytes;
    bool collective = one != NULL && one->stamp.kind > 0 && one->stamp.kind < SENT;
    leave(span, collective ? COLLECTIVE : POINT, one ? one->comm : NULL, bytes);
    for (int at = 0; at < count; at++) start_request(*span, keys[at]);
}

EXPORT int MPI_Start(MPI_Request *request)
{
    if (!outer()) return REAL(MPI_Start)(request);
    struct span span = enter();
    int code = REAL(MPI_Start)(request);
    started(&span, &(uint64_t){KEY(*request)}, 1);
    return code;
}

EXPORT int MPI_Startall(int count, MPI_Request requests[])
{
    if (!outer()) return REAL(MPI_Startall)(count, requests);
    KEYS(count, requests)
    (void)any_wild;
    struct span span = enter();
    int code = REAL(MPI_Startall)(count, requests);
    started(&span, keys, keys_count);
    FREE_KEYS;
    return code;
}

#if MPI_VERSION >= 4
/* Partitioned messages match only each other: their tags are kept apart. */
#define PARTITIONED(name, sends, constant)                         \
    EXPORT int name(constant void *buffer, int partitions, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request) \
    {                                                              \
        if (!outer()) return REAL(name)(buffer, partitions, count, type, peer, tag, comm, info, request); \
        struct span span = enter();                                \
        int code = REAL(name)(buffer, partitions, count, type, peer, tag, comm, info, request); \
        leave(&span, POINT, comm_at(comm), 0);                     \
        track_message(span, comm, peer, -1000 - tag, sends, bytes_of(partitions * count, type), KEY(*request), true); \
        return code;                                               \
    }
PARTITIONED(MPI_Psend_init, true, const)
PARTITIONED(MPI_Precv_init, false, )

/* The message is on its way when the last of its parts is ready. */
#define READY(name, parameters, arguments)                         \
    EXPORT int name parameters                                     \
    {                                                              \
        if (!outer()) return REAL(name) arguments;                 \
        struct span span = enter();                                \
        int code = REAL(name) arguments;                           \
        leave(&span, POINT, NULL, 0);                              \
        struct pending *one = pending_at(KEY(request));            \
        if (one != NULL) one->stamp.post = span.enter;             \
        return code;                                               \
    }
READY(MPI_Pready, (int part, MPI_Request request), (part, request))
READY(MPI_Pready_range, (int first, int last, MPI_Request request), (first, last, request))
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000 /* its header lacks the const */
READY(MPI_Pready_list, (int length, int parts[], MPI_Request request), (length, parts, request))
#else
READY(MPI_Pready_list, (int length, const int parts[], MPI_Request request), (length, parts, request))
#endif
TIMED(MPI_Parrived, WAIT, NULL, 0, (MPI_Request request, int part, int *flag), (request, part, flag))
#endif

TIMED(MPI_Request_get_status, WAIT, NULL, 0, (MPI_Request request, int *flag, MPI_Status *status), (request, flag, status))

EXPORT int MPI_Request_free(MPI_Request *request)
{
    uint64_t key = KEY(*request);
    int code = REAL(MPI_Request_free)(request);
    if (outer()) forget_request(key);
    return code;
}

/* ------------------------------------------------------------------------------------- one-sided */

TIMED(MPI_Win_create, ONE_SIDED, comm_at(comm), 0, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), (base, size, unit, info, comm, win))
TIMED(MPI_Win_allocate, ONE_SIDED, comm_at(comm), 0, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (size, unit, info, comm, base, win))
TIMED(MPI_Win_allocate_shared, ONE_SIDED, comm_at(comm), 0, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (size, unit, info, comm, base, win))
TIMED(MPI_Win_create_dynamic, ONE_SIDED, comm_at(comm), 0, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))
TIMED(MPI_Win_fence, ONE_SIDED, NULL, 0, (int assert, MPI_Win win), (assert, win))
TIMED(MPI_Win_start, ONE_SIDED, NULL, 0, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
TIMED(MPI_Win_complete, ONE_SIDED, NULL, 0, (MPI_Win win), (win))
TIMED(MPI_Win_post, ONE_SIDED, NULL, 0, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
TIMED(MPI_Win_wait, ONE_SIDED, NULL, 0, (MPI_Win win), (win))
TIMED(MPI_Win_test, ONE_SIDED, NULL, 0, (MPI_Win win, int *flag), (win, flag))
TIMED(MPI_Win_lock, ONE_SIDED, NULL, 0, (int type, int rank, int assert, MPI_Win win), (type, rank, assert, win))
TIMED(MPI_Win_unlock, ONE_SIDED, NULL, 0, (int rank, MPI_Win win), (rank, win))
TIMED(MPI_Win_lock_all, ONE_SIDED, NULL, 0, (int assert, MPI_Win win), (assert, win))
TIMED(MPI_Win_unlock_all, ONE_SIDED, NULL, 0, (MPI_Win win), (win))
TIMED(MPI_Win_flush, ONE_SIDED, NULL, 0, (int rank, MPI_Win win), (rank, win))
TIMED(MPI_Win_flush_all, ONE_SIDED, NULL, 0, (MPI_Win win), (win))
TIMED(MPI_Win_flush_local, ONE_SIDED, NULL, 0, (int rank, MPI_Win win), (rank, win))
TIMED(MPI_Win_flush_local_all, ONE_SIDED, NULL, 0, (MPI_Win win), (win))
TIMED(MPI_Win_sync, ONE_SIDED, NULL, 0, (MPI_Win win), (win))
TIMED(MPI_Win_free, ONE_SIDED, NULL, 0, (MPI_Win *win), (win))
TIMED(MPI_Fetch_and_op, ONE_SIDED, NULL, bytes_of(1, type), (const void *origin, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op, MPI_Win win), (origin, result, type, rank, at, op, win))
TIMED(MPI_Compare_and_swap, ONE_SIDED, NULL, bytes_of(1, type), (const void *origin, const void *compare, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Win win), (origin, compare, result, type, rank, at, win))

/* -------------------------------------------------------------------------------------- files */

TIMED(MPI_File_open, IO, NULL, 0, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file), (comm, name, mode, info, file))
TIMED(MPI_File_close, IO, NULL, 0, (MPI_File *file), (file))
TIMED(MPI_File_sync, IO, NULL, 0, (MPI_File file), (file))
TIMED(MPI_File_set_size, IO, NULL, 0, (MPI_File file, MPI_Offset size), (file, size))
TIMED(MPI_File_preallocate, IO, NULL, 0, (MPI_File file, MPI_Offset size), (file, size))
TIMED(MPI_File_set_view, IO, NULL, 0, (MPI_File file, MPI_Offset at, MPI_Datatype element, MPI_Datatype type, const char *form, MPI_Info info), (file, at, element, type, form, info))
TIMED(MPI_File_seek, IO, NULL, 0, (MPI_File file, MPI_Offset at, int whence), (file, at, whence))
TIMED(MPI_File_seek_shared, IO, NULL, 0, (MPI_File file, MPI_Offset at, int whence), (file, at, whence))
TIMED(MPI_File_read_ordered_end, IO, NULL, 0, (MPI_File file, void *buffer, MPI_Status *status), (file, buffer, status))
TIMED(MPI_File_write_ordered_end, IO, NULL, 0, (MPI_File file, const void *buffer, MPI_Status *status), (file, buffer, status))
TIMED(MPI_File_read_all_end, IO, NULL, 0, (MPI_File file, void *buffer, MPI_Status *status), (file, buffer, status))
TIMED(MPI_File_write_all_end, IO, NULL, 0, (MPI_File file, const void *buffer, MPI_Status *status), (file, buffer, status))
TIMED(MPI_File_read_at_all_end, IO, NULL, 0, (MPI_File file, void *buffer, MPI_Status *status), (file, buffer, status))
TIMED(MPI_File_write_at_all_end, IO, NULL, 0, (MPI_File file, const void *buffer, MPI_Status *status), (file, buffer, status))
