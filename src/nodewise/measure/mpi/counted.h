/* The wrapped calls that have counts. Included with COUNT, PLACE, SUM and COUNTED defined. */

/* Messages. */
#define MESSAGE_IN (const void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
#define MESSAGE_START (const void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
#define MESSAGE_AWAIT (void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
SEND(COUNTED(MPI_Send), MESSAGE_IN)
SEND(COUNTED(MPI_Ssend), MESSAGE_IN)
SEND(COUNTED(MPI_Rsend), MESSAGE_IN)
SEND(COUNTED(MPI_Bsend), MESSAGE_IN)
START_MESSAGE(COUNTED(MPI_Isend), true, false, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Issend), true, false, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Irsend), true, false, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Ibsend), true, false, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Irecv), false, false, MESSAGE_AWAIT)
START_MESSAGE(COUNTED(MPI_Send_init), true, true, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Ssend_init), true, true, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Rsend_init), true, true, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Bsend_init), true, true, MESSAGE_START)
START_MESSAGE(COUNTED(MPI_Recv_init), false, true, MESSAGE_AWAIT)

EXPORT int COUNTED(MPI_Recv)(void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (!outer()) return REAL_OF(COUNTED(MPI_Recv))(buffer, count, type, peer, tag, comm, status);
    MPI_Status own = {.MPI_SOURCE = -1, .MPI_TAG = -1}, *got = status;
    bool wild = peer == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
    if (wild && status == MPI_STATUS_IGNORE) got = &own;
    struct span span = enter();
    int code = REAL_OF(COUNTED(MPI_Recv))(buffer, count, type, peer, tag, comm, got);
    int64_t size = bytes_of(count, type);
    link_delay(1, (double)size);
    leave(&span, POINT, comm_at(comm), size);
    message(span, comm, wild ? got->MPI_SOURCE : peer, wild ? got->MPI_TAG : tag, false);
    return code;
}

EXPORT int COUNTED(MPI_Sendrecv)(const void *out, COUNT out_count, MPI_Datatype out_type, int to, int out_tag, void *in, COUNT count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (!outer()) return REAL_OF(COUNTED(MPI_Sendrecv))(out, out_count, out_type, to, out_tag, in, count, type, from, tag, comm, status);
    MPI_Status own = {.MPI_SOURCE = -1, .MPI_TAG = -1}, *got = status;
    bool wild = from == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
    if (wild && status == MPI_STATUS_IGNORE) got = &own;
    struct span span = enter();
    int code = REAL_OF(COUNTED(MPI_Sendrecv))(out, out_count, out_type, to, out_tag, in, count, type, from, tag, comm, got);
    int64_t size = bytes_of(count, type);
    link_delay(1, (double)size);
    leave(&span, POINT, comm_at(comm), bytes_of(out_count, out_type) + size);
    message(span, comm, to, out_tag, true);
    message(span, comm, wild ? got->MPI_SOURCE : from, wild ? got->MPI_TAG : tag, false);
    return code;
}

EXPORT int COUNTED(MPI_Sendrecv_replace)(void *buffer, COUNT count, MPI_Datatype type, int to, int out_tag, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (!outer()) return REAL_OF(COUNTED(MPI_Sendrecv_replace))(buffer, count, type, to, out_tag, from, tag, comm, status);
    struct span span = enter();
    int code = REAL_OF(COUNTED(MPI_Sendrecv_replace))(buffer, count, type, to, out_tag, from, tag, comm, status);
    int64_t size = bytes_of(count, type);
    link_delay(1, (double)size);
    leave(&span, POINT, comm_at(comm), 2 * size);
    message(span, comm, to, out_tag, true);
    message(span, comm, from, tag, false);  /* one of any source is not matched */
    return code;
}

TIMED(COUNTED(MPI_Mrecv), POINT, NULL, bytes_of(count, type), (void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status), (buffer, count, type, message, status))
TIMED(COUNTED(MPI_Imrecv), POINT, NULL, bytes_of(count, type), (void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request), (buffer, count, type, message, request))

