#include "trainer/modes/pserver_comm.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "trainer/modes/server_silence.h"

namespace tandem::trainer {

PserverComm::PserverComm(const PserverOptions& options, PsTables& tables)
    : options_(options),
      tables_(tables),
      evaluation_(PserverTimeout(options), [this](ps::PsRows rows, exec::CommDone* done) {
        PullToEvaluate(std::move(rows), done);
      }) {}

Duration PserverComm::timeout() const { return PserverTimeout(options_); }

void PserverComm::ForgetStep() {
  pulling_.clear();
  pushing_.clear();
  tables_.DropAhead();
}

void PserverComm::Begin(const TensorMap& values, uint64_t version,
                        const std::vector<std::vector<std::string>>& fragments) {
  TD_REQUIRE(client_ != nullptr);
  version_ = version;
  std::vector<int64_t> sizes;
  for (const ps::PsTensor& t : tensors_) {
    sizes.push_back(t.numel);
    std::ranges::copy(values.at(t.variable).span<float>(), t.data);
  }
  if (options_.regime == PsSyncMode::kGeo) {
    geo_params_ = GeoParameters(tensors_, options_.common.ranks);
  } else if (options_.regime == PsSyncMode::kLocalSteps) {
    local_steps_.emplace(options_.local_steps, fragments, tensors_);
  }
  if (options_.regime != PsSyncMode::kASync) return;
  const auto exchange = [this](const auto* push, auto* pull) { return Exchange(push, pull); };
  communicator_ =
      std::make_unique<AsyncCommunicator>(options_.async, sizes, stale_.Watch(exchange, version_));
}

void PserverComm::BeginStep(int64_t step, float learning_rate) {
  step_ = step;
  version_ = static_cast<uint64_t>(step) + 1;
  learning_rate_ = learning_rate;
}

void PserverComm::PullToEvaluate(ps::PsRows rows, exec::CommDone* done) {
  const ps::PullCondition when{.version = AwaitedVersion(), .exactly = options_.sync()};
  std::vector<ps::PsRows> one;
  one.push_back(std::move(rows));
  client_->PullRows(when, std::move(one), [done](const StatusOr<uint64_t>& version) {
    done->Complete(version.status());
  });
}

StatusOr<int> PserverComm::Register(const exec::CommNode& node) {
  const auto index = static_cast<int>(nodes_.size());
  if (node.op->type == "pull_rows" || node.op->type == "prefetch_rows") {
    nodes_.push_back(Node::kPullRows);
    TD_RETURN_IF_ERROR(tables_.RegisterPull(node));
    return index;
  }
  if (node.op->type == "push_rows") {
    nodes_.push_back(Node::kPushRows);
    TD_RETURN_IF_ERROR(tables_.RegisterPush(node));
    return index;
  }
  if (node.op->type != "push_pull" && node.op->type != "geo_exchange") {
    return Unimplemented("operator %s is not implemented in pserver mode [TD1109]", node.op->type);
  }
  nodes_.push_back(Node::kExchange);
  CHECK_EQ(node.in.size(), node.out.size());
  CHECK(tensors_.empty()) << "more than one exchange in a program";
  for (size_t i = 0; i < node.out.size(); ++i) {
    const exec::CommTensor& param = node.out[i];
    if (param.desc.dtype != DType::kF32) {
      return Unimplemented(
          "parameter \"%s\" has element type %s, but pservers support only f32 [TD1207]", param.var,
          Name(param.desc.dtype));
    }
    const int64_t numel = param.desc.shape.numel();
    gradients_.push_back({param.var, static_cast<const float*>(node.in[i].data), numel});
    tensors_.push_back({param.var, static_cast<float*>(param.data), numel});
  }
  return index;
}

std::vector<ps::PsTensor> PserverComm::View(ValueSets& values) const {
  TD_REQUIRE(values.size() == tensors_.size());
  std::vector<ps::PsTensor> view = tensors_;
  for (size_t i = 0; i < view.size(); ++i) view[i].data = values[i].data();
  return view;
}

StatusOr<uint64_t> PserverComm::Exchange(const GradientSet* push, ValueSets* pull) {
  StatusOr<uint64_t> result = uint64_t{0};
  exec::CommDone done;
  const auto arrived = [&](StatusOr<uint64_t> version) {
    result = std::move(version);
    done.Complete(OkStatus());
  };
  const bool dense = push != nullptr && push->dense_steps > 0;
  auto gradients = dense ? gradients_ : std::vector<ps::PsConstTensor>();
  for (size_t i = 0; dense && i < gradients.size(); ++i) {
    gradients[i].data = push->values[i].data();
  }
  if (tensors_.empty()) pull = nullptr;  // pulls nothing if the job has only tables
  const std::vector<ps::PsConstRows> rows =
      push == nullptr ? std::vector<ps::PsConstRows>() : tables_.View(push->rows);
  pushes_ += push != nullptr ? 1 : 0;
  pulls_ += pull != nullptr ? 1 : 0;
  if (push == nullptr && pull == nullptr) return result;
  if (push == nullptr) {
    client_->Pull(0, View(*pull), arrived);
  } else if (pull == nullptr) {
    client_->Push(
        push->step, push->learning_rate, gradients,
        [&](const Status& status) { done.Complete(status); }, rows, push->event_time_ms);
  } else {
    client_->PushPull(push->step, push->learning_rate, gradients, {}, View(*pull), arrived, rows,
                      push->event_time_ms);
  }
  TD_RETURN_IF_ERROR(done.Wait(Time::max()));  // the deadlines of the client end the wait
  return result;
}

Status PserverComm::SendAndReceive() {
  std::vector<const float*> gradients;
  std::vector<float*> params;
  for (const ps::PsConstTensor& g : gradients_) gradients.push_back(g.data);
  for (const ps::PsTensor& t : tensors_) params.push_back(t.data);
  TD_RETURN_IF_ERROR(communicator_->Send(static_cast<uint64_t>(step_), learning_rate_, gradients,
                                         std::exchange(pushing_, {}), event_time_ms_));
  (void)communicator_->Receive(params);
  return OkStatus();
}

void PserverComm::GeoExchange(exec::CommDone* done) {
  geo_pending_ = 0;
  ++pushes_;
  ++pulls_;
  client_->PushPull(static_cast<uint64_t>(step_), -1.0f, geo_params_.Differences(), {},
                    geo_params_.Pulled(), [this, done](const StatusOr<uint64_t>& version) {
                      if (version.ok()) geo_params_.Take();
                      done->Complete(version.status());
                    });
}

void PserverComm::Start(int index, int64_t, exec::CommDone* done) {
  TD_REQUIRE(client_ != nullptr && index >= 0 && static_cast<size_t>(index) < nodes_.size());
  switch (nodes_[static_cast<size_t>(index)]) {
    case Node::kPullRows:
      return StartPullRows(done);
    case Node::kPushRows:
      return StartPushRows(done);
    case Node::kExchange:
      return StartPushPull(done);
  }
}

// Returns the number of steps that every trainer must have pushed before this trainer continues
// after its first `done` steps. 0: this trainer waits for no other trainer.
uint64_t PserverComm::StepBound(uint64_t done) const {
  const int64_t bound = options_.regime == PsSyncMode::kHalfAsync ? options_.max_staleness : -1;
  if (bound < 0) return 0;
  return done - std::min(done, static_cast<uint64_t>(bound));
}

void PserverComm::StartPullRows(exec::CommDone* done) {
  pulling_.push_back(done);
  if (pulling_.size() < tables_.size()) return;
  const auto complete = [all = std::exchange(pulling_, {})](const Status& status) {
    for (exec::CommDone* one : all) one->Complete(status);
  };
  StatusOr<std::vector<ps::PsRows>> rows = tables_.Batch();
  if (!rows.ok()) return complete(rows.status());
  const auto step = static_cast<uint64_t>(step_);
  const ps::PullCondition when{
      .version = options_.sync() ? step : 0, .step = StepBound(step), .exactly = options_.sync()};
  if (!options_.sync() || !tables_.GiveAhead(step, *rows, complete)) {
    client_->PullRows(when, *std::move(rows), [complete](const StatusOr<uint64_t>& version) {
      complete(version.status());
    });
  }
  tables_.Foresee(std::exchange(next_, {}));  // predicts the next rows during the pull
}

// Copies the gradient, because the rows are sent later: together with the dense gradients, in one
// message per server and step.
void PserverComm::StartPushRows(exec::CommDone* done) {
  StatusOr<RowSet> rows = tables_.CopyGradient(pushing_.size());
  if (!rows.ok()) return done->Complete(rows.status());
  pushing_.push_back(*std::move(rows));
  if (pushing_.size() == tables_.size() && tensors_.empty()) return StartPushPull(done);
  done->Complete(OkStatus());
}

void PserverComm::StartPushPull(exec::CommDone* done) {
  const auto step = static_cast<uint64_t>(step_);
  if (options_.regime == PsSyncMode::kASync) return done->Complete(SendAndReceive());
  if (local_steps_) return local_steps_->AfterStep(*client_, step_, done);
  if (options_.regime == PsSyncMode::kGeo) {
    if (++geo_pending_ < options_.geo_steps) return done->Complete(OkStatus());
    return GeoExchange(done);
  }
  const std::vector<RowSet> pushed = std::exchange(pushing_, {});
  const std::vector<ps::PsConstRows> rows = tables_.View(pushed);
  ++pushes_;
  if (tensors_.empty()) {
    return client_->Push(
        step, learning_rate_, {}, [done](const Status& status) { done->Complete(status); }, rows,
        event_time_ms_);
  }
  ++pulls_;
  const ps::PullCondition when{.version = options_.sync() ? step + 1 : 0,
                               .step = StepBound(step + 1)};
  client_->PushPull(
      step, learning_rate_, gradients_, when, tensors_,
      [done](const StatusOr<uint64_t>& version) { done->Complete(version.status()); }, rows,
      event_time_ms_);
  if (options_.sync()) tables_.AskAhead(*client_, step + 1);
}

Status PserverComm::Finish() {
  if (communicator_) TD_RETURN_IF_ERROR(communicator_->Finish());
  if (local_steps_) return local_steps_->Finish(*client_, step_);
  if (geo_pending_ == 0) return OkStatus();
  exec::CommDone done;
  GeoExchange(&done);
  return done.Wait(Time::max());
}

}  // namespace tandem::trainer
