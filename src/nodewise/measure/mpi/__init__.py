"""Any MPI program, unmodified: which MPI it uses, a library on PMPI that is preloaded into it."""