/* Collectives. What the standard calls not significant at a rank is not looked at. */
#define ALL_OF(name, reduces, bytes, parameters, arguments) COLLECT(COUNTED(name), ALL_TO_ALL, -1, reduces, bytes, parameters, arguments)
#define START_ALL(name, reduces, bytes, parameters, arguments) START_COLLECT(COUNTED(name), false, ALL_TO_ALL, -1, reduces, bytes, parameters, arguments)
#define LATER_ALL(name, reduces, bytes, parameters, arguments) START_COLLECT(COUNTED(name), true, ALL_TO_ALL, -1, reduces, bytes, parameters, arguments)
COLLECT(COUNTED(MPI_Bcast), FROM_ROOT, root, false, root < 0 ? 0 : bytes_of(count, type), (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm), (buffer, count, type, root, comm))
COLLECT(COUNTED(MPI_Scatter), FROM_ROOT, root, false, root < 0 || in == MPI_IN_PLACE ? 0 : bytes_of(count, type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm), (out, out_count, out_type, in, count, type, root, comm))
COLLECT(COUNTED(MPI_Scatterv), FROM_ROOT, root, false, root < 0 || in == MPI_IN_PLACE ? 0 : bytes_of(count, type), (const void *out, const COUNT *out_counts, const PLACE *places, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm), (out, out_counts, places, out_type, in, count, type, root, comm))
COLLECT(COUNTED(MPI_Gather), TO_ROOT, root, false, root < 0 || out == MPI_IN_PLACE ? 0 : bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm), (out, out_count, out_type, in, count, type, root, comm))
COLLECT(COUNTED(MPI_Gatherv), TO_ROOT, root, false, root < 0 || out == MPI_IN_PLACE ? 0 : bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, int root, MPI_Comm comm), (out, out_count, out_type, in, counts, places, type, root, comm))
COLLECT(COUNTED(MPI_Reduce), TO_ROOT, root, false, root < 0 ? 0 : bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm), (out, in, count, type, op, root, comm))
ALL_OF(MPI_Allreduce, true, bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (out, in, count, type, op, comm))
ALL_OF(MPI_Allgather, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm), (out, out_count, out_type, in, count, type, comm))
ALL_OF(MPI_Allgatherv, false, SUM(counts, at ? at->size : 0, type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm), (out, out_count, out_type, in, counts, places, type, comm))
ALL_OF(MPI_Alltoall, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm), (out, out_count, out_type, in, count, type, comm))
ALL_OF(MPI_Alltoallv, false, SUM(counts, at ? at->size : 0, type), (const void *out, const COUNT *out_counts, const PLACE *out_places, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm), (out, out_counts, out_places, out_type, in, counts, places, type, comm))
ALL_OF(MPI_Alltoallw, false, 0, (const void *out, const COUNT *out_counts, const PLACE *out_places, const MPI_Datatype *out_types, void *in, const COUNT *counts, const PLACE *places, const MPI_Datatype *types, MPI_Comm comm), (out, out_counts, out_places, out_types, in, counts, places, types, comm))
ALL_OF(MPI_Reduce_scatter, false, SUM(counts, at ? at->size : 0, type), (const void *out, void *in, const COUNT *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (out, in, counts, type, op, comm))
ALL_OF(MPI_Reduce_scatter_block, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (out, in, count, type, op, comm))
/* A prefix sum and exchanges with neighbours do not wait for all: their time is not divided. */
TIMED(COUNTED(MPI_Scan), COLLECTIVE, comm_at(comm), bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (out, in, count, type, op, comm))
TIMED(COUNTED(MPI_Exscan), COLLECTIVE, comm_at(comm), bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (out, in, count, type, op, comm))
TIMED(COUNTED(MPI_Neighbor_allgather), COLLECTIVE, comm_at(comm), bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm), (out, out_count, out_type, in, count, type, comm))
TIMED(COUNTED(MPI_Neighbor_allgatherv), COLLECTIVE, comm_at(comm), bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm), (out, out_count, out_type, in, counts, places, type, comm))
TIMED(COUNTED(MPI_Neighbor_alltoall), COLLECTIVE, comm_at(comm), bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm), (out, out_count, out_type, in, count, type, comm))
TIMED(COUNTED(MPI_Neighbor_alltoallv), COLLECTIVE, comm_at(comm), 0, (const void *out, const COUNT *out_counts, const PLACE *out_places, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm), (out, out_counts, out_places, out_type, in, counts, places, type, comm))
TIMED(COUNTED(MPI_Neighbor_alltoallw), COLLECTIVE, comm_at(comm), 0, (const void *out, const COUNT *out_counts, const MPI_Aint *out_places, const MPI_Datatype *out_types, void *in, const COUNT *counts, const MPI_Aint *places, const MPI_Datatype *types, MPI_Comm comm), (out, out_counts, out_places, out_types, in, counts, places, types, comm))
TIMED(COUNTED(MPI_Iscan), COLLECTIVE, comm_at(comm), bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request), (out, in, count, type, op, comm, request))
TIMED(COUNTED(MPI_Iexscan), COLLECTIVE, comm_at(comm), bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request), (out, in, count, type, op, comm, request))
TIMED(COUNTED(MPI_Ineighbor_allgather), COLLECTIVE, comm_at(comm), bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, count, type, comm, request))
TIMED(COUNTED(MPI_Ineighbor_allgatherv), COLLECTIVE, comm_at(comm), bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, counts, places, type, comm, request))
TIMED(COUNTED(MPI_Ineighbor_alltoall), COLLECTIVE, comm_at(comm), bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, count, type, comm, request))
TIMED(COUNTED(MPI_Ineighbor_alltoallv), COLLECTIVE, comm_at(comm), 0, (const void *out, const COUNT *out_counts, const PLACE *out_places, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_counts, out_places, out_type, in, counts, places, type, comm, request))
TIMED(COUNTED(MPI_Ineighbor_alltoallw), COLLECTIVE, comm_at(comm), 0, (const void *out, const COUNT *out_counts, const MPI_Aint *out_places, const MPI_Datatype *out_types, void *in, const COUNT *counts, const MPI_Aint *places, const MPI_Datatype *types, MPI_Comm comm, MPI_Request *request), (out, out_counts, out_places, out_types, in, counts, places, types, comm, request))

