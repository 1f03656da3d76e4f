# Model checking with SPIN, which scripts/setup.sh installs. Each model is also run with mistakes that
# must be found.
find_program(SPIN_PROGRAM spin)
if(NOT SPIN_PROGRAM)
  message(WARNING "spin was not found: the models in tests/models are not checked")
  return()
endif()
function(add_model_test name model expected)
  add_test(NAME models/${name}
    COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check.sh
      ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${model}.pml ${expected} ${ARGN})
  set_tests_properties(models/${name} PROPERTIES ENVIRONMENT "CC=${CMAKE_C_COMPILER}")
endfunction()
add_model_test(queue_pair queue_pair good)
add_model_test(queue_pair_lost_wakeup queue_pair bad -DLOSE_WAKEUP)
add_model_test(queue_pair_lost_element queue_pair bad -DLOSE_ELEMENT)
add_model_test(hand_over hand_over good)
add_model_test(hand_over_without_order hand_over bad -DNO_FOLLOW)
add_model_test(hand_over_without_wait hand_over bad -DNO_WAIT)
add_model_test(hand_over_keeping_the_head hand_over bad -DKEEP_HEAD)
add_model_test(hand_over_without_fetch hand_over bad -DNO_FETCH)
add_model_test(hand_over_push_anywhere hand_over bad -DPUSH_ANYWHERE)
