# Model checking with SPIN, where it is installed. Each model is also run with a mistake that must
# be found.
find_program(SPIN_PROGRAM spin)
if(SPIN_PROGRAM)
  function(add_model_test name model expected)
    add_test(NAME models/${name}
      COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check.sh
        ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${model}.pml ${expected} ${ARGN})
  endfunction()
  add_model_test(queue_pair queue_pair good)
  add_model_test(queue_pair_lost_wakeup queue_pair bad -DLOSE_WAKEUP)
  add_model_test(hand_over hand_over good)
  add_model_test(hand_over_without_order hand_over bad -DNO_FOLLOW)
  add_model_test(hand_over_without_wait hand_over bad -DNO_WAIT)
endif()
