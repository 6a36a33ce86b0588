#!/bin/sh
# MPI programs for the tests (LAMMPS and HPCC, both with Open MPI), and compilers of both MPIs for C and Fortran.
found=yes
for program in lmp hpcc mpicc.openmpi mpif90.openmpi mpif90.mpich; do command -v $program >/dev/null || found=no; done
[ $found = yes ] && exit 0
"$(dirname "$0")"/apt.sh gcc libc6-dev gfortran libopenmpi-dev openmpi-bin libmpich-dev mpich lammps hpcc && exit 0
echo "No LAMMPS, HPCC or Open MPI here, so their tests are skipped. To run them: apt-get install gcc gfortran libopenmpi-dev libmpich-dev mpich lammps hpcc"
