# The comm suite as real MPI jobs, and jobs of three ranks that must end soon, and say why, when the last one goes wrong.
if(ZT_MPI AND NOT ZT_SANITIZE MATCHES "thread")
  add_executable(mpi_suite test/comm/mpi_suite.c)
  target_include_directories(mpi_suite PRIVATE test)
  target_link_libraries(mpi_suite PRIVATE zt_comm ${CMOCKA_LIBRARY})
  set(mpirun env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ASAN_OPTIONS=detect_leaks=0 # MPI itself keeps memory
    ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n)
  foreach(n 1 2 3 4)
    add_test(NAME comm_mpi_${n} COMMAND ${mpirun} ${n} $<TARGET_FILE:mpi_suite>)
    set_tests_properties(comm_mpi_${n} PROPERTIES TIMEOUT 120 RUN_SERIAL ON)
  endforeach()
  function(comm_way name says)
    add_test(NAME comm_mpi_${name} COMMAND ${mpirun} 3 $<TARGET_FILE:mpi_suite> ${name})
    set_tests_properties(comm_mpi_${name} PROPERTIES TIMEOUT 20 RUN_SERIAL ON
      PASS_REGULAR_EXPRESSION "${says}")
  endfunction()
  comm_way(kill "[Rr]ank 2 .*signal 9|RANK 2") # the launcher's words
  comm_way(exit ",2\\]|[Rr]ank 2|RANK 2")
  comm_way(error "rank 2 has had enough")
  comm_way(leave "waits for rank 2 in barrier, step 3, but it has already ended")
  comm_way(counts "rank 2 sent more bytes where rank [01] waits for 32 in all_gather")
  comm_way(calls "rank [01] calls all_gather .8 x fp32. where rank 2 calls barrier")
  comm_way(agreed "rank 2: the disk is full")
endif()
