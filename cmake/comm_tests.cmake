# The comm suite as real MPI jobs, and jobs that must end when a rank dies.
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
  foreach(how kill exit)
    add_test(NAME comm_mpi_${how} COMMAND ${mpirun} 3 $<TARGET_FILE:mpi_suite> ${how})
    set_tests_properties(comm_mpi_${how} PROPERTIES TIMEOUT 30 WILL_FAIL ON RUN_SERIAL ON)
  endforeach()
endif()
