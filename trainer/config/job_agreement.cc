#include "trainer/config/job_agreement.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/strategy/field_value.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/files/sha256.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::trainer {
namespace {

namespace gpb = google::protobuf;

constexpr size_t kShownMax = 60;                     // characters shown of a long value
constexpr size_t kHashShown = 12;                    // hexadecimal digits shown of a hash
constexpr int64_t kListBytesMax = int64_t{1} << 20;  // maximum size of one rank's settings in bytes
constexpr size_t kSampleBytesMax = size_t{1} << 20;  // maximum size of the hashed samples in bytes
constexpr uint32_t kSamplesMax = 16;                 // maximum number of hashed samples

constexpr char kDirectory[] = "directories differ between hosts";
constexpr char kFile[] = "directories differ between hosts; the content of the file is compared";
constexpr char kTest[] = "only rank 0 evaluates";
constexpr char kKept[] = "only rank 0 writes checkpoints";
constexpr char kLog[] = "output of a rank, which may differ";
constexpr char kHost[] = "limits of a host: threads, memory, retries";
constexpr char kDevice[] = "devices differ between hosts";
constexpr char kKernels[] = "kernels with equal results, which auto chooses for each rank";

constexpr NotComparedField kNotCompared[] = {
    {"name", "compared when processes of a job connect"},
    {"batch_size", "compared as global_batch_size"},
    {"model.arg", "compared by the names of the arguments"},
    {"model.program", kFile},
    {"model.parameters", kFile},
    {"model.init", "only rank 0 reads these files"},
    {"data.dir", kDirectory},
    {"data.csv.train_file", kFile},
    {"data.csv.test_file", kTest},
    {"data.criteo.train_file", kFile},
    {"data.criteo.test_file", kTest},
    {"data.libsvm.train_file", kFile},
    {"data.libsvm.test_file", kTest},
    {"data.examples.train_file", kFile},
    {"data.examples.test_file", kTest},
    {"data.skipgram.file", kFile},
    {"data.text.file", kFile},
    {"data.images.train_list", kFile},
    {"data.images.test_list", kTest},
    {"data.images.folder", kDirectory},
    {"data.images.test_folder", kTest},
    {"data.synthetic.test_samples", kTest},
    {"data.stream.folder", kDirectory},
    {"data.stream.wait_log_s", kLog},
    {"data.stream.window_steps", kLog},
    {"data.stream.kafka.positions", kDirectory},
    {"data.stream.kafka.properties", kDirectory},
    {"data.stream.kafka.broker_wait_s", kHost},
    {"data.queue_capacity", kHost},
    {"data.reader_threads", kHost},
    {"checkpoint.dir", kDirectory},
    {"checkpoint.keep", kKept},
    {"checkpoint.resume", kKept},
    {"profile", kLog},
    {"log_every_steps", kLog},
    {"verify_replay", kLog},
    {"place", kDevice},
    {"threads", kHost},
    {"start_timeout_ms", kHost},
    {"step_timeout_ms", kHost},
    {"strategy.mode", "the mode of the job is compared instead"},
    {"strategy.auto", "the chosen settings are compared"},
    {"strategy.cudnn_exhaustive_search", kKernels},
    {"strategy.conv_workspace_size_limit", kHost},
    {"strategy.conv_search_cache", kDirectory},
    {"strategy.compilation_cache_dir", kDirectory},
    {"strategy.cudnn_batchnorm_spatial_persistent", kDevice},
    {"strategy.a_sync_configs.thread_pool_size", kHost},
    {"strategy.build_strategy.fuse_elewise_add_act_ops", kKernels},
    {"strategy.build_strategy.fuse_bn_act_ops", kKernels},
    {"strategy.build_strategy.fuse_bn_add_act_ops", kKernels},
    {"strategy.build_strategy.fused_attention", kKernels},
    {"strategy.build_strategy.fuse_relu_depthwise_conv", kKernels},
    {"strategy.build_strategy.fuse_all_optimizer_ops", kKernels},
    {"strategy.build_strategy.enable_inplace", kKernels},
    {"strategy.build_strategy.memory_optimize", kKernels},
    {"strategy.build_strategy.cache_runtime_context", kKernels},
    {"strategy.build_strategy.enable_auto_fusion", kKernels},
    {"strategy.build_strategy.enable_addto", kKernels},
    {"strategy.build_strategy.mkldnn_enabled_op_types", kKernels},
    {"strategy.build_strategy.debug_graphviz_path", kLog},
    {"strategy.execution_strategy.num_threads", kHost},
    {"strategy.execution_strategy.num_iteration_per_drop_scope", kHost},
    {"strategy.execution_strategy.cuda_graph", kDevice},
    {"strategy.runtime_flags.rpc_deadline_ms", kHost},
    {"strategy.runtime_flags.rpc_retry_times", kHost},
    {"strategy.runtime_flags.pserver_transport", kHost},
    {"strategy.runtime_flags.rpc_send_thread_num", kHost},
    {"strategy.runtime_flags.rpc_get_thread_num", kHost},
    {"strategy.runtime_flags.rpc_prefetch_thread_num", kHost},
    {"strategy.runtime_flags.rocksdb_path", kDirectory},
    {"strategy.runtime_flags.table_memory_mb", kHost},
    {"strategy.runtime_flags.row_cache_mb", kHost},
    {"strategy.runtime_flags.enable_rpc_profiler", kLog},
    {"strategy.runtime_flags.fraction_of_gpu_memory_to_use", kDevice},
    {"strategy.runtime_flags.initial_gpu_memory_in_mb", kDevice},
    {"strategy.runtime_flags.reallocate_gpu_memory_in_mb", kDevice},
    {"strategy.runtime_flags.gpu_memory_limit_mb", kDevice},
    {"strategy.runtime_flags.eager_delete_tensor_gb", kHost},
    {"strategy.runtime_flags.local_exe_sub_scope_limit", kHost},
    {"strategy.runtime_flags.enable_cublas_tensor_op_math", kDevice},
    {"strategy.runtime_flags.use_mkldnn", kKernels},
    {"strategy.runtime_flags.use_double_buffer", kHost},
    {"strategy.runtime_flags.use_dali", kHost},
    {"strategy.runtime_flags.check_nan_inf", kLog},
    {"strategy.runtime_flags.benchmark", kLog},
    {"strategy.runtime_flags.pe_profile_fname", kLog},
    {"strategy.runtime_flags.nccl_socket_ifname", kDevice},
    {"strategy.runtime_flags.nccl_p2p_disable", kDevice},
    {"strategy.runtime_flags.nccl_debug", kLog},
};

std::string HashOf(const std::string& text) {
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Finish();
}

std::string Shortened(const std::string& value) {
  std::string text = absl::CEscape(value);
  if (text.size() <= kShownMax) return text;
  return text.substr(0, kShownMax / 2) + "... (sha256 " + HashOf(value).substr(0, kHashShown) + ")";
}

bool IsCompared(const std::string& path) {
  return std::none_of(std::begin(kNotCompared), std::end(kNotCompared),
                      [&](const NotComparedField& row) { return path == row.path; });
}

using Sorted = std::map<std::string, std::string>;

// Adds the fields of `message` to the list. `path`: the field's path without indices; `name`: the
// path with indices.
void AddFields(const gpb::Message& message, const std::string& path, const std::string& name,
               Sorted* list);

void AddField(const gpb::Message& message, const gpb::FieldDescriptor& field,
              const std::string& path, const std::string& name, Sorted* list) {
  const gpb::Reflection& r = *message.GetReflection();
  const bool is_message = field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE;
  if (!field.is_repeated()) {
    if (is_message) return AddFields(r.GetMessage(message, &field), path + ".", name + ".", list);
    (*list)[name] = Shortened(strategy::FieldText(message, field));
    return;
  }
  std::vector<std::string> values;
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    if (is_message) {
      AddFields(r.GetRepeatedMessage(message, &field, i), path + ".",
                absl::StrFormat("%s[%d].", name, i), list);
    } else {
      values.push_back(strategy::FieldText(message, field, i));
    }
  }
  if (!is_message) (*list)[name] = Shortened(absl::StrJoin(values, ","));
}

