# ruff: noqa: E501 (lines as they were printed)
"""Excerpts of LAMMPS, GROMACS, OpenFOAM, HPCG, Quantum ESPRESSO, mpiP and Slurm; see real_logs.py."""

from .log_sample import Sample

SAMPLES = (
    Sample(
        "lammps-2016", "github.com/lammps/lammps/pull/124",
        "LAMMPS (15 May 2015-ICMS)\n"
        "Loop time of 120.903 on 1 procs for 1000 steps with 7018 atoms\n\n"
        "Performance: 5.717 ns/day, 4.198 hours/ns, 8.271 timesteps/s\n"
        "99.3% CPU use with 1 MPI tasks x no OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 103.35     | 103.35     | 103.35     |   0.0 | 85.48\n"
        "Bond    | 1.095      | 1.095      | 1.095      |   0.0 |  0.91\n"
        "Kspace  | 4.3415     | 4.3415     | 4.3415     |   0.0 |  3.59\n"
        "Neigh   | 7.2393     | 7.2393     | 7.2393     |   0.0 |  5.99\n"
        "Comm    | 1.1778     | 1.1778     | 1.1778     |   0.0 |  0.97\n"
        "Output  | 0.0020359  | 0.0020359  | 0.0020359  |   0.0 |  0.00\n"
        "Modify  | 2.9979     | 2.9979     | 2.9979     |   0.0 |  2.48\n"
        "Other   |            | 0.6963     |            |       |  0.58\n",
        {"iterations": 1000, "world_size": 1, "run_s": 120.903, "mean_step_s": 0.120903,
         "compute": 119.0236, "communication": 1.1778, "idle": 0.0},
    ),
    Sample(
        "lammps-openmp-line", "lammps/lammps finish.cpp of 2011 (line), figures made up",
        "LAMMPS (3 Nov 2011)\n"
        "Loop time of 12.5 on 16 procs (4 MPI x 4 OpenMP) for 100 steps with 32000 atoms\n\n"
        "Pair  time (%) = 9.5 (76)\nNeigh time (%) = 1.1 (8.8)\nComm  time (%) = 1.5 (12)\n"
        "Outpt time (%) = 0.1 (0.8)\nOther time (%) = 0.3 (2.4)\n",
        {"iterations": 100, "world_size": 4, "run_s": 12.5, "mean_step_s": 0.125},
    ),
    Sample(
        "gromacs-resethway", "a course on clusters, GROMACS lignocellulose on 24 ranks",
        "                      :-) GROMACS - mdrun_mpi, 2021.3 (-:\n"
        "Command line:\n  mdrun_mpi -s lignocellulose-rf.tpr -v -noconfout -resethway -nsteps "
        "100000 -ntomp 1\n"
        "Using 24 MPI processes\n"
        "Overriding nsteps with value passed on the command line: 100000 steps, 200 ps\n"
        "step 50000: resetting all time and cycle counters\n"
        "     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\nOn 24 MPI ranks\n\n"
        " Computing:          Num   Num      Call    Wall time         Giga-Cycles\n"
        "                     Ranks Threads  Count      (s)         total sum    %\n"
        "-----------------------------------------------------------------------------\n"
        " Domain decomp.        24    1       1429      98.509       6132.741   1.1\n"
        " DD comm. load         24    1       1267       0.448         27.871   0.0\n"
        " DD comm. bounds       24    1       1258       2.903        180.728   0.0\n"
        " Neighbor search       24    1       1429     473.238      29461.591   5.5\n"
        " Comm. coord.          24    1      48572      93.771       5837.779   1.1\n"
        " Force                 24    1      50001    7330.733     456377.656  85.6\n"
        " Wait + Comm. F        24    1      50001     144.688       9007.583   1.7\n"
        " NB X/F buffer ops.    24    1     147145      85.305       5310.667   1.0\n"
        " Update                24    1      50001     107.475       6690.889   1.3\n"
        " Constraints           24    1      50001     217.162      13519.503   2.5\n"
        " Comm. energies        24    1       1859       8.911        554.733   0.1\n"
        " Rest                                           5.407        336.642   0.1\n"
        "-----------------------------------------------------------------------------\n"
        " Total                                       8568.549     533438.384 100.0\n"
        "-----------------------------------------------------------------------------\n\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:   205645.180     8568.549     2400.0\n"
        "                         2h22:48\n                 (ns/day)    (hour/ns)\n"
        "Performance:        1.008       23.801\nFinished mdrun on rank 0 Tue Oct 19 00:37:41 2021\n",
        {"world_size": 24, "run_s": 8568.549, "mean_step_s": 0.17137, "iterations": 50000,
         "communication": 250.721},
    ),
    Sample(
        "gromacs-pme-ranks-gpu", "a log of GROMACS 2025 with two PP and two PME ranks",
        "                      :-) GROMACS - gmx mdrun, 2025.3 (-:\n"
        "   nsteps                         = 50000\n"
        " Part of the total run time spent waiting due to load imbalance: 0.4%.\n"
        " Part of the total run time spent waiting due to PP/PME imbalance: 27.3 %\n"
        "      R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\n"
        "On 2 MPI ranks doing PP, each using 5 OpenMP threads, and\n"
        "on 2 MPI ranks doing PME, each using 5 OpenMP threads\n\n"
        " Activity:              Num   Num      Call    Wall time         Giga-Cycles\n"
        "                        Ranks Threads  Count      (s)         total sum    %\n"
        "--------------------------------------------------------------------------------\n"
        " Domain decomp.            2    5        626       4.702        117.214   5.9\n"
        " DD comm. load             2    5          2       0.000          0.001   0.0\n"
        " Send X to PME             2    5      50001       1.177         29.335   1.5\n"
        " Neighbor search           2    5        626       2.383         59.397   3.0\n"
        " Launch PP GPU ops.        2    5     198752       3.386         84.404   4.3\n"
        " Comm. coord.              2    5      49375       3.146         78.432   4.0\n"
        " Force                     2    5      50001      14.290        356.268  18.0\n"
        " Wait + Comm. F            2    5      50001       6.226        155.224   7.8\n"
        " PME GPU mesh *            2    5      50001      20.514        511.429  25.9\n"
        " PME wait for PP *                                19.173        477.988  24.2\n"
        " Wait + Recv. PME F        2    5      50001       1.489         37.117   1.9\n"
        " Wait GPU state copy       2    5     160378       1.145         28.545   1.4\n"
        " Write traj.               2    5          1       0.170          4.242   0.2\n"
        " GPU constr. setup         2    5        626       0.359          8.948   0.5\n"
        " Kinetic energy            2    5      10001       0.440         10.959   0.6\n"
        " Comm. energies            2    5       5001       0.264          6.576   0.3\n"
        " Rest                                              0.452         11.269   0.6\n"
        "--------------------------------------------------------------------------------\n"
        " Total                                            39.677       1978.320 100.0\n"
        "--------------------------------------------------------------------------------\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:      793.010       39.677     1998.7\n"
        "                 (ns/day)    (hour/ns)\nPerformance:      217.764        0.110\n",
        {"world_size": 4, "run_s": 39.677, "mean_step_s": 0.00079354, "iterations": 50000},
    ),
    Sample(
        "gromacs-4.6-pme-nodes", "a log of GROMACS 4.6 with 12 PP and 8 PME nodes",
        "                         :-)  G  R  O  M  A  C  S  (-:\n"
        "Using 20 MPI processes\n   nsteps               = 14097250\n"
        "     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\n"
        " Computing:         Nodes   Th.     Count  Wall t (s)     G-Cycles       %\n"
        "-----------------------------------------------------------------------------\n"
        " Domain decomp.        12    1    1409726    1559.595    46674.451     0.2\n"
        " DD comm. load         12    1    1409725       9.392      281.081     0.0\n"
        " DD comm. bounds       12    1    1409725      26.122      781.771     0.0\n"
        " Send X to PME         12    1   14097251     325.825     9751.048     0.0\n"
        " Neighbor search       12    1    1409726   13027.650   389882.279     1.3\n"
        " Comm. coord.          12    1   14097251    1353.895    40518.419     0.1\n"
        " Force                 12    1   14097251  512370.427 15333859.409    50.8\n"
        " Wait + Comm. F        12    1   14097251   69387.393  2076576.779     6.9\n"
        " PME mesh               8    1   14097251   49020.179   978027.471     3.2\n"
        " PME wait for PP        8                  555794.152 11088942.613    36.8\n"
        " Wait + Recv. PME F    12    1   14097251     270.195     8086.218     0.0\n"
        " Write traj.           12    1      28854      35.819     1071.970     0.0\n"
        " Update                12    1   14097251     536.188    16046.663     0.1\n"
        " Constraints           12    1   28194502    3057.494    91502.506     0.3\n"
        " Comm. energies        12    1   28194502    1206.574    36109.506     0.1\n"
        " Rest                  12                     988.678    49314.070     0.2\n"
        "-----------------------------------------------------------------------------\n"
        " Total                 20                  604814.352 30167426.251   100.0\n"
        "-----------------------------------------------------------------------------\n\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time: 12034240.000   604814.352     1989.7\n                         6d23h59:11\n"
        "                 (ns/day)    (hour/ns)\nPerformance:        4.028        5.958\n",
        {"world_size": 20, "run_s": 604814.352, "iterations": 14097250, "mean_step_s": 0.0429030},
    ),
    Sample(
        "hpcg-3.0", "ubccr application kernels, HPCG 3.0 on 8 processes",
        "HPCG result is VALID with a GFLOP/s rating of 3.289080\n"
        "n104-8p-1t version: V3.0\nMachine Summary: \n  Distributed Processes: 8\n  Threads per "
        "processes: 1\nGlobal Problem Dimensions: \n  Global nx: 208\n  Global ny: 208\n  Global "
        "nz: 208\nLocal Domain Dimensions: \n  nx: 104\n  ny: 104\n  nz: 104\n"
        "Iteration Count Information: \n  Result: PASSED\n  Reference CG iterations per set: 50\n"
        "  Optimized CG iterations per set: 50\n  Total number of reference iterations: 50\n"
        "  Total number of optimized iterations: 50\n"
        "Benchmark Time Summary: \n  Optimization phase: 2.45575\n  DDOT: 0.146045\n  WAXPBY: "
        "0.157862\n  SpMV: 6.83073\n  MG: 33.8221\n  ALL_reduce: 9.3723\n  Total: 50.3291\n"
        "Floating Point Operations Summary: \n  Raw DDOT: 2.71767e+09\n  Total: 1.67111e+11\n"
        "__________ Final Summary __________: \n"
        "  HPCG result is VALID with a GFLOP/s rating of: 3.28908\n"
        "  Results are valid but execution time (sec) is: 50.3291\n",
        {"world_size": 8, "run_s": 50.3291, "iterations": 50, "mean_step_s": 1.006582},
    ),
    Sample(
        "openfoam-parallel", "github.com/turbinesFoam/turbinesFoam/issues/96",
        "nProcs : 2\n"
        + "".join(f"Time = {at}\nExecutionTime = {cpu} s  ClockTime = {wall} s\n\n"
                  for at, cpu, wall in ((96, 509.1, 693), (97, 514.2, 700), (98, 519.5, 707)))
        + "\nSIMPLE solution converged in 98 iterations\n\nEnd\n\nFinalising parallel run\n",
        {"world_size": 2, "run_s": 707.0},
    ),
    Sample(
        "espresso-two-nodes", "uc-eri documentation, pw.x on two nodes",
        "     Program PWSCF v.7.2 starts on  8Mar2024 at 13:18:37 \n\n"
        "     Parallel version (MPI & OpenMP), running on       4 processor cores\n"
        "     Number of MPI processes:                 4\n"
        "     Threads/MPI process:                     1\n\n"
        "     MPI processes distributed on     2 nodes\n"
        "     K-points division:     npool     =       4\n"
        "     PWSCF        :     1.17s CPU         1.36s WALL\n\n"
        "   This run was terminated on:  13:18:38   8Mar2024\n"
        "=------------------------------------------------------------------------------=\n"
        "   JOB DONE.\n",
        {"world_size": 4, "nodes": 2, "run_s": 1.36},
    ),
    Sample(
        "espresso-minutes", "a course on molecular dynamics, pw.x",
        "     Program PWSCF v.7.5 starts on 22Sep2026 at 22:38:22 \n"
        "     Parallel version (MPI), running on     8 processors\n"
        "     fftw         :    306.57s CPU    311.40s WALL (  645522 calls)\n \n"
        "     Parallel routines\n \n     PWSCF        :  10m 1.45s CPU  10m14.91s WALL\n\n \n"
        "   This run was terminated on:  22:48:37  22Sep2026            \n   JOB DONE.\n",
        {"world_size": 8, "run_s": 614.91, "nodes": None},
    ),
    Sample(
        "mpip-three-tasks", "eth-cscs hpctools, report of mpiP 3.4.2",
        "@ mpiP\n@ Command : ./sqpatch.exe\n@ Version                  : 3.4.2\n"
        "@ MPI Task Assignment      : 0 nid00001\n@ MPI Task Assignment      : 1 nid00001\n"
        "@ MPI Task Assignment      : 2 nid00001\n"
        "---------------------------------------------------------------------------\n"
        "@--- MPI Time (seconds) ---------------------------------------------------\n"
        "---------------------------------------------------------------------------\n"
        "Task    AppTime    MPITime     MPI%\n"
        "   0        8.6      0.121     1.40\n   1        8.6      0.157     1.82\n"
        "   2        8.6       5.92    68.84\n   *       25.8        6.2    24.02\n"
        "---------------------------------------------------------------------------\n"
        "@--- Callsites: 8 ---------------------------------------------------------\n"
        " ID Lev File/Address        Line Parent_Funct             MPI_Call\n",
        {"world_size": 3, "nodes": 1, "run_s": 8.6},
    ),
    Sample(
        "seff-one-core", "Digital Research Alliance of Canada, seff",
        "Job ID: 12345678\nCluster: cedar\nUser/Group: jsmith/jsmith\nState: COMPLETED (exit code 0)"
        "\nCores: 1\nCPU Utilized: 02:48:58\nCPU Efficiency: 99.72% of 02:49:26 core-walltime\nJob "
        "Wall-clock time: 02:49:26\nMemory Utilized: 213.85 MB\nMemory Efficiency: 0.17% of 125.00 "
        "GB\n",
        {"nodes": 1, "run_s": 10166.0},
    ),
    Sample(
        "seff-two-nodes-days", "University of Washington, seff; the time made longer",
        "$ seff 18981\nJob ID: 18981\nCluster: tillicum\nUser/Group: UWNetID/account\nState: "
        "COMPLETED (exit code 0)\nNodes: 2\nCores per node: 8\nCPU Utilized: 00:00:00\nCPU "
        "Efficiency: 0.00% of 15-13:31:28 core-walltime\nJob Wall-clock time: 1-00:26:03\nMemory "
        "Utilized: 5.78 MB\n",
        {"nodes": 2, "run_s": 87963.0},
    ),
    Sample(
        "sacct-bars-around", "eth-cscs, energy of a job with sacct",
        "|JobID       |Cluster|ConsumedEnergyRaw|ConsumedEnergy|AllocTRES|ElapsedRaw|Elapsed |Start"
        "              |JobName     |NCPUS|AllocNodes|NNodes|NTasks|Partition|State    |\n"
        "|------------|-------|-----------------|--------------|---------|----------|--------|-----"
        "--------------|------------|-----|----------|------|------|---------|---------|\n"
        "|38113       |santis |20543125         |20.54M        |node=4   |2102      |00:35:02|2024-"
        "03-15-20:24:16|eff.slm     |1152 |4         |4     |      |normal   |COMPLETED|\n"
        "|38113.batch |santis |5094129          |5.09M         |node=1   |2102      |00:35:02|2024-"
        "03-15-20:24:16|batch       |288  |1         |1     |1     |         |COMPLETED|\n"
        "|38113.extern|santis |20543125         |20.54M        |node=4   |2102      |00:35:02|2024-"
        "03-15-20:24:16|extern      |1152 |4         |4     |4     |         |COMPLETED|\n",
        {"nodes": 4, "run_s": 2102.0, "energy": 20543125.0},
        "sacct.txt",
    ),
    Sample(
        "sacct-tres-nodes", "edulution tests, sacct -p with AllocTRES and no NNodes",
        "JobID|JobIDRaw|JobName|Partition|NTasks|AllocCPUS|Elapsed|State|ExitCode|ConsumedEnergy|"
        "ReqTRES|AllocTRES|\n"
        "1671879_1|1671879|mock|short||64|00:12:30|COMPLETED|0:0||cpu=64,mem=16000M,node=2|cpu=64,"
        "mem=16000M,node=2|\n"
        "1671879_1.batch|1671879.batch|batch||1|32|00:12:30|COMPLETED|0:0|||cpu=32,node=1|\n",
        {"nodes": 2, "run_s": 750.0, "energy": None},
        "sacct.txt",
    ),
    Sample(
        "sacct-energy-only", "ARCHER2 documentation, sacct without nodes",
        "JobID           Elapsed ReqCPUFreq ConsumedEnergy \n"
        "------------ ---------- ---------- -------------- \n"
        "2658300        02:19:48    Unknown          4.58M \n"
        "2658300.bat+   02:19:48          0          4.58M \n"
        "2658300.0      02:19:09    Unknown          4.57M \n",
        {"nodes": None, "world_size": None},
        "sacct.txt",
    ),
    Sample(
        "lammps-threads-in-procs", "CWRU course, LAMMPS on two ranks with four threads each",
        "Loop time of 70.3225 on 8 procs for 20000 steps with 32000 atoms\n\n"
        "Performance: 122862.469 tau/day, 284.404 timesteps/s\n"
        "174.9% CPU use with 2 MPI tasks x 4 OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 40.727     | 46.52      | 52.314     |  84.9 | 66.15\n"
        "Neigh   | 8.3883     | 9.2729     | 10.158     |  29.1 | 13.19\n"
        "Comm    | 4.8284     | 11.652     | 18.475     | 199.9 | 16.57\n"
        "Output  | 0.018626   | 0.018923   | 0.019219   |   0.2 |  0.03\n"
        "Modify  | 2.6517     | 2.7955     | 2.9394     |   8.6 |  3.98\n"
        "Other   |            | 0.0631     |            |       |  0.09\n",
        {"iterations": 20000, "world_size": 2, "run_s": 70.3225, "mean_step_s": 0.003516125,
         "compute": 58.5884, "communication": 4.829, "idle": 6.823, "nodes": None},
    ),
    Sample(
        "lammps-hyperthreads", "notes for a student cluster competition, LAMMPS with Intel package",
        "Loop time of 0.081764 on 112 procs for 100 steps with 32000 atoms\n\n"
        "Performance: 528349.811 tau/day, 1223.032 timesteps/s\\\n"
        "97.1% CPU use with 56 MPI tasks x 2 OpenMP threads\\\n",
        {"iterations": 100, "world_size": 56, "run_s": 0.081764, "nodes": None},
    ),
    Sample(
        "lammps-no-cpu-use-line", "github.com/lammps/lammps/pull/4796, a test with four threads",
        "60: LAMMPS (10 Sep 2025 - Development)\n60: KOKKOS mode with Kokkos version 4.7.1 is enabled\n"
        "60:   1 by 1 by 1 MPI processor grid\n60: Created 8 atoms\n"
        "60:    Step          Temp          E_pair\n"
        "60: Loop time of 5.36e-06 on 4 procs for 5 steps with 8 atoms\n60: \n"
        "60: Total wall time: 0:00:00\n",
        {"iterations": 5, "world_size": 1, "run_s": 5.36e-06},
    ),
    Sample(
        "lammps-192-ranks", "a benchmark of ReaxFF on one node of 192 cores",
        "       100   302.48622     -113.28501      10463.506     -111.58627     -1.6987438\n"
        "Loop time of 37.0552 on 192 procs for 100 steps with 622592 atoms\n\n"
        "Performance: 0.023 ns/day, 1029.311 hours/ns, 2.699 timesteps/s, 1.680 Matom-step/s\n"
        "99.9% CPU use with 192 MPI tasks x 1 OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 20.653     | 23.087     | 25.919     |  20.5 | 62.30\n"
        "Neigh   | 0.36974    | 0.37636    | 0.3904     |   0.6 |  1.02\n"
        "Comm    | 0.043263   | 2.4378     | 5.2333     |  65.7 |  6.58\n"
        "Output  | 0.0013471  | 0.11683    | 0.28654    |  20.5 |  0.32\n"
        "Modify  | 10.7       | 11.035     | 11.913     |  10.9 | 29.78\n"
        "Other   |            | 0.002731   |            |       |  0.01\n",
        {"iterations": 100, "world_size": 192, "run_s": 37.0552, "compute": 34.49836},
    ),
    Sample(
        "lammps-gpu-one-rank", "github.com/ROCm/legacy-rocm-build/issues/851",
        "Loop time of 0.0829411 on 1 procs for 250 steps with 4000 atoms\n\n"
        "Performance: 1302129.562 tau/day, 3014.189 timesteps/s\n"
        "89.7% CPU use with 1 MPI tasks x no OpenMP threads\n\nMPI task timing breakdown:\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "Pair    | 0.063057   | 0.063057   | 0.063057   |   0.0 | 76.03\n"
        "Neigh   | 9.5367e-07 | 9.5367e-07 | 9.5367e-07 |   0.0 |  0.00\n"
        "Comm    | 0.0095906  | 0.0095906  | 0.0095906  |   0.0 | 11.56\n"
        "Output  | 0.00012898 | 0.00012898 | 0.00012898 |   0.0 |  0.16\n"
        "Modify  | 0.0081568  | 0.0081568  | 0.0081568  |   0.0 |  9.83\n"
        "Other   |            | 0.002007   |            |       |  2.42\n",
        {"iterations": 250, "world_size": 1, "run_s": 0.0829411, "communication": 0.0095906},
    ),
    Sample(
        "gromacs-gpu-2019", "an issue's log of December 2019, one rank with a GPU",
        "                      :-) GROMACS - gmx mdrun, 2020-beta3 (-:\n"
        "   nsteps                         = 10000\n"
        "     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\nOn 1 MPI rank\n\n"
        " Computing:          Num   Num      Call    Wall time         Giga-Cycles\n"
        "                     Ranks Threads  Count      (s)         total sum    %\n"
        " Neighbor search        1    1        126       1.165          2.796  10.7\n"
        " Launch GPU ops.        1    1      20002       0.785          1.884   7.2\n"
        " Force                  1    1      10001       3.011          7.225  27.6\n"
        " Wait PME GPU gather    1    1      10001       0.068          0.163   0.6\n"
        " Reduce GPU PME F       1    1      10001       0.349          0.837   3.2\n"
        " Wait GPU NB local      1    1      10001       0.113          0.272   1.0\n"
        " NB X/F buffer ops.     1    1      19876       1.161          2.785  10.7\n"
        " Write traj.            1    1          1       0.051          0.123   0.5\n"
        " Update                 1    1      10001       0.738          1.771   6.8\n"
        " Constraints            1    1      10003       3.137          7.528  28.8\n"
        " Rest                                           0.312          0.749   2.9\n"
        " Total                                         10.889         26.133 100.0\n\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:       10.889       10.889      100.0\n                 (ns/day)    (hour/ns)\n"
        "Performance:      158.709        0.151\nFinished mdrun on rank 0 Sun Dec  8 12:18:40 2019\n",
        {"world_size": 1, "run_s": 10.889, "iterations": 10000, "mean_step_s": 0.0010889},
    ),
    Sample(
        "gromacs-screen", "notes on a simulation, the screen of gmx mdrun with 28 thread ranks",
        "GROMACS:      gmx mdrun, version 2021.4-Ubuntu-2021.4-2\nCommand line:\n"
        "  gmx mdrun -deffnm md_0_1\n\nUsing 28 MPI threads\n"
        "Using 1 OpenMP thread per tMPI thread\n\nstarting mdrun 'LIGASE in water'\n"
        "500000 steps,   1000.0 ps.\n\nWriting final coordinates.\n\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:  1508233.468    53865.481     2800.0\n                         14h57:45\n"
        "                 (ns/day)    (hour/ns)\nPerformance:        1.604       14.963\n",
        {"world_size": 28, "run_s": 53865.481, "iterations": 500000, "mean_step_s": 0.107731},
    ),
    Sample(
        "gromacs-screen-pods", "aws-samples, GROMACS as an MPIJob, the end of its log",
        "50000 steps,    100.0 ps.\n\nWriting final coordinates.\n\nDynamic load balancing report:\n"
        " Average load imbalance: 24.7%.\n"
        " Part of the total run time spent waiting due to load imbalance: 13.8%.\n"
        " Part of the total run time spent waiting due to PP/PME imbalance: 4.6 %\n\n"
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:     2971.865       41.276     7199.9\n"
        "                 (ns/day)    (hour/ns)\nPerformance:      209.325        0.115\n",
        {"world_size": None, "run_s": 41.276, "iterations": 50000, "mean_step_s": 0.00082552},
    ),
    Sample(
        "gromacs-end-only", "ARC benchmarks, GROMACS on four nodes, README",
        "               Core t (s)   Wall t (s)        (%)\n"
        "       Time:    75349.454      392.447    19199.9\n"
        "                 (ns/day)    (hour/ns)\nPerformance:        0.353       68.048\n",
        {"world_size": None, "run_s": 392.447, "iterations": None, "mean_step_s": None},
    ),
    Sample(
        "hpcg-3.1-quick", "openEuler RISC-V, HPCG 3.1 on eight ranks",
        "HPCG-Benchmark\nversion=3.1\nMachine Summary=\nMachine Summary::Distributed Processes=8\n"
        "Machine Summary::Threads per processes=1\nGlobal Problem Dimensions=\n"
        "Global Problem Dimensions::Global nx=32\nGlobal Problem Dimensions::Global ny=32\n"
        "Global Problem Dimensions::Global nz=32\nProcessor Dimensions::npx=2\n"
        "Local Domain Dimensions::nx=16\nSetup Information::Setup Time=0.11907\n"
        "Iteration Count Information::Total number of reference iterations=50\n"
        "Iteration Count Information::Total number of optimized iterations=50\n"
        "########## Performance Summary (times in sec) ##########=\nBenchmark Time Summary=\n"
        "Benchmark Time Summary::Optimization phase=1.8e-06\nBenchmark Time Summary::MG=0.478476\n"
        "Benchmark Time Summary::Total=0.592246\nFloating Point Operations Summary=\n"
        "Floating Point Operations Summary::Total=5.73995e+08\n"
        "GFLOP/s Summary::Raw Total=0.969184\n"
        "Final Summary::HPCG result is VALID with a GFLOP/s rating of=0.950083\n"
        "Final Summary::HPCG 2.4 rating for historical reasons is=0.969184\n"
        "Final Summary::Results are valid but execution time (sec) is=0.592246\n",
        {"world_size": 8, "run_s": 0.592246, "iterations": 50, "mean_step_s": 0.01184492},
    ),
    Sample(
        "openfoam-end-of-a-log", "a guide to OpenFOAM in a container: the last of 106 iterations",
        "smoothSolver:  Solving for k, Initial residual = 8.9986853e-05, Final residual = 5.65e-06, "
        "No Iterations 3\nExecutionTime = 3.16 s  ClockTime = 3 s\n\n\n"
        "SIMPLE solution converged in 106 iterations\n\nEnd\n\nFinalising parallel run\n",
        {"world_size": None, "iterations": None, "mean_step_s": None},
    ),
    Sample(
        "openfoam-unfinished", "github.com/gerlero/openfoam-app/issues/160",
        "Exec   : simpleFoam\nnProcs : 1\nTime = 278\n\n"
        "ExecutionTime = 5.13 s  ClockTime = 17 s\n\nTime = 279\n\n"
        "smoothSolver:  Solving for Ux, Initial residual = 0.000131491, Final residual = 1.27e-05\n",
        {"world_size": 1, "iterations": None, "run_s": None, "mean_step_s": None},
    ),
    Sample(
        "espresso-no-end", "github.com/QMCPACK/qmcpack/issues/2310",
        "     Program PWSCF v.6.4.1 starts on 14Feb2020 at 18:55:17 \n\n"
        "     Parallel version (MPI), running on    25 processors\n\n"
        "     MPI processes distributed on     1 nodes\n"
        "     R & G space division:  proc/nbgrp/npool/nimage =      25\n"
        "     Waiting for input...\n",
        {"world_size": 25, "nodes": 1, "run_s": None},
    ),
    Sample(
        "espresso-days", "a test of Quantum ESPRESSO for ReFrame: the form of its time",
        "     Program PWSCF v.6.8 starts on 14Feb2022 at 18:55:17 \n"
        "     Parallel version (MPI & OpenMP), running on     128 processor cores\n"
        "     Number of MPI processes:                64\n     Threads/MPI process:                     "
        "2\n     PWSCF        :   4d 6h19m CPU  10d14h38m WALL\n\n   JOB DONE.\n",
        {"world_size": 64, "run_s": 916680.0, "nodes": None},
    ),
    Sample(
        "mpip-shortened", "CSC documentation, mpiP with most of its tasks left out",
        "@ mpiP\n@ Command : ./TwoDMPIPFC\n@ Version                  : 3.4.1\n"
        "@ MPI Task Assignment      : 0 c1101.mahti.csc.fi\n"
        "@ MPI Task Assignment      : 1 c1101.mahti.csc.fi\n...\n"
        "@--- MPI Time (seconds) ---------------------------------------------------\n"
        "Task    AppTime    MPITime     MPI%\n   0       8.12       4.12    50.75\n"
        "   1       8.11        4.2    51.72\n   2       8.11       4.17    51.40\n   ...\n"
        "   *   2.08e+03   1.05e+03    50.36\n"
        "@--- Callsites: 8 ---------------------------------------------------------\n",
        {"world_size": None, "run_s": None},
    ),
    Sample(
        "seff-array", "a course of the SIB, seff of one task of an array",
        "Job ID: 7317012\nArray Job ID: 7317010_6\nCluster: ibu_main\nUser/Group: me/me\nState: "
        "COMPLETED (exit code 0)\nNodes: 1\nCores per node: 16\nCPU Utilized: 16:08:54\nCPU "
        "Efficiency: 4.32% of 15-13:31:28 core-walltime\nJob Wall-clock time: 23:20:43\nMemory "
        "Utilized: 32.29 GB\nMemory Efficiency: 50.45% of 64.00 GB\n",
        {"nodes": 1, "run_s": 84043.0},
    ),
    Sample(
        "seff-no-time", "WEHI course, seff of a job that ran out of memory at once",
        "Job ID: 12064697\nCluster: milton\nUser/Group: me/allstaff\nState: OUT_OF_MEMORY (exit code "
        "0)\nNodes: 1\nCores per node: 2\nCPU Utilized: 00:00:00\nCPU Efficiency: 0.00% of 00:00:00 "
        "core-walltime\nJob Wall-clock time: 00:00:00\nMemory Utilized: 0.00 MB\n",
        {"nodes": 1, "run_s": None},
    ),
    Sample(
        "seff-warning", "Tufts documentation, seff with a warning of Perl between its lines",
        "Job ID: 296794\nCluster: pax\nUse of uninitialized value $user in concatenation (.) or string "
        "at /usr/bin/seff line 154, <DATA> line 602.\nUser/Group: /tutln01\nState: COMPLETED (exit "
        "code 0)\nNodes: 1\nCores per node: 2\nCPU Utilized: 00:00:00\nJob Wall-clock time: 00:11:06\n",
        {"nodes": 1, "run_s": 666.0},
    ),
    Sample(
        "sacct-node-list", "a record of two array tasks, with NodeList and no NNodes",
        "JobID|JobName|State|ExitCode|Elapsed|NodeList\n"
        "6764460_0|headrebaseline|COMPLETED|0:0|00:06:43|uc2n853\n"
        "6764460_0.batch|batch|COMPLETED|0:0|00:06:43|uc2n853\n"
        "6764460_0.extern|extern|COMPLETED|0:0|00:06:43|uc2n853\n",
        {"nodes": 1, "run_s": 403.0, "world_size": None},
        "sacct.txt",
    ),
    Sample(
        "sacct-no-nodes", "a record of a CPU job, with AllocCPUS alone",
        "JobID|JobName|State|ExitCode|Elapsed|Start|End|AllocCPUS|ReqMem|SubmitLine\n"
        "12748|g0_cpu|COMPLETED|0:0|00:00:03|2026-07-11T12:00:07|2026-07-11T12:00:10|8|64G|sbatch "
        "scripts/g0_cpu.sbatch\n12748.batch|batch|COMPLETED|0:0|00:00:03|2026-07-11T12:00:07|2026-07-"
        "11T12:00:10|8||\n",
        {"nodes": None, "world_size": None, "run_s": None},
        "sacct.txt",
    ),
    Sample(
        "sacct-columns-user", "CSIRO course on Lightning, sacct in columns",
        "       JobID    JobName  Partition     User AllocCPUS NNodes    Elapsed   TotalCPU      State"
        "  MaxVMSize     MaxRSS     ReqMem        NodeList ReqGRES \n"
        "------------ ---------- ---------- -------- --------- ------ ---------- ---------- ---------- "
        "---------- ---------- ---------- --------------- -------      \n"
        "53685816          runv0      h2gpu    ident         5      1   00:01:30  02:55.122  COMPLETED "
        "                             4Gn            b004         \n"
        "53685816.ba+      batch                             5      1   00:01:30  00:00.050  COMPLETED "
        "   313560K     11204K        4Gn            b004         \n",
        {"nodes": 1, "run_s": 90.0},
        "sacct.txt",
    ),
    Sample(
        "ramble-hostname", "GoogleCloudPlatform/ramble, results of one experiment",
        '{"workspace_name": "test_ws", "experiments": [{"name": "hostname.local.test_exp", '
        '"RAMBLE_STATUS": "SUCCESS", "application_name": "hostname", "workload_name": "local", '
        '"RAMBLE_VARIABLES": {"n_nodes": "1", "n_ranks": "1", "repeat_index": "0"}, "CONTEXTS": '
        '[{"name": "null", "display_name": "null", "foms": [{"name": "runtime", "value": 1.23, '
        '"units": "s", "origin": "hostname", "origin_type": "application"}]}]}]}',
        {"nodes": 1, "world_size": 1, "run_s": 1.23},
        "results.latest.json",
    ),
)  # fmt: skip
