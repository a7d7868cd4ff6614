#include "trainer/job/stream_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/strategy/origins.h"
#include "common/strategy/strategy.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {
namespace {

// The samples of an epoch have 32-bit numbers.
constexpr int64_t kEpochSamplesMax = UINT32_MAX;

struct Conflict {
  bool given;
  const char* field;
  const char* message;
  const char* hint = "";
};

void Report(const Conflict& c, const strategy::Origins& origins,
            strategy::Diagnostics* diagnostics) {
  if (c.given) diagnostics->Error(origins.Of(c.field).place, c.message, c.hint);
}

void CheckKafka(const KafkaConfig& kafka, const strategy::Origins& origins,
                strategy::Diagnostics* diagnostics) {
  const auto require = [&](bool given, const char* field, const char* what, const char* example) {
    if (given) return;
    diagnostics->Error(
        origins.Of("data.stream.kafka").place,
        absl::StrFormat("data.stream.kafka.%s, %s, is not set [TD1106]", field, what),
        absl::StrCat("add ", field, ": \"", example, "\""));
  };
  require(!kafka.brokers().empty(), "brokers", "the addresses of the brokers", "localhost:9092");
  require(!kafka.topic().empty(), "topic", "the topic of the records", "clicks");
  require(!kafka.positions().empty(), "positions", "the directory of the stored offsets",
          "positions");
  if (kafka.broker_wait_s() < 1 || kafka.broker_wait_s() > 86400) {
    diagnostics->Error(
        origins.Of("data.stream.kafka.broker_wait_s").place,
        absl::StrFormat("data.stream.kafka.broker_wait_s is %d, expected 1 to 86400 [TD1104]",
                        kafka.broker_wait_s()));
  }
}

void CheckSource(const JobConfig& config, int workers, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics) {
  const StreamConfig& stream = config.data().stream();
  if (stream.has_kafka()) {
    CheckKafka(stream.kafka(), origins, diagnostics);
  } else if (stream.folder().empty()) {
    diagnostics->Error(origins.Of("data.stream").place,
                       "data.stream.folder, the directory of the records, is not set [TD1106]",
                       "add stream { folder: \"clicks\" }");
  }
  if (stream.has_kafka() && stream.has_folder()) {
    diagnostics->Error(
        origins.Of("data.stream.folder").place,
        "data.stream has both folder and kafka, but records have one source [TD1108]",
        "remove one of them");
  }
  const int64_t epoch_max = kEpochSamplesMax / GlobalBatch(config, workers);
  if (stream.epoch_steps() < 1 || stream.epoch_steps() > epoch_max) {
    diagnostics->Error(
        origins.Of("data.stream.epoch_steps").place,
        absl::StrFormat("data.stream.epoch_steps is %d, expected 1 to %d with "
                        "batches of %d samples [TD1104]",
                        stream.epoch_steps(), epoch_max, GlobalBatch(config, workers)));
  }
  if (stream.wait_log_s() < 1 || stream.wait_log_s() > 86400) {
    diagnostics->Error(origins.Of("data.stream.wait_log_s").place,
                       absl::StrFormat("data.stream.wait_log_s is %d, expected 1 to 86400 [TD1104]",
                                       stream.wait_log_s()));
  }
  if (stream.window_steps() < 0 || stream.window_steps() % 10 != 0) {
    diagnostics->Error(
        origins.Of("data.stream.window_steps").place,
        absl::StrFormat("data.stream.window_steps is %d, expected 0 or a multiple of 10 [TD1104]",
                        stream.window_steps()));
  }
  if (const Status format = reader::MakeLineFormat(config.data()).status(); !format.ok()) {
    diagnostics->Error(origins.Of("data.format").place, std::string(format.message()));
  }
}

// Reports settings of the data that have no effect, because a stream has no end and no order but
// that of its source.
void CheckUnused(const JobConfig& config, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics) {
  const DataConfig& data = config.data();
  const LearningRateSchedule& schedule = config.optimizer().schedule();
  const bool decays = schedule.kind() == LearningRateSchedule::COSINE ||
                      schedule.kind() == LearningRateSchedule::POLYNOMIAL ||
                      schedule.kind() == LearningRateSchedule::EXPONENTIAL;
  const Conflict rows[] = {
      {config.has_epochs(), "epochs",
       "epochs has no effect with data.stream, because a stream has no end [TD1107]",
       "remove it, or set steps_max to end the job after a number of steps"},
      {data.has_shuffle() && data.shuffle(), "data.shuffle",
       "shuffle has no effect with data.stream: the order of the records is that of the files "
       "[TD1107]"},
      {data.has_remainder(), "data.remainder",
       "remainder has no effect with data.stream, because each step has a full batch [TD1107]"},
      {data.train_samples_max() != 0, "data.train_samples_max",
       "train_samples_max has no effect with data.stream [TD1107]", "set steps_max"},
      {data.criteo().train_file_size() > 0, "data.criteo.train_file",
       "train_file has no effect with data.stream [TD1107]", "move the files into the directory"},
      {data.libsvm().train_file_size() > 0, "data.libsvm.train_file",
       "train_file has no effect with data.stream [TD1107]", "move the files into the directory"},
      {data.criteo().test_share() != 0, "data.criteo.test_share",
       "test_share has no effect with data.stream [TD1107]", "name test data with test_file"},
      {data.libsvm().test_share() != 0, "data.libsvm.test_share",
       "test_share has no effect with data.stream [TD1107]", "name test data with test_file"},
      {decays && schedule.decay_steps() == 0 && config.steps_max() == 0, "optimizer.schedule.kind",
       "schedule.decay_steps is not set, and a job with data.stream has no last step [TD1106]",
       "set decay_steps, or steps_max"},
  };
  for (const Conflict& row : rows) Report(row, origins, diagnostics);
}

// Reports settings with which the step would not decide which records are counted.
void CheckMode(const JobConfig& config, int heter_workers, const strategy::Origins& origins,
               strategy::Diagnostics* diagnostics) {
  const DistributedStrategy& s = config.strategy();
  const A_SyncConfigs& async = s.a_sync_configs();
  const bool a_sync = config.mode() == PSERVER && s.a_sync();
  const Conflict rows[] = {
      {config.mode() == HYBRID, "mode", "data.stream is not implemented in mode hybrid [TD1109]",
       "use --mode=pserver or --mode=collective"},
      {PlacesOf(config) > 1, "strategy.execution_strategy.cpu_num",
       "data.stream is not implemented with several places of a worker (cpu_num) [TD1109]",
       "start more workers instead"},
      {s.elastic(), "strategy.elastic", "data.stream is not implemented with elastic [TD1109]"},
      {s.pipeline(), "strategy.pipeline", "data.stream is not implemented with pipeline [TD1109]"},
      {s.sharding(), "strategy.sharding", "data.stream is not implemented with sharding [TD1109]"},
      {s.auto_(), "strategy.auto", "data.stream is not implemented with auto [TD1109]",
       "choose the settings with recorded data first"},
      {heter_workers > 0, "data.stream",
       "data.stream is not implemented with heter workers [TD1109]"},
      {a_sync && async.k_steps() > 0, "strategy.a_sync_configs.k_steps",
       "data.stream excludes geo mode (k_steps): an exchange has no single step [TD1108]",
       "set half_async: true"},
      {a_sync && s.localsgd(), "strategy.localsgd",
       "data.stream excludes localsgd: an exchange has no single step [TD1108]",
       "set half_async: true"},
      {a_sync && async.max_merge_var_num() > 1, "strategy.a_sync_configs.max_merge_var_num",
       "data.stream excludes max_merge_var_num above 1: each push must have one step [TD1108]"},
      {a_sync && async.thread_pool_size() > 1, "strategy.a_sync_configs.thread_pool_size",
       "data.stream excludes thread_pool_size above 1: pushes must be in the order of the steps "
       "[TD1108]"},
      {a_sync && async.runtime_split_send_recv(), "strategy.a_sync_configs.runtime_split_send_recv",
       "data.stream excludes runtime_split_send_recv: the push of a step must be one message "
       "[TD1108]"},
      {a_sync && !config.checkpoint().dir().empty(), "checkpoint.dir",
       "data.stream with a_sync excludes checkpoint.dir: the pservers store the position of each "
       "trainer [TD1108]",
       "remove checkpoint, and start the job with tandemrun --pserver_data_dir=DIR"},
  };
  for (const Conflict& row : rows) Report(row, origins, diagnostics);
}

}  // namespace

void CheckStream(const JobConfig& config, int workers, int heter_workers,
                 const strategy::Origins& origins, strategy::Diagnostics* diagnostics) {
  if (!config.data().has_stream() || !diagnostics->ok()) return;
  CheckSource(config, workers, origins, diagnostics);
  CheckUnused(config, origins, diagnostics);
  CheckMode(config, heter_workers, origins, diagnostics);
}

}  // namespace tandem::trainer