START_COLLECT(COUNTED(MPI_Ibcast), false, FROM_ROOT, root, false, root < 0 ? 0 : bytes_of(count, type), (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request), (buffer, count, type, root, comm, request))
START_COLLECT(COUNTED(MPI_Iscatter), false, FROM_ROOT, root, false, root < 0 || in == MPI_IN_PLACE ? 0 : bytes_of(count, type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, count, type, root, comm, request))
START_COLLECT(COUNTED(MPI_Iscatterv), false, FROM_ROOT, root, false, root < 0 || in == MPI_IN_PLACE ? 0 : bytes_of(count, type), (const void *out, const COUNT *out_counts, const PLACE *places, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request), (out, out_counts, places, out_type, in, count, type, root, comm, request))
START_COLLECT(COUNTED(MPI_Igather), false, TO_ROOT, root, false, root < 0 || out == MPI_IN_PLACE ? 0 : bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, count, type, root, comm, request))
START_COLLECT(COUNTED(MPI_Igatherv), false, TO_ROOT, root, false, root < 0 || out == MPI_IN_PLACE ? 0 : bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, counts, places, type, root, comm, request))
START_COLLECT(COUNTED(MPI_Ireduce), false, TO_ROOT, root, false, root < 0 ? 0 : bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm, MPI_Request *request), (out, in, count, type, op, root, comm, request))
START_ALL(MPI_Iallreduce, true, bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request), (out, in, count, type, op, comm, request))
START_ALL(MPI_Iallgather, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, count, type, comm, request))
START_ALL(MPI_Iallgatherv, false, SUM(counts, at ? at->size : 0, type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, counts, places, type, comm, request))
START_ALL(MPI_Ialltoall, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_count, out_type, in, count, type, comm, request))
START_ALL(MPI_Ialltoallv, false, SUM(counts, at ? at->size : 0, type), (const void *out, const COUNT *out_counts, const PLACE *out_places, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm, MPI_Request *request), (out, out_counts, out_places, out_type, in, counts, places, type, comm, request))
START_ALL(MPI_Ialltoallw, false, 0, (const void *out, const COUNT *out_counts, const PLACE *out_places, const MPI_Datatype *out_types, void *in, const COUNT *counts, const PLACE *places, const MPI_Datatype *types, MPI_Comm comm, MPI_Request *request), (out, out_counts, out_places, out_types, in, counts, places, types, comm, request))
START_ALL(MPI_Ireduce_scatter, false, SUM(counts, at ? at->size : 0, type), (const void *out, void *in, const COUNT *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request), (out, in, counts, type, op, comm, request))
START_ALL(MPI_Ireduce_scatter_block, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request), (out, in, count, type, op, comm, request))

