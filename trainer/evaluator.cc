#include "trainer/evaluator.h"

#include <algorithm>
#include <numeric>

namespace tandem {
namespace {

double ReadScalar(const Plan& plan, const std::string& var) {
  const auto tensor = plan.Get(var);
  CHECK(tensor.ok()) << tensor.status();
  return tensor->span<float>()[0];
}

}  // namespace

StatusOr<std::vector<Tensor>> BindFields(const Plan& plan, const Dataset& dataset) {
  std::vector<Tensor> bound;
  for (const SampleField& field : dataset.fields()) {
    const auto tensor = plan.Get(field.name);
    if (!tensor.ok()) {
      return InvalidArgument(
          "the data has a field \"%s\" (%s), but the program has no such data "
          "variable",
          field.name, ToString(field.desc));
    }
    const Shape& shape = tensor->shape();
    const bool fits = tensor->dtype() == field.desc.dtype && shape.rank() >= 1 &&
                      shape.numel(1, shape.rank()) == field.desc.shape.numel();
    if (!fits) {
      return InvalidArgument(
          "data variable \"%s\" of the program is %s, but a sample of the data "
          "is %s",
          field.name, ToString(tensor->desc()), ToString(field.desc));
    }
    bound.push_back(*tensor);
  }
  for (const Var* var : plan.program().VarsOf(VarKind::kData)) {
    const auto& fields = dataset.fields();
    if (std::none_of(fields.begin(), fields.end(),
                     [var](const SampleField& f) { return f.name == var->name; })) {
      return InvalidArgument("the program reads data variable \"%s\", which the data does not have",
                             var->name);
    }
  }
  return bound;
}

StatusOr<Evaluator::Sized*> Evaluator::ForBatch(uint32_t batch) {
  Sized& sized = sized_[batch];
  if (sized.plan != nullptr) return &sized;
  TD_RETURN_IF_ERROR(BindBatch(forward_, batch));
  PlanOptions options;
  options.threads = threads_;
  options.fetch = {forward_.loss};
  if (!forward_.metrics.empty()) options.fetch.push_back(forward_.metrics[0]);
  TD_ASSIGN_OR_RETURN(sized.plan, Plan::Make(forward_, backend_, scope_, nullptr, options));
  sized.executor = std::make_unique<Executor>(*sized.plan);
  sized.fetch = options.fetch;
  TD_ASSIGN_OR_RETURN(const auto bound, BindFields(*sized.plan, dataset_));
  for (const Tensor& tensor : bound) sized.inputs.push_back(tensor.data());
  return &sized;
}

StatusOr<Evaluation> Evaluator::Run() {
  Evaluation total;
  for (uint32_t at = 0; at < dataset_.size(); at += kBatch) {
    const uint32_t batch = std::min(kBatch, dataset_.size() - at);
    TD_ASSIGN_OR_RETURN(Sized * sized, ForBatch(batch));
    std::vector<uint32_t> ids(batch);
    std::iota(ids.begin(), ids.end(), at);
    TD_RETURN_IF_ERROR(dataset_.Fill(ids, sized->inputs));
    TD_RETURN_IF_ERROR(sized->executor->Run());
    total.loss += batch * ReadScalar(*sized->plan, sized->fetch[0]);
    if (sized->fetch.size() > 1) {
      total.metric += batch * ReadScalar(*sized->plan, sized->fetch[1]);
    }
    total.samples += batch;
  }
  total.loss /= static_cast<double>(total.samples);
  total.metric /= static_cast<double>(total.samples);
  return total;
}

}  // namespace tandem
