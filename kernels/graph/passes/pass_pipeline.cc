#include "kernels/graph/passes/pass_pipeline.h"

#include "common/base/clock.h"
#include "common/base/require.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

bool HasField(const google::protobuf::Message& message, const std::string& name) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  return field != nullptr && message.GetReflection()->HasField(message, field);
}

bool IsSet(const DistributedStrategy& strategy, const std::string& knob) {
  return HasField(strategy, knob) || HasField(strategy.build_strategy(), knob) ||
         HasField(strategy.runtime_flags(), knob);
}

}  // namespace

Status PassPipeline::Observe(std::string_view point, const Program& program) const {
  return observer_ ? observer_(point, program) : OkStatus();
}

Status PassPipeline::RunOne(const Pass& pass, Program& program, std::vector<ParamGrad>& grads) {
  TD_REQUIRE(pass.stage != PassStage::kForward || grads.empty());
  PassContext context{strategy_, grads, place_};
  PassReport report;
  report.name = pass.name;
  report.operators_before = program.ops.size();
  report.by_default = !IsSet(strategy_, report.name.substr(0, report.name.find('.')));
  const Time begin = SteadyNow();
  auto outcome = pass.run(program, context);
  if (!outcome.ok()) return Annotate(outcome.status(), std::string("pass ") + pass.name);
  if (const Status status = Verify(program); !status.ok()) {
    return Internal("pass %s made an invalid program: %s", pass.name,
                    std::string(status.message()));
  }
  TD_REQUIRE(outcome->matched >= 0);
  report.milliseconds = 1e3 * Seconds(SteadyNow() - begin);
  report.outcome = *std::move(outcome);
  report.operators_after = program.ops.size();
  reports_.push_back(std::move(report));
  return Observe(pass.name, program);
}

Status PassPipeline::Run(PassStage stage, Program& program, std::vector<ParamGrad>& grads) {
  for (const Pass& pass : AllPasses()) {
    if (pass.stage != stage || !pass.asked(strategy_)) continue;
    TD_RETURN_IF_ERROR(RunOne(pass, program, grads));
  }
  return OkStatus();
}

std::string ReportText(std::span<const PassReport> reports) {
  std::string text;
  for (const PassReport& r : reports) {
    if (r.outcome.matched == 0 && r.by_default) continue;
    text += "pass " + r.name + ": ";
    if (r.outcome.matched == 0) {
      text += "not applied: " + r.outcome.reason + "\n";
      continue;
    }
    text += absl::StrFormat("%d %s, %d -> %d operators, %.1f ms\n", r.outcome.matched,
                            r.outcome.matched == 1 ? "place" : "places", r.operators_before,
                            r.operators_after, r.milliseconds);
  }
  return text;
}

}  // namespace tandem::graph