void AddFields(const gpb::Message& message, const std::string& path, const std::string& name,
               Sorted* list) {
  const gpb::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const gpb::FieldDescriptor& field = *type.field(i);
    if (!IsCompared(path + field.name())) continue;
    AddField(message, field, path + field.name(), name + field.name(), list);
  }
}

// Adds the arguments of the model. The list sorts the arguments by name, because their order has no
// effect.
void AddArguments(const ModelConfig& model, Sorted* list) {
  for (const ModelArg& arg : model.arg()) (*list)["model." + arg.name()] = Shortened(arg.value());
}

// Hashes the integers (labels and ids) of the first sample, the last sample and some samples
// between them. Only integers are hashed, because hosts with the same data read exactly the same
// integers.
StatusOr<std::string> HashOfSamples(const reader::Dataset& train) {
  TD_REQUIRE(train.size() > 0);
  size_t bytes = 1;
  for (const reader::SampleField& field : train.fields()) bytes += field.desc.bytes();
  const auto count = static_cast<uint32_t>(
      std::clamp<size_t>(kSampleBytesMax / bytes, 1, std::min(kSamplesMax, train.size())));
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<uint32_t>(uint64_t{train.size() - 1} * i / std::max(1U, count - 1)));
  }
  std::vector<std::vector<uint64_t>> memory;
  std::vector<void*> out;
  for (const reader::SampleField& field : train.fields()) {
    memory.emplace_back((field.desc.bytes() * count + 7) / 8);
    out.push_back(memory.back().data());
  }
  TD_RETURN_IF_ERROR(train.Fill(ids, out));
  Sha256 hash;
  for (size_t f = 0; f < out.size(); ++f) {
    const DType dtype = train.fields()[f].desc.dtype;
    const bool whole = dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8;
    if (whole) hash.Add(out[f], train.BytesOf(f, count, out));
  }
  return hash.Finish().substr(0, kHashShown);
}

