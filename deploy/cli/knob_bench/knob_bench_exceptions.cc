// The built knobs that `tandem bench knobs` does not measure.
#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {

const std::vector<UnbenchedKnob>& UnbenchedKnobs() {
  static const std::vector<UnbenchedKnob> kUnbenched = {
      {"elastic", "counts when ranks are lost; tests/e2e/elastic_test"},
      {"mode", "it has to be the job's mode; `tandem demo` compares pserver and collective"},
      {"conv_workspace_size_limit", "a bound: below what an algorithm needs plain loops serve"},
      {"conv_search_cache", "where cudnn_exhaustive_search keeps what it measured"},
      {"compilation_cache_dir", "where what is compiled for a CUDA place is kept"},
      {"a_sync_configs.heter_worker_device_guard",
       "for tables of rows, and workers on other machines; docs/guides/heter-workers.md"},
      {"a_sync_configs.launch_barrier", "a matter of the start: who waits for the servers"},
      {"build_strategy.cache_runtime_context", "always so: a plan looks nothing up"},
      {"build_strategy.debug_graphviz_path", "writes drawings before the first step"},
      {"runtime_flags.cpu_deterministic", "always so: false changes nothing"},
      {"runtime_flags.reader_queue_speed_test_mode", "measures by itself, and trains nothing"},
      {"runtime_flags.use_dali", "for lists of JPEG images; docs/project/benchmarks/readers.md"},
      {"runtime_flags.pe_profile_fname", "writes a file of samples"},
      {"runtime_flags.rpc_deadline_ms", "counts when a server does not answer"},
      {"runtime_flags.rocksdb_path", "where rows lie for which there is no room"},
      {"runtime_flags.table_memory_mb", "a bound: counts for tables of more rows; ps_vs_stores"},
      {"runtime_flags.rpc_retry_times", "counts when a server does not answer"},
      {"runtime_flags.rpc_prefetch_thread_num", "for tables of rows; tests/knobs/rpc_threads_test"},
      {"runtime_flags.row_cache_mb",
       "for tables of rows; docs/project/benchmarks/pserver-step.md has figures"},
      {"runtime_flags.row_cache_versions", "for tables of rows, as row_cache_mb"},
      {"runtime_flags.worker_update_interval_secs", "counts when a trainer is silent"},
      {"runtime_flags.pserver_push_sparse_merge_limit", "for tables of rows; as the dense limit"},
      {"cudnn_batchnorm_spatial_persistent", "counts on CUDA places alone"},
      {"execution_strategy.cuda_graph", "counts on CUDA places alone"},
      {"runtime_flags.enable_cublas_tensor_op_math", "counts on CUDA places alone"},
      {"runtime_flags.fraction_of_gpu_memory_to_use", "counts on CUDA places alone"},
      {"runtime_flags.initial_gpu_memory_in_mb", "counts on CUDA places alone"},
      {"runtime_flags.reallocate_gpu_memory_in_mb", "counts on CUDA places alone"},
      {"runtime_flags.gpu_memory_limit_mb", "a bound: counts on CUDA places alone"},
      {"runtime_flags.nccl_socket_ifname", "what NCCL reads; counts between CUDA places"},
      {"runtime_flags.nccl_p2p_disable", "what NCCL reads; counts between CUDA places"},
      {"runtime_flags.nccl_ib_disable", "what NCCL reads; counts between CUDA places"},
      {"runtime_flags.nccl_ib_cuda_support", "what NCCL reads; counts between CUDA places"},
      {"runtime_flags.nccl_debug", "what NCCL reads; counts between CUDA places"},
      {"runtime_flags.nccl_launch_mode", "what NCCL reads; counts between CUDA places"},
  };
  return kUnbenched;
}

}  // namespace tandem::deploy
