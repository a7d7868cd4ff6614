// Texts for fuzz tests of job files: a job file that uses most features, and fragments that
// mutations insert.
#pragma once

namespace tandem {

inline constexpr char kJobText[] = R"(# a job
name: "fuzz" mode: PSERVER
model { zoo: "lenet" arg { name: "hidden" value: "256,256" } }
data { format: "mnist" dir: "/data" shuffle: true }
optimizer { type: "momentum" learning_rate: 1e-2
            schedule { boundary: [1, 2] value: [1, 0.5, .25] } }
strategy {
  a_sync: True
  a_sync_configs { k_steps: -1 send_queue_size: 16 }
  build_strategy: < reduce_strategy: AllReduce num_iteration_per_drop_scope: 30
                    mkldnn_enabled_op_types: ["conv2d", 'relu'] memory_optimize: None >
  execution_strategy { num_threads: 0x3 }
  amp_configs { decr_ratio: 0.5f custom_black_list: "softmax" }
  FLAGS_rpc_deadline: 5000; nccl_comm_num: 2,
}
seed: 7 batch_size: 64
)";

inline constexpr const char* kJobPieces[] = {"{",
                                             "}",
                                             "<",
                                             ">",
                                             "[",
                                             "]",
                                             ":",
                                             ",",
                                             ";",
                                             "-",
                                             "\"",
                                             "'",
                                             "\\",
                                             "#",
                                             "\n",
                                             "\t",
                                             ".",
                                             "nan",
                                             "inf",
                                             "1e999",
                                             "99999999999999999999",
                                             "0x",
                                             "08",
                                             "strategy {",
                                             "a_sync: true",
                                             "\xff",
                                             "\xe4\xb8",
                                             "true",
                                             "k_steps: 3",
                                             "CPU_NUM: 2",
                                             "name: 'x'",
                                             "arg {",
                                             "-1",
                                             "\\x",
                                             "\\777"};

}  // namespace tandem
