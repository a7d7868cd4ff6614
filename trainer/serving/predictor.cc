#include "trainer/serving/predictor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/require.h"

namespace tandem::trainer {

PrefetchHandler::Pull Predictor::RowPull() {
  // The predictor's thread waits here, so the rows of a batch's tables are read one after another.
  return [this](ps::PsRows rows, exec::CommDone* done) {
    const auto table =
        std::ranges::find(model_.tables, std::string_view(rows.variable), &ServedTable::name);
    TD_REQUIRE(table != model_.tables.end());
    done->Complete(source_.ReadRows(*table, rows.ids, rows.to));
  };
}

StatusOr<Predictor::Sized*> Predictor::PlanFor(int64_t samples) {
  TD_REQUIRE(samples > 0);
  const auto batch = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(samples)));
  const auto found = sized_.find(batch);
  if (found != sized_.end()) return &found->second;
  graph::Program program = model_.program;
  TD_RETURN_IF_ERROR(graph::BindBatch(program, batch));
  exec::PlanOptions options;
  for (const ServedTensor& output : model_.outputs) options.fetch.push_back(output.name);
  Sized sized;
  TD_ASSIGN_OR_RETURN(sized.plan,
                      exec::Plan::Make(program, exec::Backend::Cpu(), scope_,
                                       model_.tables.empty() ? nullptr : &rows_, options));
  for (const ServedTensor& input : model_.inputs) {
    TD_ASSIGN_OR_RETURN(sized.inputs.emplace_back(), sized.plan->Get(input.name));
  }
  for (const ServedTensor& output : model_.outputs) {
    TD_ASSIGN_OR_RETURN(sized.outputs.emplace_back(), sized.plan->Get(output.name));
  }
  sized.executor = std::make_unique<exec::Executor>(*sized.plan);
  return &sized_.emplace(batch, std::move(sized)).first->second;
}

StatusOr<std::vector<Prediction>> Predictor::Run(std::span<const PredictRequest> requests) {
  int64_t samples = 0;
  for (const PredictRequest& request : requests) samples += request.samples;
  TD_ASSIGN_OR_RETURN(Sized* const sized, PlanFor(samples));
  for (size_t i = 0; i < model_.inputs.size(); ++i) {
    auto* const begin = static_cast<std::byte*>(sized->inputs[i].data());
    std::byte* to = begin;
    for (const PredictRequest& request : requests) {
      TD_REQUIRE(request.inputs.size() == model_.inputs.size());
      std::memcpy(to, request.inputs[i].data(), request.inputs[i].size());
      to += request.inputs[i].size();
    }
    // The plan has room for more samples. They repeat the first sample, so that ids are valid and
    // no further row is read.
    const size_t sample = model_.inputs[i].sample.bytes();
    TD_REQUIRE(to == begin + static_cast<size_t>(samples) * sample);
    for (; to < begin + sized->inputs[i].bytes(); to += sample) std::memcpy(to, begin, sample);
  }
  TD_RETURN_IF_ERROR(sized->executor->Run());
  std::vector<Prediction> predictions(requests.size());
  for (size_t i = 0; i < model_.outputs.size(); ++i) {
    const size_t sample = model_.outputs[i].sample.bytes();
    const auto* from = static_cast<const std::byte*>(sized->outputs[i].data());
    for (size_t r = 0; r < requests.size(); ++r) {
      const size_t bytes = static_cast<size_t>(requests[r].samples) * sample;
      predictions[r].outputs.emplace_back(from, from + bytes);
      from += bytes;
    }
  }
  return predictions;
}

}  // namespace tandem::trainer
