# The order in which ctest starts the tests. ctest starts a test with a higher COST first, if as many
# processors are free as the test counts for (PROCESSORS). Tests that count for several processors
# are first, because they do not start while tests that count for one fill each gap. Within each group
# the longest is first. The hundreds of short tests, which have no COST, are last, so that no processor
# is idle at the end.
set(TANDEM_TESTS_FIRST
  # These count for 3 of 4 processors (tests/e2e/CMakeLists.txt).
  e2e_elastic e2e_faults e2e_watch e2e_overload
  # These count for 2.
  swarm e2e_recovery auto e2e_stall e2e_restarts deterministic e2e_modes e2e_stream elastic amp
  e2e_images dgc sharding e2e_standby e2e_click e2e_demo e2e_rebalance e2e_warm_start e2e_security pipeline
  e2e_rendezvous e2e_dense_rebalance deploy_packages deploy_status_page history heter_worker
  e2e_device_collective e2e_resume diloco os_faults conv_search e2e_promote e2e_ledger device_conv
  deploy_docs collective_transport a_sync_configs sync_batch_norm reduce_strategy e2e_verify_replay
  deploy_monitoring e2e_profile e2e_replicas e2e_status e2e_text e2e_data
  # These count for 1.
  cuda_on_host torch_resnet50_memory python_torch_backend collective_conformance ops_kernels sim
  gpu_dnn_graph sim_mutants python_interrupts install_wheel gpu_list torch_resnet18_cifar
  python_notebooks python_tandem_fleet install_same_bytes torch_lenet python_tandem_types
  trainer_kafka_log ops_gradient collective_conformance_errors collective_rendezvous_store
  python_torch_client python_pserver_client pserver_row_tiers gpu_nvrtc pserver_follow_variables
  python_tandem_read torch_resnet50_gradients format python_tandem_follow bench_regress pserver
  onnx_engines python_tandem_paddle python_tandem_torch collective_etcd_store pserver_storage
  host_group collective_shm collective_hosts python_torch_modules pserver_replication gpu_spills)

# Sets COST of a test of TANDEM_TESTS_FIRST.
function(tandem_test_order test)
  string(REGEX REPLACE "_test$" "" name ${test})
  list(FIND TANDEM_TESTS_FIRST ${name} at)
  if(at GREATER_EQUAL 0)
    math(EXPR cost "1000 - ${at}")
    set_tests_properties(${test} PROPERTIES COST ${cost})
  endif()
endfunction()