#if MPI_VERSION >= 4
/* Persistent collectives: made once, and started often. */
START_COLLECT(COUNTED(MPI_Bcast_init), true, FROM_ROOT, root, false, root < 0 ? 0 : bytes_of(count, type), (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request), (buffer, count, type, root, comm, info, request))
START_COLLECT(COUNTED(MPI_Scatter_init), true, FROM_ROOT, root, false, root < 0 || in == MPI_IN_PLACE ? 0 : bytes_of(count, type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_count, out_type, in, count, type, root, comm, info, request))
START_COLLECT(COUNTED(MPI_Scatterv_init), true, FROM_ROOT, root, false, root < 0 || in == MPI_IN_PLACE ? 0 : bytes_of(count, type), (const void *out, const COUNT *out_counts, const PLACE *places, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_counts, places, out_type, in, count, type, root, comm, info, request))
START_COLLECT(COUNTED(MPI_Gather_init), true, TO_ROOT, root, false, root < 0 || out == MPI_IN_PLACE ? 0 : bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_count, out_type, in, count, type, root, comm, info, request))
START_COLLECT(COUNTED(MPI_Gatherv_init), true, TO_ROOT, root, false, root < 0 || out == MPI_IN_PLACE ? 0 : bytes_of(out_count, out_type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_count, out_type, in, counts, places, type, root, comm, info, request))
START_COLLECT(COUNTED(MPI_Reduce_init), true, TO_ROOT, root, false, root < 0 ? 0 : bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, in, count, type, op, root, comm, info, request))
LATER_ALL(MPI_Allreduce_init, true, bytes_of(count, type), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, in, count, type, op, comm, info, request))
LATER_ALL(MPI_Allgather_init, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_count, out_type, in, count, type, comm, info, request))
LATER_ALL(MPI_Allgatherv_init, false, SUM(counts, at ? at->size : 0, type), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_count, out_type, in, counts, places, type, comm, info, request))
LATER_ALL(MPI_Alltoall_init, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, COUNT out_count, MPI_Datatype out_type, void *in, COUNT count, MPI_Datatype type, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_count, out_type, in, count, type, comm, info, request))
LATER_ALL(MPI_Alltoallv_init, false, SUM(counts, at ? at->size : 0, type), (const void *out, const COUNT *out_counts, const PLACE *out_places, MPI_Datatype out_type, void *in, const COUNT *counts, const PLACE *places, MPI_Datatype type, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_counts, out_places, out_type, in, counts, places, type, comm, info, request))
LATER_ALL(MPI_Alltoallw_init, false, 0, (const void *out, const COUNT *out_counts, const PLACE *out_places, const MPI_Datatype *out_types, void *in, const COUNT *counts, const PLACE *places, const MPI_Datatype *types, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, out_counts, out_places, out_types, in, counts, places, types, comm, info, request))
LATER_ALL(MPI_Reduce_scatter_init, false, SUM(counts, at ? at->size : 0, type), (const void *out, void *in, const COUNT *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, in, counts, type, op, comm, info, request))
LATER_ALL(MPI_Reduce_scatter_block_init, false, bytes_of(count, type) * (at ? at->size : 1), (const void *out, void *in, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request), (out, in, count, type, op, comm, info, request))
#endif

/* One-sided. */
#define TARGET const void *origin, COUNT count, MPI_Datatype type, int rank, MPI_Aint at, COUNT there, MPI_Datatype their
#define TARGET_ARGUMENTS origin, count, type, rank, at, there, their
TIMED(COUNTED(MPI_Put), ONE_SIDED, NULL, bytes_of(count, type), (TARGET, MPI_Win win), (TARGET_ARGUMENTS, win))
TIMED(COUNTED(MPI_Rput), ONE_SIDED, NULL, bytes_of(count, type), (TARGET, MPI_Win win, MPI_Request *request), (TARGET_ARGUMENTS, win, request))
TIMED(COUNTED(MPI_Accumulate), ONE_SIDED, NULL, bytes_of(count, type), (TARGET, MPI_Op op, MPI_Win win), (TARGET_ARGUMENTS, op, win))
TIMED(COUNTED(MPI_Raccumulate), ONE_SIDED, NULL, bytes_of(count, type), (TARGET, MPI_Op op, MPI_Win win, MPI_Request *request), (TARGET_ARGUMENTS, op, win, request))
TIMED(COUNTED(MPI_Get), ONE_SIDED, NULL, bytes_of(count, type), (void *origin, COUNT count, MPI_Datatype type, int rank, MPI_Aint at, COUNT there, MPI_Datatype their, MPI_Win win), (TARGET_ARGUMENTS, win))
TIMED(COUNTED(MPI_Rget), ONE_SIDED, NULL, bytes_of(count, type), (void *origin, COUNT count, MPI_Datatype type, int rank, MPI_Aint at, COUNT there, MPI_Datatype their, MPI_Win win, MPI_Request *request), (TARGET_ARGUMENTS, win, request))
TIMED(COUNTED(MPI_Get_accumulate), ONE_SIDED, NULL, bytes_of(result_count, result_type), (const void *origin, COUNT count, MPI_Datatype type, void *result, COUNT result_count, MPI_Datatype result_type, int rank, MPI_Aint at, COUNT there, MPI_Datatype their, MPI_Op op, MPI_Win win), (origin, count, type, result, result_count, result_type, rank, at, there, their, op, win))
TIMED(COUNTED(MPI_Rget_accumulate), ONE_SIDED, NULL, bytes_of(result_count, result_type), (const void *origin, COUNT count, MPI_Datatype type, void *result, COUNT result_count, MPI_Datatype result_type, int rank, MPI_Aint at, COUNT there, MPI_Datatype their, MPI_Op op, MPI_Win win, MPI_Request *request), (origin, count, type, result, result_count, result_type, rank, at, there, their, op, win, request))

