#include "tests/bench/training_run.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "proto/strategy.pb.h"
#include "tests/bench/ceiling.h"

namespace tandem::bench {
namespace {

constexpr uint64_t kSeed = 1;

double MatmulFlops(const graph::Program& program, const ops::Op& op) {
  const Shape& x = program.FindVar(op.inputs[0][0])->desc.shape;
  const auto it = op.attrs.find("trans_x");
  const bool transposed = it != op.attrs.end() && std::get<bool>(it->second);
  const int64_t k = x[x.rank() - (transposed ? 2 : 1)];
  return 2.0 * static_cast<double>(program.FindVar(op.outputs[0][0])->desc.shape.numel() * k);
}

double AttentionFlops(const graph::Program& program, const ops::Op& op) {
  std::vector<const TensorDesc*> in;
  for (const auto& slot : op.inputs) {
    const bool absent = slot.empty() || slot[0].empty();
    in.push_back(absent ? nullptr : &program.FindVar(slot[0])->desc);
  }
  const ops::OpDef& def = *ops::FindOp(op.type);
  return def.flops(ops::OpView(op, def, in, {}));
}

// Returns the number of floating-point operations of the matrix products and convolutions of one
// step. A multiply-add counts as two operations.
double FlopsPerStep(const graph::Program& program) {
  double flops = 0;
  for (const ops::Op& op : program.ops) {
    if (op.type.starts_with("fused_attention")) flops += AttentionFlops(program, op);
    if (op.type == "matmul") flops += MatmulFlops(program, op);
    const bool grad = op.type == "fc_grad" || op.type == "conv2d_grad";
    if (!grad && op.type != "fc" && op.type != "conv2d") continue;
    const Shape& w = program.FindVar(op.inputs[1][0])->desc.shape;
    const int64_t units = op.type.starts_with("fc") ? w[1] : w[0];
    const std::string& out = grad ? op.inputs[2][0] : op.outputs[0][0];
    const double product =
        2.0 * static_cast<double>(program.FindVar(out)->desc.shape.numel() * w.numel()) /
        static_cast<double>(units);
    int products = 1;
    if (grad) products = !op.outputs[0].empty() + !op.outputs[1].empty();
    flops += products * product;
  }
  return flops;
}

class TrainingRun {
 public:
  TrainingRun(TrainingCase& training, const RunOptions& options)
      : training_(training), options_(options) {}

  StatusOr<Report> Run();

 private:
  Status Prepare();
  Status FillData();
  Status Export() const;
  void Restore();
  StatusOr<std::vector<double>> Losses(int steps);
  StatusOr<std::vector<double>> MicrosPerStep();
  StatusOr<std::function<Status(exec::Executor&)>> Chunk() const;

  TrainingCase& training_;
  const RunOptions& options_;
  CpuDevice device_;
  exec::Scope scope_{device_};
  std::unique_ptr<exec::Plan> plan_;
  // Values of the variables before the first step, by name.
  std::map<std::string, std::vector<float>> first_;
};

Status TrainingRun::Prepare() {
  graph::Program& program = training_.program;
  const DistributedStrategy none;
  graph::PassPipeline passes(training_.strategy == nullptr ? none : *training_.strategy, nullptr);
  const auto run = [&](graph::PassStage stage, std::vector<graph::ParamGrad>& grads) {
    return training_.strategy == nullptr ? OkStatus() : passes.Run(stage, program, grads);
  };
  std::vector<graph::ParamGrad> grads;
  TD_RETURN_IF_ERROR(run(graph::PassStage::kForward, grads));
  TD_ASSIGN_OR_RETURN(grads, graph::AppendBackward(program, 1.0f));
  TD_RETURN_IF_ERROR(run(graph::PassStage::kBackward, grads));
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, training_.optimizer, grads));
  TD_RETURN_IF_ERROR(run(graph::PassStage::kUpdate, grads));
  TD_RETURN_IF_ERROR(exec::Initialize(program, kSeed, scope_));
  const Tensor* rate = scope_.Find(graph::kLearningRateVar);
  if (rate == nullptr) return Internal("the program has no learning rate");
  rate->span<float>()[0] = static_cast<float>(training_.learning_rate);
  for (const auto& [name, tensor] : scope_.tensors()) {
    if (tensor.dtype() != DType::kF32) continue;
    const auto values = tensor.span<float>();
    first_[name].assign(values.begin(), values.end());
  }
  const exec::PlanOptions plan_options{
      .threads = options_.threads, .fetch = {program.loss}, .num_threads = options_.num_threads};
  TD_ASSIGN_OR_RETURN(
      plan_, exec::Plan::Make(program, exec::Backend::Cpu(), scope_, nullptr, plan_options));
  return FillData();
}

