"""Which line of a log says why a run failed."""

import pytest

from nodewise.base.time_limit import time_limit
from nodewise.study.study import Run
from nodewise.study.telling_lines import failure, remedy, telling_line

SLOTS = """--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 4
slots that were requested by the application:

  lmp

Either request fewer procs for your application, or make more slots
available for use.
--------------------------------------------------------------------------
We reiterate our advice to use fewer processes on this
launch."""
MPICH = """step 1
Traceback (most recent call last):
  File "job.py", line 3, in <module>
    main()
ValueError: the mesh has no cells
Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4711 RUNNING AT vm
=   EXIT CODE: 1
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
==================================================================================="""
OPEN_MPI = """LAMMPS (29 Aug 2024)
ERROR: Unknown pair style lj/cutt (src/force.cpp:275)
Last command: pair_style lj/cutt 2.5
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
with errorcode 1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------"""
RECURSIVE = """
mpirun does not support recursive calls
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------"""
TORCH = """[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 9, in <module>
[rank0]: RuntimeError: shape mismatch
E1118 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0
Traceback (most recent call last):
  File "torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Root Cause (first observed failure):
  exitcode  : 1 (pid: 4711)"""
SEGFAULT = """starting
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 11 (Segmentation fault).
--------------------------------------------------------------------------"""
FOAM = """Time = 0.005
--> FOAM FATAL ERROR:
cannot find file "system/fvSchemes"

    From function Foam::IOobject::readOpt
FOAM exiting"""


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (SLOTS, "Open MPI has fewer slots than ranks: add --oversubscribe"),
        (MPICH, "ValueError: the mesh has no cells"),
        (OPEN_MPI, "ERROR: Unknown pair style lj/cutt (src/force.cpp:275)"),
        (TORCH, "[rank0]: RuntimeError: shape mismatch"),
        (SEGFAULT, "exited on signal 11 (Segmentation fault)"),
        (FOAM, '--> FOAM FATAL ERROR: cannot find file "system/fvSchemes"'),
        ("a\nbash: lmp: command not found\n= EXIT CODE: 127", "bash: lmp: command not found"),
        ("fine\nstill fine\n\n---", "still fine"),
        ("one\nInput is invalid\nbye", "Input is invalid"),
        (RECURSIVE, "the program starts mpirun itself"),
        (
            "trapFpe: Floating point exception trapping enabled (FOAM_SIGFPE).\n"
            "[0] --> FOAM FATAL ERROR: no case",
            "[0] --> FOAM FATAL ERROR: no case",
        ),
        (
            "no pivot\nsrun: Job step aborted: Waiting up to 5 seconds for job step to finish\n"
            "slurmstepd-node1: error: *** STEP 8.0 ON node1 CANCELLED AT 2026-11-18T20:47:52 ***",
            "no pivot",
        ),
        (
            "step 1\nslurmstepd: error: *** JOB 8 ON n1 CANCELLED AT noon DUE TO TIME LIMIT ***",
            "DUE TO TIME LIMIT",
        ),
        ("", ""),
        ("=====\n---", ""),
    ],
)
def test_the_cause_is_found_and_the_epilogue_is_not(log, says):
    found = telling_line(log.splitlines())
    assert says in found
    assert bool(found) == bool(says)


def test_a_long_line_is_cut():
    assert len(telling_line(["ValueError: " + "x" * 999])) == 200


def test_a_long_line_is_quickly_weighed():
    lines = ["assert " * 200_000, "elastic " * 200_000, "ValueError: no mesh"]
    with time_limit(60, AssertionError("quadratic")):
        assert telling_line(lines) == "ValueError: no mesh"


def test_the_advice_of_open_mpi_after_a_rank_without_finalize_adds_nothing():
    advice = """--------------------------------------------------------------------------
mpiexec has exited due to process rank 1 with PID 0 on
node vm exiting improperly. There are three reasons this could occur:

1. this process did not call "init" before exiting, but others in
the job did. This can cause a job to hang indefinitely while it waits
for all processes to call "init". By rule, if one process calls "init",
then ALL processes must call "init" prior to termination.

2. this process called "init", but exited without calling "finalize".
By rule, all processes that call "init" MUST call "finalize" prior to
exiting or it will be considered an "abnormal termination"

3. this process called "MPI_Abort" or "orte_abort" and the mca parameter
orte_create_session_dirs is set to false. In this case, the run-time cannot
detect that the abort call was an abnormal termination. Hence, the only
error message you will receive is this one.

This may have caused other processes in the application to be
terminated by signals sent by mpiexec (as reported here).

You can avoid this message by specifying -quiet on the mpiexec command line."""
    how = "exit code 1: rank 1 ended without MPI_Finalize"
    run = Run(nodes=2, round=1, seconds=1.0, outcome="crashed", detail=f"{how}\n{advice}")
    assert failure(run) == f"crashed: {how}"
    said = Run(
        nodes=2, round=1, seconds=1.0, outcome="crashed", detail=f"{how}\nno pivot\n{advice}"
    )
    assert failure(said) == f"crashed: {how}: no pivot"


def test_that_a_stopped_run_was_stopped_is_not_its_cause():
    detail = """stopped after 4 s: rank 1 never reached MPI_Finalize
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 15
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions"""
    run = Run(nodes=2, round=1, seconds=4.0, outcome="timeout", detail=detail)
    assert failure(run) == f"timeout: {detail.splitlines()[0]}"


@pytest.mark.parametrize(
    ("engine", "named"),
    [("local", "--engine torchrun"), ("rehearsal", 'launcher = "torchrun" under [engine.rehea')],
)
def test_a_torch_script_without_its_launcher_is_given_one(engine, named):
    said = "ValueError: rendezvous: environment variable RANK expected, but not set"
    runs = [
        Run(nodes=2, round=0, seconds=1.0, outcome="crashed", detail=f"exit code 1\n{line}",
            provenance={"engine": engine})
        for line in ("KeyError: 'x'", said)
    ]  # fmt: skip
    assert named in remedy(runs)
    assert remedy(runs[:1]) == "Correct the job"
