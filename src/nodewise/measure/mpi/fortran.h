/* The wrapped calls of Fortran, one row each. Every argument is an address and goes on as it is to
   pmpi_NAME_ (mpif.h, use mpi), pmpi_NAME_f08_ (use mpi_f08) or pmpir_NAME_f08_ (the same in MPICH);
   where that calls the C function, the wrapper of C sees that it is inside another call. Gathers and
   scatters are counted without their bytes, as the arguments that are not significant are not known
   here. */

typedef void *A;

#define A1 A a
#define A2 A1, A b
#define A3 A2, A c
#define A4 A3, A d
#define A5 A4, A e
#define A6 A5, A f
#define A7 A6, A g
#define A8 A7, A h
#define A9 A8, A i
#define A10 A9, A j
#define A11 A10, A k
#define A12 A11, A l
#define A13 A12, A m
#define V1 a
#define V2 V1, b
#define V3 V2, c
#define V4 V3, d
#define V5 V4, e
#define V6 V5, f
#define V7 V6, g
#define V8 V7, h
#define V9 V8, i
#define V10 V9, j
#define V11 V10, k
#define V12 V11, l
#define V13 V12, m

#define INT(x) (*(MPI_Fint *)(x))
#if defined(OPEN_MPI) || defined(MPI_ABI)
#define COMM(x) REAL(MPI_Comm_f2c)(INT(x))
#define TYPE(x) REAL(MPI_Type_f2c)(INT(x))
#define REQUEST(x) KEY(REAL(MPI_Request_f2c)(INT(x)))
#else
#define COMM(x) ((MPI_Comm)INT(x))
#define TYPE(x) ((MPI_Datatype)INT(x))
#define REQUEST(x) KEY((MPI_Request)INT(x))
#endif
#define BYTES(count, type) bytes_of(INT(count), TYPE(type))