Status TrainingRun::FillData() {
  const uint64_t key = StreamKey(kSeed, "bench:data");
  for (const graph::Var* var : training_.program.VarsOf(graph::VarKind::kData)) {
    TD_ASSIGN_OR_RETURN(const Tensor tensor, plan_->Get(var->name));
    if (tensor.dtype() == DType::kF32) {
      const auto values = tensor.span<float>();
      for (size_t i = 0; i < values.size(); ++i) values[i] = NormalAt(key, i);
      continue;
    }
    const auto values = tensor.span<int64_t>();
    const int64_t columns = tensor.shape()[1], part = training_.ids / columns;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (var->name == "label") {
        values[i] = (at * 7 + 3) % training_.classes;
      } else {
        const auto id = static_cast<int64_t>(UniformAt(key, i) * static_cast<float>(part));
        values[i] = at % columns * part + std::min(id, part - 1);
      }
    }
  }
  return OkStatus();
}

Status TrainingRun::Export() const {
  const std::string& dir = options_.export_dir;
  std::ofstream manifest(dir + "/manifest.txt");
  int files = 0;
  const auto add = [&](const char* role, const std::string& name, const Tensor& tensor) {
    const std::string file = absl::StrFormat("tensor_%d.bin", files++);
    std::ofstream(dir + "/" + file, std::ios::binary)
        .write(static_cast<const char*>(tensor.data()),
               static_cast<std::streamsize>(tensor.bytes()));
    manifest << role << ' ' << name << ' ' << (tensor.dtype() == DType::kI64 ? "i64" : "f32") << ' '
             << absl::StrJoin(tensor.shape().dims(), ",") << ' ' << file << '\n';
  };
  for (const graph::Var* var : training_.program.VarsOf(graph::VarKind::kParam)) {
    add("param", var->name, *scope_.Find(var->name));
  }
  for (const graph::Var* var : training_.program.VarsOf(graph::VarKind::kData)) {
    TD_ASSIGN_OR_RETURN(const Tensor tensor, plan_->Get(var->name));
    add("data", var->name, tensor);
  }
  manifest << "option learning_rate " << training_.learning_rate << '\n'
           << "option chunk_steps " << training_.chunk_steps << '\n';
  for (const auto& [name, value] : training_.optimizer.attrs) {
    if (const auto* v = std::get_if<double>(&value)) {
      manifest << "option " << name << ' ' << *v << '\n';
    }
  }
  manifest.close();
  if (!manifest) return Unavailable("%s/manifest.txt cannot be written", dir);
  return OkStatus();
}

void TrainingRun::Restore() {
  for (const auto& [name, values] : first_) {
    std::memcpy(scope_.Find(name)->data(), values.data(), values.size() * sizeof(float));
  }
}

StatusOr<std::vector<double>> TrainingRun::Losses(int steps) {
  TD_ASSIGN_OR_RETURN(const Tensor loss, plan_->Get(training_.program.loss));
  exec::Executor executor(*plan_);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    TD_RETURN_IF_ERROR(executor.Run());
    losses.push_back(loss.span<float>()[0]);
  }
  return losses;
}

