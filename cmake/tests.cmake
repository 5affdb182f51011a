# The program as its user meets it.
set(launcher "")
if(ZT_MPI)
  set(launcher "${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n")
endif()
if(NOT ZT_SANITIZE MATCHES "thread")
  add_test(NAME cli_program
    COMMAND bash ${CMAKE_SOURCE_DIR}/test/cli/program.sh $<TARGET_FILE:zeroth> "${launcher}")
  set_tests_properties(cli_program PROPERTIES TIMEOUT 300 RUN_SERIAL ON
    ENVIRONMENT ASAN_OPTIONS=detect_leaks=0) # MPI itself keeps memory
endif()