void AddData(const DataConfig& data, const reader::Dataset& train, Sorted* list) {
  (*list)["data.samples"] = std::to_string(train.size());
  // Synthetic data needs no hash, because the job's fields describe it completely. Images get no
  // hash, because each sample would be a file to decode.
  if (data.format() == "synthetic" || data.format() == "images") return;
  // An unreadable sample is not an error here, because training reports the error when it reads the
  // sample. A stream has no samples that can be read here.
  const StatusOr<std::string> hash = HashOfSamples(train);
  (*list)["data.samples (sha256 of some)"] = hash.ok() ? *hash : "not readable";
}

std::string Lines(const Agreement& list) {
  return absl::StrJoin(list, "", [](std::string* out, const auto& row) {
    *out += row.first + "=" + row.second + "\n";
  });
}

Agreement FromLines(const std::string& text) {
  Agreement list;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    list.push_back(absl::StrSplit(line, absl::MaxSplits('=', 1)));
  }
  return list;
}

// The first message that a rank sends: the first four 64-bit words of the hash of its list, and the
// size of its list in bytes.
using Digest = std::array<int64_t, 5>;

Digest DigestOf(const std::string& lines) {
  Digest digest{};
  const std::string hash = HashOf(lines);
  DCHECK_GE(hash.size(), 4 * sizeof(int64_t));
  std::memcpy(digest.data(), hash.data(), 4 * sizeof(int64_t));
  digest[4] = static_cast<int64_t>(lines.size());
  return digest;
}

StatusOr<Agreement> ListOf(collective::Communicator& ranks, int rank, int64_t bytes,
                           const std::string& mine, Time deadline) {
  if (bytes < 0 || bytes > kListBytesMax) {
    return Internal("rank %d has %d bytes of settings, which is too long to compare", rank, bytes);
  }
  std::string lines = rank == ranks.rank() ? mine : std::string(static_cast<size_t>(bytes), '\0');
  TD_RETURN_IF_ERROR(ranks
                         .Broadcast(lines.data(), lines.size(), DType::kU8, rank,
                                    {.what = "settings of the job", .deadline = deadline})
                         ->Wait(Time::max()));
  return FromLines(lines);
}

}  // namespace

std::span<const NotComparedField> NotCompared() { return kNotCompared; }

StatusOr<Agreement> AgreementOf(const JobConfig& config, const std::string& job_dir, int workers,
                                const reader::Dataset& train) {
  Sorted list;
  AddFields(config, "", "", &list);
  AddArguments(config.model(), &list);
  list["global_batch_size"] = std::to_string(GlobalBatch(config, workers));
  if (config.model().has_program()) {
    TD_ASSIGN_OR_RETURN(const std::string hash,
                        Sha256File(InJobDir(job_dir, config.model().program())));
    list["model.program"] = "sha256 " + hash.substr(0, kHashShown);
  }
  if (config.model().has_parameters()) {
    std::error_code error;
    const auto bytes =
        std::filesystem::file_size(InJobDir(job_dir, config.model().parameters()), error);
    list["model.parameters"] = error ? "none" : std::to_string(bytes) + " bytes";
  }
  AddData(config.data(), train, &list);
  return Agreement(list.begin(), list.end());
}

Agreement AgreementOf(const JobConfig& config, const std::string& program) {
  Sorted list;
  AddFields(config, "", "", &list);
  list["program"] = "sha256 " + HashOf(program).substr(0, kHashShown);
  return {list.begin(), list.end()};
}

Status AgreeAmongRanks(collective::Communicator& ranks, const Agreement& mine, Time deadline) {
  const std::string lines = Lines(mine);
  const Digest digest = DigestOf(lines);
  std::vector<Digest> all(static_cast<size_t>(ranks.size()));
  TD_RETURN_IF_ERROR(ranks
                         .AllGather(digest.data(), all.data(), digest.size(), DType::kI64,
                                    {.what = "settings of the job", .deadline = deadline})
                         ->Wait(Time::max()));
  const auto other =
      std::find_if(all.begin(), all.end(), [&](const Digest& d) { return d != all[0]; });
  if (other == all.end()) return OkStatus();
  DCHECK(all[static_cast<size_t>(ranks.rank())] == digest);
  const int rank = static_cast<int>(other - all.begin());
  TD_ASSIGN_OR_RETURN(const Agreement first, ListOf(ranks, 0, all[0][4], lines, deadline));
  TD_ASSIGN_OR_RETURN(const Agreement theirs, ListOf(ranks, rank, (*other)[4], lines, deadline));
  // The barrier keeps a rank from leaving while other ranks still communicate. AgreeAmongRanks
  // ignores the status of the barrier, because all ranks already know the result.
  (void)ranks.Barrier({.what = "settings of the job", .deadline = deadline})->Wait(Time::max());
  return InvalidArgument(
      "the settings of the ranks differ: %s [TD3011]; hint: give all ranks the same job file and "
      "flags",
      Disagreement(theirs, absl::StrFormat("rank %d", rank), first, "rank 0"));
}

}  // namespace tandem::trainer
