// tandem-figures: the program that runs Tandem's side of the benchmarks. tests/bench/run.sh runs
// this program and the programs of the peers.
#include <gflags/gflags.h>

#include <cstdio>

#include "tests/bench/report.h"

DEFINE_double(seconds, 1, "measured time, at least, in seconds");
DEFINE_int32(threads, 1, "compute threads; of allreduce: ranks");
DEFINE_int32(num_threads, 1, "training: operators that run at the same time");
DEFINE_int32(check_steps, 0, "training: losses of the first steps to report");
DEFINE_string(export_dir, "",
              "training: folder for the first parameters and the data; readers: of "
              "the files that are read, made where they are not there; stores: of redis.sock; "
              "recovery: of the server");

namespace tandem::bench {
namespace {

struct Row {
  const char* name;
  RunFn run;
  bool amp = false;
};

constexpr Row kRows[] = {
    {"op_overhead", OpOverhead},
    {"mlp40_step", Mlp40Step},
    {"mlp40_fed", Mlp40Fed},
    {"mlp1_fed", Mlp1Fed},
    {"lenet_train", LenetTrain},
    {"deepfm_dense", DeepFmDense},
    {"transformer_lm", TransformerLm},
    {"bert_base", BertBase},
    {"bert_base_512", BertBase512},
    {"transformer_lm_bf16", TransformerLm, true},
    {"resnet18_cifar", Resnet18Cifar},
    {"resnet18_cifar_bf16", Resnet18Cifar, true},
    {"resnet50_f32", Resnet50F32},
    {"resnet50_bf16", Resnet50F32, true},
    {"ps_dense_tcp", PsDenseTcp},
    {"ps_dense_fast", PsDenseFast},
    {"ps_pull_fast", PsPullFast},
    {"ps_sparse_pull", PsSparsePull},
    {"ps_vs_stores", PsVsStores},
    {"allreduce_shm", AllReduceShm},
    {"allreduce_tcp", AllReduceTcp},
    {"reader_text", ReaderText},
    {"reader_jpeg", ReaderJpeg},
    {"ps_exactly_once", PsExactlyOnce},
    {"ps_logged", PsLogged},
    {"ps_quorum", PsQuorum},
    {"ps_follow", PsFollow},
    {"stream_lag", StreamLag},
    {"ps_changes", PsChanges},
    {"ps_snapshot", PsSnapshot},
    {"ps_recovery", PsRecovery},
    {"hierarchical_hosts", HierarchicalHosts},
    {"lookup_vs_redis", LookupVsRedis},
    {"predict_deepfm", PredictDeepFm},
};

int Usage() {
  std::fprintf(stderr, "usage: tandem-figures NAME [--seconds=1] [--threads=1] ...\nnames:");
  for (const Row& row : kRows) std::fprintf(stderr, " %s", row.name);
  std::fprintf(stderr, "\n");
  return kExitUsage;
}

int Main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (argc != 2 || FLAGS_threads < 1 || FLAGS_num_threads < 1 || FLAGS_check_steps < 0)
    return Usage();
  for (const Row& row : kRows) {
    if (std::string_view(row.name) != argv[1]) continue;
    const auto report = row.run({.seconds = FLAGS_seconds,
                                 .threads = FLAGS_threads,
                                 .num_threads = FLAGS_num_threads,
                                 .check_steps = FLAGS_check_steps,
                                 .export_dir = FLAGS_export_dir,
                                 .amp = row.amp});
    if (report.ok()) {
      std::puts(report->Json().c_str());
      return kExitOk;
    }
    std::fprintf(stderr, "tandem-figures: error: %s\n", ToString(report.status()).c_str());
    return ExitCodeOf(report.status());
  }
  return Usage();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