/* Files. */
#define READ_WRITE(name) \
    TIMED(COUNTED(MPI_File_read##name), IO, NULL, bytes_of(count, type), (MPI_File file, void *buffer, COUNT count, MPI_Datatype type, MPI_Status *status), (file, buffer, count, type, status)) \
    TIMED(COUNTED(MPI_File_write##name), IO, NULL, bytes_of(count, type), (MPI_File file, const void *buffer, COUNT count, MPI_Datatype type, MPI_Status *status), (file, buffer, count, type, status))
#define READ_WRITE_AT(name) \
    TIMED(COUNTED(MPI_File_read##name), IO, NULL, bytes_of(count, type), (MPI_File file, MPI_Offset at, void *buffer, COUNT count, MPI_Datatype type, MPI_Status *status), (file, at, buffer, count, type, status)) \
    TIMED(COUNTED(MPI_File_write##name), IO, NULL, bytes_of(count, type), (MPI_File file, MPI_Offset at, const void *buffer, COUNT count, MPI_Datatype type, MPI_Status *status), (file, at, buffer, count, type, status))
#define START_READ_WRITE(name) \
    TIMED(COUNTED(MPI_File_iread##name), IO, NULL, bytes_of(count, type), (MPI_File file, void *buffer, COUNT count, MPI_Datatype type, MPI_Request *request), (file, buffer, count, type, request)) \
    TIMED(COUNTED(MPI_File_iwrite##name), IO, NULL, bytes_of(count, type), (MPI_File file, const void *buffer, COUNT count, MPI_Datatype type, MPI_Request *request), (file, buffer, count, type, request))
#define START_READ_WRITE_AT(name) \
    TIMED(COUNTED(MPI_File_iread##name), IO, NULL, bytes_of(count, type), (MPI_File file, MPI_Offset at, void *buffer, COUNT count, MPI_Datatype type, MPI_Request *request), (file, at, buffer, count, type, request)) \
    TIMED(COUNTED(MPI_File_iwrite##name), IO, NULL, bytes_of(count, type), (MPI_File file, MPI_Offset at, const void *buffer, COUNT count, MPI_Datatype type, MPI_Request *request), (file, at, buffer, count, type, request))
#define BEGIN_READ_WRITE(name) \
    TIMED(COUNTED(MPI_File_read##name##_begin), IO, NULL, bytes_of(count, type), (MPI_File file, void *buffer, COUNT count, MPI_Datatype type), (file, buffer, count, type)) \
    TIMED(COUNTED(MPI_File_write##name##_begin), IO, NULL, bytes_of(count, type), (MPI_File file, const void *buffer, COUNT count, MPI_Datatype type), (file, buffer, count, type))
READ_WRITE()
READ_WRITE(_all)
READ_WRITE(_shared)
READ_WRITE(_ordered)
READ_WRITE_AT(_at)
READ_WRITE_AT(_at_all)
START_READ_WRITE()
START_READ_WRITE(_all)
START_READ_WRITE(_shared)
START_READ_WRITE_AT(_at)
START_READ_WRITE_AT(_at_all)
BEGIN_READ_WRITE(_all)
BEGIN_READ_WRITE(_ordered)
TIMED(COUNTED(MPI_File_read_at_all_begin), IO, NULL, bytes_of(count, type), (MPI_File file, MPI_Offset at, void *buffer, COUNT count, MPI_Datatype type), (file, at, buffer, count, type))
TIMED(COUNTED(MPI_File_write_at_all_begin), IO, NULL, bytes_of(count, type), (MPI_File file, MPI_Offset at, const void *buffer, COUNT count, MPI_Datatype type), (file, at, buffer, count, type))

#undef MESSAGE_IN
#undef MESSAGE_START
#undef MESSAGE_AWAIT
#undef ALL_OF
#undef START_ALL
#undef LATER_ALL
#undef TARGET
#undef TARGET_ARGUMENTS
#undef READ_WRITE
#undef READ_WRITE_AT
#undef START_READ_WRITE
#undef START_READ_WRITE_AT
#undef BEGIN_READ_WRITE
