// The built knobs that `tandem bench knobs` does not measure, with reasons.
#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {

const std::vector<UnbenchedKnob>& UnbenchedKnobs() {
  static const std::vector<UnbenchedKnob> kUnbenched = {
      {"elastic", "has an effect only when ranks are lost; tests/e2e/elastic_test"},
      {"mode", "must equal the job's mode; `tandem demo` compares pserver and collective"},
      {"conv_workspace_size_limit", "a limit: plain loops run if an algorithm needs more"},
      {"conv_search_cache", "a file: results of cudnn_exhaustive_search"},
      {"compilation_cache_dir", "a directory: kernels compiled for a CUDA place"},
      {"a_sync_configs.heter_worker_device_guard",
       "for tables, and workers on other machines; docs/guides/heter-workers.md"},
      {"a_sync_configs.launch_barrier",
       "has an effect only at the start: trainers wait for the servers"},
      {"build_strategy.fused_attention",
       "the networks have no attention; docs/project/benchmarks/engine.md has figures"},
      {"build_strategy.cache_runtime_context", "has no effect: a plan never looks up variables"},
      {"build_strategy.debug_graphviz_path", "writes drawings before the first step"},
      {"runtime_flags.cpu_deterministic", "has no effect: the kernels are always deterministic"},
      {"runtime_flags.reader_queue_speed_test_mode", "a measurement itself, which trains nothing"},
      {"runtime_flags.use_dali", "for lists of JPEG images; docs/project/benchmarks/readers.md"},
      {"runtime_flags.pe_profile_fname", "writes a file of samples"},
      {"runtime_flags.rpc_deadline_ms", "has an effect only when a server does not reply"},
      {"runtime_flags.rocksdb_path", "a directory: rows that do not fit into memory"},
      {"runtime_flags.table_memory_mb",
       "a limit: has an effect only for larger tables; ps_vs_stores"},
      {"runtime_flags.rpc_retry_times", "has an effect only when a server does not reply"},
      {"runtime_flags.rpc_prefetch_thread_num", "for tables; tests/knobs/rpc_threads_test"},
      {"runtime_flags.row_cache_mb",
       "for tables; docs/project/benchmarks/pserver-step.md has figures"},
      {"runtime_flags.row_cache_versions", "for tables, as row_cache_mb"},
      {"runtime_flags.worker_update_interval_secs",
       "has an effect only when a trainer is unresponsive"},
      {"runtime_flags.pserver_push_sparse_merge_limit", "for tables; as the dense limit"},
      {"cudnn_batchnorm_spatial_persistent", "has an effect only on CUDA places"},
      {"execution_strategy.cuda_graph", "has an effect only on CUDA places"},
      {"runtime_flags.enable_cublas_tensor_op_math", "has an effect only on CUDA places"},
      {"runtime_flags.fraction_of_gpu_memory_to_use", "has an effect only on CUDA places"},
      {"runtime_flags.initial_gpu_memory_in_mb", "has an effect only on CUDA places"},
      {"runtime_flags.reallocate_gpu_memory_in_mb", "has an effect only on CUDA places"},
      {"runtime_flags.gpu_memory_limit_mb", "a limit: has an effect only on CUDA places"},
      {"runtime_flags.nccl_socket_ifname",
       "a setting of NCCL: has an effect only between CUDA places"},
      {"runtime_flags.nccl_p2p_disable",
       "a setting of NCCL: has an effect only between CUDA places"},
      {"runtime_flags.nccl_ib_disable",
       "a setting of NCCL: has an effect only between CUDA places"},
      {"runtime_flags.nccl_ib_cuda_support",
       "a setting of NCCL: has an effect only between CUDA places"},
      {"runtime_flags.nccl_debug", "a setting of NCCL: has an effect only between CUDA places"},
      {"runtime_flags.nccl_launch_mode",
       "a setting of NCCL: has an effect only between CUDA places"},
  };
  return kUnbenched;
}

}  // namespace tandem::deploy