// Returns a function that runs the steps of one time measurement.
StatusOr<std::function<Status(exec::Executor&)>> TrainingRun::Chunk() const {
  const int steps = training_.chunk_steps;
  if (!training_.fed) return [steps](exec::Executor& executor) { return executor.Run(steps); };
  struct Fed {
    Tensor tensor;
    std::vector<char> values;
  };
  std::vector<Fed> feeds;
  for (const graph::Var* var : training_.program.VarsOf(graph::VarKind::kData)) {
    TD_ASSIGN_OR_RETURN(const Tensor tensor, plan_->Get(var->name));
    const char* const begin = static_cast<const char*>(tensor.data());
    feeds.push_back({tensor, {begin, begin + tensor.bytes()}});
  }
  TD_ASSIGN_OR_RETURN(const Tensor loss, plan_->Get(training_.program.loss));
  float* const rate = scope_.Find(graph::kLearningRateVar)->span<float>().data();
  const auto value = static_cast<float>(training_.learning_rate);
  return [steps, feeds, loss, rate, value](exec::Executor& executor) {
    std::vector<char> fetched(loss.bytes());
    for (int i = 0; i < steps; ++i) {
      for (const Fed& fed : feeds) {
        std::memcpy(fed.tensor.data(), fed.values.data(), fed.values.size());
      }
      *rate = value;
      TD_RETURN_IF_ERROR(executor.Run());
      std::memcpy(fetched.data(), loss.data(), fetched.size());
    }
    return OkStatus();
  };
}

StatusOr<std::vector<double>> TrainingRun::MicrosPerStep() {
  exec::Executor executor(*plan_);
  TD_ASSIGN_OR_RETURN(const auto chunk, Chunk());
  std::vector<double> micros;
  double total = 0;
  bool warm = false;  // whether the first chunk of steps, which is not measured, has ended
  while (total < options_.seconds || micros.empty()) {
    Restore();
    const Time start = SteadyNow();
    TD_RETURN_IF_ERROR(chunk(executor));
    const double seconds = Seconds(SteadyNow() - start);
    if (warm) {
      micros.push_back(seconds * 1e6 / training_.chunk_steps);
      total += seconds;
    }
    warm = true;
  }
  return micros;
}

StatusOr<Report> TrainingRun::Run() {
  TD_RETURN_IF_ERROR(Prepare());
  if (!options_.export_dir.empty()) TD_RETURN_IF_ERROR(Export());
  TD_ASSIGN_OR_RETURN(const std::vector<double> losses, Losses(options_.check_steps));
  TD_ASSIGN_OR_RETURN(const std::vector<double> micros, MicrosPerStep());
  const graph::Var* data = training_.program.VarsOf(graph::VarKind::kData).front();
  const double median = Median(micros);
  const std::set<std::string> kernels(plan_->choices().begin(), plan_->choices().end());

  Report report;
  report.Add("us_per_step", median);
  report.Add("samples_per_s", 1e6 * static_cast<double>(data->desc.shape[0]) / median);
  report.Add("us_per_step_min", *std::min_element(micros.begin(), micros.end()));
  report.Add("losses", losses);
  report.Add("flops_per_step", FlopsPerStep(training_.program));
  report.Add("sgemm_gflops", SgemmGflops(options_.threads));
  report.Add("ops", static_cast<double>(plan_->steps().size()));
  report.Add("arena_bytes", static_cast<double>(plan_->arena_bytes()));
  report.Add("kernels", absl::StrJoin(kernels, ", "));
  return report;
}

}  // namespace

StatusOr<Report> RunTraining(TrainingCase training, const RunOptions& options) {
  DistributedStrategy strategy;
  if (options.amp) {
    if (training.strategy != nullptr) strategy = *training.strategy;
    strategy.set_amp(true);
    training.strategy = &strategy;
  }
  return TrainingRun(training, options).Run();
}

}  // namespace tandem::bench