/* The same wrapper under the names that Fortran compilers give it. */
#define FORTRAN(name, n, body)                                                     \
    static void fortran_##name(void (*real)(A##n), A##n) { body }                  \
    EXPORT void mpi_##name##_(A##n)                                                \
    {                                                                              \
        static void (*real)(A##n);                                                 \
        if (real == NULL) real = (void (*)(A##n))need("pmpi_" #name "_");          \
        fortran_##name(real, V##n);                                                \
    }                                                                              \
    EXPORT void mpi_##name##__(A##n) __attribute__((alias("mpi_" #name "_")));     \
    EXPORT void mpi_##name##_f08_(A##n)                                            \
    {                                                                              \
        static void (*real)(A##n);                                                 \
        if (real == NULL)                                                          \
            real = (void (*)(A##n))need_either(                                    \
                "pmpi_" #name "_f08_", "pmpir_" #name "_f08_");                    \
        fortran_##name(real, V##n);                                                \
    }

#define F_OUTER(n) if (!outer()) { real(V##n); return; } struct span span = enter();

#define F_TIMED(name, n, class, of, bytes)                                         \
    FORTRAN(name, n, F_OUTER(n) real(V##n); leave(&span, class, of, bytes);)

#define F_COLLECT(name, n, kind, root, of, reduces, bytes)                         \
    FORTRAN(name, n,                                                               \
        F_OUTER(n)                                                                 \
        struct comm *at = comm_at(COMM(of)); int64_t size = bytes;                 \
        real(V##n);                                                                \
        link_collective(kind, at, size, reduces);                                  \
        leave(&span, COLLECTIVE, at, size);                                        \
        took_part(span, at, kind, root);                                           \
        if (region) mark_region(#name);)

#define F_START_COLLECT(name, n, kind, root, of, request)                          \
    FORTRAN(name, n, F_OUTER(n)                                                    \
        struct comm *at = comm_at(COMM(of));                                       \
        real(V##n);                                                                \
        leave(&span, COLLECTIVE, at, 0);                                           \
        track_collective(span, at, kind, root, false, 0, REQUEST(request), false);)

#define F_SEND(name)                                                               \
    FORTRAN(name, 7, F_OUTER(7)                                                    \
        real(V7);                                                                  \
        leave(&span, POINT, comm_at(COMM(f)), BYTES(b, c));                        \
        message(span, COMM(f), INT(d), INT(e), true);)

#define F_START(name, sends, stays)                                                \
    FORTRAN(name, 8, F_OUTER(8)                                                    \
        int64_t size = BYTES(b, c);                                                \
        real(V8);                                                                  \
        leave(&span, POINT, comm_at(COMM(f)), stays ? 0 : size);                   \
        track_message(span, COMM(f), INT(d), INT(e), sends, size, REQUEST(g), stays);)

#define F_MAKE_COMM(name, n, parent, made)                                         \
    FORTRAN(name, n, F_OUTER(n)                                                    \
        real(V##n);                                                                \
        MPI_Comm from = COMM(parent);                                              \
        leave(&span, COLLECTIVE, comm_at(from), 0);                                \
        count_child(from);                                                         \
        depth++; new_comm(from, COMM(made)); depth--;)

#define F_KEYS(count, requests)                                                    \
    int keys_count = INT(count) > 0 ? INT(count) : 0;                              \
    uint64_t on_stack[64] = {0}, *keys = on_stack;                                 \
    if (keys_count > 64) keys = malloc((size_t)keys_count * sizeof *keys);         \
    if (keys == NULL) keys_count = 0;                                              \
    for (int at = 0; at < keys_count; at++) keys[at] = REQUEST((MPI_Fint *)(requests) + at);

#define F_ALL(name, n, done)                                                       \
    FORTRAN(name, n,                                                               \
        if (!outer()) { real(V##n); return; }                                      \
        F_KEYS(a, b)                                                               \
        struct span span = enter();                                                \
        real(V##n);                                                                \
        bool ended = done;                                                         \
        if (ended) charge_link(keys, keys_count);                                  \
        leave(&span, WAIT, NULL, 0);                                               \
        for (int at = 0; ended && at < keys_count; at++) complete(span, keys[at], -1, -1); \
        FREE_KEYS;)

/* Fortran counts from one. */
#define F_ANY(name, n, done)                                                       \
    FORTRAN(name, n,                                                               \
        if (!outer()) { real(V##n); return; }                                      \
        F_KEYS(a, b)                                                               \
        struct span span = enter();                                                \
        real(V##n);                                                                \
        bool ended = (done) && INT(c) >= 1 && INT(c) <= keys_count;                \
        if (ended) charge_link(&keys[INT(c) - 1], 1);                              \
        leave(&span, WAIT, NULL, 0);                                               \
        if (ended) complete(span, keys[INT(c) - 1], -1, -1);                       \
        FREE_KEYS;)

#define F_SOME(name)                                                               \
    FORTRAN(name, 6,                                                               \
        if (!outer()) { real(V6); return; }                                        \
        F_KEYS(a, b)                                                               \
        struct span span = enter();                                                \
        real(V6);                                                                  \
        int *which = d;                                                            \
        int ended = keys_count ? INT(c) : 0;                                       \
        for (int at = 0; at < ended; at++) charge_link(&keys[which[at] - 1], 1);   \
        leave(&span, WAIT, NULL, 0);                                               \
        for (int at = 0; at < ended; at++) complete(span, keys[which[at] - 1], -1, -1); \
        FREE_KEYS;)

FORTRAN(init, 1, depth++; real(a); begin_mpi(WORLD); depth--;)
FORTRAN(init_thread, 3, depth++; real(a, b, c); begin_mpi(WORLD); depth--;)
FORTRAN(finalize, 1, finished = true; end_mpi(); real(a);)
FORTRAN(abort, 3, aborted = true; abort_code = INT(b); end_mpi(); real(a, b, c);)
EXPORT double mpi_wtime_(void) { return MPI_Wtime(); }
EXPORT double mpi_wtime__(void) { return MPI_Wtime(); }
EXPORT void mpi_pcontrol_(A a) { MPI_Pcontrol(INT(a)); }

F_SEND(send)
F_SEND(ssend)
F_SEND(rsend)
F_SEND(bsend)
F_START(isend, true, false)
F_START(issend, true, false)
F_START(irsend, true, false)
F_START(ibsend, true, false)
F_START(irecv, false, false)
F_START(send_init, true, true)
F_START(ssend_init, true, true)
F_START(rsend_init, true, true)
F_START(bsend_init, true, true)
F_START(recv_init, false, true)
FORTRAN(recv, 8, F_OUTER(8)
    real(V8);
    int64_t size = BYTES(b, c);
    link_delay(1, (double)size);
    leave(&span, POINT, comm_at(COMM(f)), size);
    message(span, COMM(f), INT(d), INT(e), false);)
FORTRAN(sendrecv, 13, F_OUTER(13)
    real(V13);
    int64_t size = BYTES(g, h);
    link_delay(1, (double)size);
    leave(&span, POINT, comm_at(COMM(k)), size + BYTES(b, c));
    message(span, COMM(k), INT(d), INT(e), true);
    message(span, COMM(k), INT(i), INT(j), false);)
FORTRAN(sendrecv_replace, 10, F_OUTER(10)
    real(V10);
    int64_t size = BYTES(b, c);
    link_delay(1, (double)size);
    leave(&span, POINT, comm_at(COMM(h)), 2 * size);
    message(span, COMM(h), INT(d), INT(e), true);
    message(span, COMM(h), INT(f), INT(g), false);)
F_TIMED(probe, 5, POINT, comm_at(COMM(c)), 0)
F_TIMED(iprobe, 6, POINT, comm_at(COMM(c)), 0)
F_TIMED(mprobe, 6, POINT, comm_at(COMM(c)), 0)
F_TIMED(improbe, 7, POINT, comm_at(COMM(c)), 0)
F_TIMED(mrecv, 6, POINT, NULL, BYTES(b, c))
F_TIMED(imrecv, 6, POINT, NULL, BYTES(b, c))

FORTRAN(wait, 3,
    if (!outer()) { real(V3); return; }
    uint64_t key = REQUEST(a);
    struct span span = enter();
    real(V3);
    charge_link(&key, 1);
    leave(&span, WAIT, NULL, 0);
    complete(span, key, -1, -1);)
FORTRAN(test, 4,
    if (!outer()) { real(V4); return; }
    uint64_t key = REQUEST(a);
    struct span span = enter();
    real(V4);
    if (INT(b)) charge_link(&key, 1);
    leave(&span, WAIT, NULL, 0);
    if (INT(b)) complete(span, key, -1, -1);)
F_ALL(waitall, 4, true)
F_ALL(testall, 5, INT(c))
F_ANY(waitany, 5, true)
F_ANY(testany, 6, INT(d))
F_SOME(waitsome)
F_SOME(testsome)
F_TIMED(request_get_status, 4, WAIT, NULL, 0)
FORTRAN(start, 2, F_OUTER(2)
    real(V2);
    started(&span, &(uint64_t){REQUEST(a)}, 1);)
FORTRAN(startall, 3, F_OUTER(3)
    F_KEYS(a, b)
    real(V3);
    started(&span, keys, keys_count);
    FREE_KEYS;)
FORTRAN(request_free, 2,
    if (!outer()) { real(V2); return; }
    uint64_t key = REQUEST(a);
    real(V2);
    forget_request(key);)

F_COLLECT(barrier, 2, ALL_TO_ALL, -1, a, false, 0)
F_COLLECT(bcast, 6, FROM_ROOT, INT(d), e, false, INT(d) < 0 ? 0 : BYTES(b, c))
F_COLLECT(scatter, 9, FROM_ROOT, INT(g), h, false, 0)
F_COLLECT(scatterv, 10, FROM_ROOT, INT(h), i, false, 0)
F_COLLECT(gather, 9, TO_ROOT, INT(g), h, false, 0)
F_COLLECT(gatherv, 10, TO_ROOT, INT(h), i, false, 0)
F_COLLECT(reduce, 8, TO_ROOT, INT(f), g, false, INT(f) < 0 ? 0 : BYTES(c, d))
F_COLLECT(allreduce, 7, ALL_TO_ALL, -1, f, true, BYTES(c, d))
F_COLLECT(allgather, 8, ALL_TO_ALL, -1, g, false, BYTES(e, f) * (at ? at->size : 1))
F_COLLECT(allgatherv, 9, ALL_TO_ALL, -1, h, false, sum_int(e, at ? at->size : 0, TYPE(g)))
F_COLLECT(alltoall, 8, ALL_TO_ALL, -1, g, false, BYTES(e, f) * (at ? at->size : 1))
F_COLLECT(alltoallv, 10, ALL_TO_ALL, -1, i, false, sum_int(f, at ? at->size : 0, TYPE(h)))
F_COLLECT(alltoallw, 10, ALL_TO_ALL, -1, i, false, 0)
F_COLLECT(reduce_scatter, 7, ALL_TO_ALL, -1, f, false, sum_int(c, at ? at->size : 0, TYPE(d)))
F_COLLECT(reduce_scatter_block, 7, ALL_TO_ALL, -1, f, false, BYTES(c, d) * (at ? at->size : 1))
F_TIMED(scan, 7, COLLECTIVE, comm_at(COMM(f)), BYTES(c, d))
F_TIMED(exscan, 7, COLLECTIVE, comm_at(COMM(f)), BYTES(c, d))
F_TIMED(iscan, 8, COLLECTIVE, comm_at(COMM(f)), BYTES(c, d))
F_TIMED(iexscan, 8, COLLECTIVE, comm_at(COMM(f)), BYTES(c, d))
F_TIMED(neighbor_allgather, 8, COLLECTIVE, comm_at(COMM(g)), BYTES(b, c))
F_TIMED(neighbor_allgatherv, 9, COLLECTIVE, comm_at(COMM(h)), BYTES(b, c))
F_TIMED(neighbor_alltoall, 8, COLLECTIVE, comm_at(COMM(g)), BYTES(b, c))
F_TIMED(neighbor_alltoallv, 10, COLLECTIVE, comm_at(COMM(i)), 0)
F_TIMED(neighbor_alltoallw, 10, COLLECTIVE, comm_at(COMM(i)), 0)
F_TIMED(ineighbor_allgather, 9, COLLECTIVE, comm_at(COMM(g)), BYTES(b, c))
F_TIMED(ineighbor_allgatherv, 10, COLLECTIVE, comm_at(COMM(h)), BYTES(b, c))
F_TIMED(ineighbor_alltoall, 9, COLLECTIVE, comm_at(COMM(g)), BYTES(b, c))
F_TIMED(ineighbor_alltoallv, 11, COLLECTIVE, comm_at(COMM(i)), 0)
F_START_COLLECT(ibarrier, 3, ALL_TO_ALL, -1, a, b)
F_START_COLLECT(ibcast, 7, FROM_ROOT, INT(d), e, f)
F_START_COLLECT(ireduce, 9, TO_ROOT, INT(f), g, h)
F_START_COLLECT(iallreduce, 8, ALL_TO_ALL, -1, f, g)
F_START_COLLECT(iallgather, 9, ALL_TO_ALL, -1, g, h)
F_START_COLLECT(iallgatherv, 10, ALL_TO_ALL, -1, h, i)
F_START_COLLECT(ialltoall, 9, ALL_TO_ALL, -1, g, h)
F_START_COLLECT(ialltoallv, 11, ALL_TO_ALL, -1, i, j)
F_START_COLLECT(ialltoallw, 11, ALL_TO_ALL, -1, i, j)
F_START_COLLECT(ireduce_scatter, 8, ALL_TO_ALL, -1, f, g)
F_START_COLLECT(ireduce_scatter_block, 8, ALL_TO_ALL, -1, f, g)
F_START_COLLECT(igatherv, 11, TO_ROOT, INT(h), i, j)
F_START_COLLECT(iscatterv, 11, FROM_ROOT, INT(h), i, j)
F_START_COLLECT(igather, 10, TO_ROOT, INT(g), h, i)
F_START_COLLECT(iscatter, 10, FROM_ROOT, INT(g), h, i)

F_MAKE_COMM(comm_dup, 3, a, b)
F_MAKE_COMM(comm_split, 5, a, d)
F_MAKE_COMM(comm_split_type, 6, a, e)
F_MAKE_COMM(comm_create, 4, a, c)
F_MAKE_COMM(cart_create, 7, a, f)
F_MAKE_COMM(cart_sub, 4, a, c)
F_MAKE_COMM(comm_dup_with_info, 4, a, c)
F_MAKE_COMM(graph_create, 7, a, f)
F_MAKE_COMM(dist_graph_create, 10, a, i)
F_MAKE_COMM(dist_graph_create_adjacent, 11, a, j)
F_TIMED(comm_create_group, 5, COLLECTIVE, comm_at(COMM(a)), 0)
F_TIMED(comm_idup, 4, COLLECTIVE, comm_at(COMM(a)), 0)
F_TIMED(intercomm_create, 7, COLLECTIVE, comm_at(COMM(a)), 0)
F_TIMED(intercomm_merge, 4, COLLECTIVE, comm_at(COMM(a)), 0)
FORTRAN(comm_free, 2,
    if (!outer()) { real(V2); return; }
    MPI_Comm old = COMM(a);
    struct span span = enter();
    real(V2);
    leave(&span, COLLECTIVE, NULL, 0);
    forget_comm(old);)

F_TIMED(put, 9, ONE_SIDED, NULL, BYTES(b, c))
F_TIMED(get, 9, ONE_SIDED, NULL, BYTES(b, c))
F_TIMED(accumulate, 10, ONE_SIDED, NULL, BYTES(b, c))
F_TIMED(rput, 10, ONE_SIDED, NULL, BYTES(b, c))
F_TIMED(rget, 10, ONE_SIDED, NULL, BYTES(b, c))
F_TIMED(raccumulate, 11, ONE_SIDED, NULL, BYTES(b, c))
F_TIMED(get_accumulate, 13, ONE_SIDED, NULL, BYTES(e, f))
F_TIMED(fetch_and_op, 8, ONE_SIDED, NULL, bytes_of(1, TYPE(c)))
F_TIMED(compare_and_swap, 8, ONE_SIDED, NULL, bytes_of(1, TYPE(d)))
F_TIMED(win_create, 7, ONE_SIDED, comm_at(COMM(e)), 0)
F_TIMED(win_allocate, 7, ONE_SIDED, comm_at(COMM(d)), 0)
F_TIMED(win_allocate_shared, 7, ONE_SIDED, comm_at(COMM(d)), 0)
F_TIMED(win_create_dynamic, 4, ONE_SIDED, comm_at(COMM(b)), 0)
F_TIMED(win_free, 2, ONE_SIDED, NULL, 0)
F_TIMED(win_test, 3, ONE_SIDED, NULL, 0)
F_TIMED(win_sync, 2, ONE_SIDED, NULL, 0)
F_TIMED(win_flush_local, 3, ONE_SIDED, NULL, 0)
F_TIMED(win_flush_local_all, 2, ONE_SIDED, NULL, 0)
F_TIMED(win_fence, 3, ONE_SIDED, NULL, 0)
F_TIMED(win_start, 4, ONE_SIDED, NULL, 0)
F_TIMED(win_complete, 2, ONE_SIDED, NULL, 0)
F_TIMED(win_post, 4, ONE_SIDED, NULL, 0)
F_TIMED(win_wait, 2, ONE_SIDED, NULL, 0)
F_TIMED(win_lock, 5, ONE_SIDED, NULL, 0)
F_TIMED(win_unlock, 3, ONE_SIDED, NULL, 0)
F_TIMED(win_lock_all, 3, ONE_SIDED, NULL, 0)
F_TIMED(win_unlock_all, 2, ONE_SIDED, NULL, 0)
F_TIMED(win_flush, 3, ONE_SIDED, NULL, 0)
F_TIMED(win_flush_all, 2, ONE_SIDED, NULL, 0)

F_TIMED(file_open, 7, IO, NULL, 0)  /* the last one is the length of the name */
F_TIMED(file_close, 2, IO, NULL, 0)
F_TIMED(file_sync, 2, IO, NULL, 0)
F_TIMED(file_set_view, 8, IO, NULL, 0)  /* likewise */
F_TIMED(file_read, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_read_all, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_read_at, 7, IO, NULL, BYTES(d, e))
F_TIMED(file_read_at_all, 7, IO, NULL, BYTES(d, e))
F_TIMED(file_write, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_write_all, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_write_at, 7, IO, NULL, BYTES(d, e))
F_TIMED(file_write_at_all, 7, IO, NULL, BYTES(d, e))
F_TIMED(file_read_shared, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_write_shared, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_read_ordered, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_write_ordered, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_iread, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_iwrite, 6, IO, NULL, BYTES(c, d))
F_TIMED(file_iread_at, 7, IO, NULL, BYTES(d, e))
F_TIMED(file_iwrite_at, 7, IO, NULL, BYTES(d, e))
F_TIMED(file_seek, 4, IO, NULL, 0)
F_TIMED(file_set_size, 3, IO, NULL, 0)
