# tandem_mutant(NAME OUT x.cc ...) sets OUT to copies of pserver/shard/x.cc ... with the mutant's edits
# (mutants.py). A program with these sources has the mutant: it takes them instead of the library's.
function(tandem_mutant name out)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name})
  list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE copies)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/pserver/shard/ OUTPUT_VARIABLE sources)
  add_custom_command(OUTPUT ${copies}
    COMMAND ${TANDEM_PYTHON3} -B ${CMAKE_SOURCE_DIR}/tests/sim/mutants/mutants.py
      --source=${CMAKE_SOURCE_DIR} --name=${name} --out=${folder}
    DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/tests/sim/mutants/mutants.py VERBATIM)
  set(${out} ${copies} PARENT_SCOPE)
endfunction()
