program ring
  use mpi
  implicit none
  integer :: ierr, rank, n, step, req(2), left, right, sub
  double precision :: a(20000), b(20000), s, t
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, sub, ierr)
  left = mod(rank - 1 + n, n); right = mod(rank + 1, n)
  a = rank; t = 0
  do step = 1, 40
    call MPI_Irecv(b, 20000, MPI_DOUBLE_PRECISION, left, 5, sub, req(1), ierr)
    call MPI_Isend(a, 20000, MPI_DOUBLE_PRECISION, right, 5, sub, req(2), ierr)
    if (rank == 1) call work(3000000)
    call work(1000000)
    call MPI_Waitall(2, req, MPI_STATUSES_IGNORE, ierr)
    call MPI_Allreduce(a(1), s, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    t = t + s + b(1)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, t, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print *, "total", t
  call MPI_Finalize(ierr)
contains
  subroutine work(k)
    integer, intent(in) :: k
    integer :: i
    double precision, volatile :: x
    x = 0
    do i = 1, k
      x = x + 1d0 / i
    end do
  end subroutine
end program
