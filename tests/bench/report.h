// The output of a benchmark run for tests/bench/driver.py: one JSON object on standard output.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::bench {

// Flags of tandem-figures. tests/bench/main.cc reads them.
struct RunOptions {
  double seconds = 1;   // minimum measured time in seconds
  int threads = 1;      // compute threads; in allreduce benchmarks: the number of ranks
  int num_threads = 1;  // value for PlanOptions::num_threads
  int check_steps = 0;  // training: number of first steps whose losses are reported
  // A directory; the benchmark decides its use. Training: the output directory for initial
  // parameters and data; empty: the benchmark exports nothing. Readers: the directory of the data
  // files. Stores: the directory with the socket of Redis. Recovery: the data directory of the
  // server.
  std::string export_dir;
  bool amp = false;  // whether training benchmarks use mixed precision with bf16
};

// A list of named values. Fields stay in the order in which they were added.
class Report {
 public:
  void Add(const std::string& name, double value);
  void Add(const std::string& name, const std::string& value);
  void Add(const std::string& name, const std::vector<double>& values);
  std::string Json() const { return "{" + body_ + "}"; }

 private:
  void Key(const std::string& name);
  std::string body_;
};

using RunFn = StatusOr<Report> (*)(const RunOptions& options);

StatusOr<Report> OpOverhead(const RunOptions& options);
StatusOr<Report> Mlp40Step(const RunOptions& options);
StatusOr<Report> Mlp40Fed(const RunOptions& options);
StatusOr<Report> Mlp1Fed(const RunOptions& options);
StatusOr<Report> LenetTrain(const RunOptions& options);
StatusOr<Report> DeepFmDense(const RunOptions& options);
StatusOr<Report> TransformerLm(const RunOptions& options);
StatusOr<Report> BertBase(const RunOptions& options);
StatusOr<Report> BertBase512(const RunOptions& options);
StatusOr<Report> Resnet18Cifar(const RunOptions& options);
StatusOr<Report> Resnet50F32(const RunOptions& options);
StatusOr<Report> PsDenseTcp(const RunOptions& options);
StatusOr<Report> PsDenseFast(const RunOptions& options);
StatusOr<Report> PsPullFast(const RunOptions& options);
StatusOr<Report> PsSparsePull(const RunOptions& options);
StatusOr<Report> PsVsStores(const RunOptions& options);
StatusOr<Report> LookupVsRedis(const RunOptions& options);
StatusOr<Report> PredictDeepFm(const RunOptions& options);
StatusOr<Report> PsExactlyOnce(const RunOptions& options);
StatusOr<Report> PsLogged(const RunOptions& options);
StatusOr<Report> PsQuorum(const RunOptions& options);
StatusOr<Report> PsFollow(const RunOptions& options);
StatusOr<Report> StreamLag(const RunOptions& options);
StatusOr<Report> PsChanges(const RunOptions& options);
StatusOr<Report> PsSnapshot(const RunOptions& options);
StatusOr<Report> PsRecovery(const RunOptions& options);
StatusOr<Report> AllReduceShm(const RunOptions& options);
StatusOr<Report> AllReduceTcp(const RunOptions& options);
StatusOr<Report> HierarchicalHosts(const RunOptions& options);
StatusOr<Report> ReaderText(const RunOptions& options);
StatusOr<Report> ReaderJpeg(const RunOptions& options);

// Returns the median of `values`. REQUIRES: `values` is not empty.
double Median(std::vector<double> values);

}  // namespace tandem::bench
