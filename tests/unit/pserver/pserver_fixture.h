// Servers and clients in one process, over loopback, and a small model that they train.
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"

namespace tandem::pserver {

// Waits for a single callback and returns its value.
template <typename T>
class Answer {
 public:
  std::function<void(T)> Callback() {
    return [this](T value) {
      MutexLock lock(mu_);
      value_ = std::move(value);
      cv_.NotifyAll();
    };
  }
  T Get() {
    MutexLock lock(mu_);
    const Time deadline = SteadyNow() + std::chrono::seconds(30);
    while (!value_ && cv_.WaitUntil(mu_, deadline)) {
    }
    CHECK(value_.has_value()) << "no answer";
    return *value_;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  std::optional<T> value_ TD_GUARDED_BY(mu_);
};

inline Status PushAndWait(ps::PsClient& client, uint64_t step, float rate,
                          const std::vector<ps::PsConstTensor>& g) {
  Answer<Status> answer;
  client.Push(step, rate, g, answer.Callback());
  return answer.Get();
}
inline StatusOr<uint64_t> PullAndWait(ps::PsClient& client, uint64_t version,
                                      const std::vector<ps::PsTensor>& p) {
  Answer<StatusOr<uint64_t>> answer;
  client.Pull(version, p, answer.Callback());
  return answer.Get();
}

// The parameters of a small model, and its gradients, which depend on trainer, step and parameters.
struct Model {
  std::vector<ps::PsVariable> variables = {
      {"fc_0.w", Shape{37, 11}}, {"fc_0.b", Shape{11}}, {"fc_1.w", Shape{11, 5}}};
  std::vector<std::vector<float>> params;

  Model() {
    for (const ps::PsVariable& v : variables) {
      params.emplace_back(static_cast<size_t>(v.shape.numel()));
      for (size_t i = 0; i < params.back().size(); ++i) {
        params.back()[i] = std::sin(static_cast<float>(i + 1));
      }
    }
  }
  std::vector<ps::PsTensor> Tensors() {
    std::vector<ps::PsTensor> all;
    for (size_t v = 0; v < variables.size(); ++v) {
      all.push_back({variables[v].name, params[v].data(), static_cast<int64_t>(params[v].size())});
    }
    return all;
  }
  std::vector<std::vector<float>> Gradients(int trainer, uint64_t step) const {
    std::vector<std::vector<float>> g = params;
    for (auto& values : g) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = values[i] * 0.3f + std::cos(static_cast<float>(i * (trainer + 2) + step)) / 3;
      }
    }
    return g;
  }
  std::vector<ps::PsConstTensor> View(const std::vector<std::vector<float>>& g) const {
    std::vector<ps::PsConstTensor> all;
    for (size_t v = 0; v < variables.size(); ++v) {
      all.push_back({variables[v].name, g[v].data(), static_cast<int64_t>(g[v].size())});
    }
    return all;
  }
};

class PserverTest : public testing::Test {
 protected:
  PserverTest() : dir_(testing::TempDir() + "/pserver_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~PserverTest() override { std::filesystem::remove_all(dir_); }

  void StartServers(int count, PserverOptions options = {}) {
    for (int i = 0; i < count; ++i) {
      options.index = i;
      auto server = Pserver::Start(options, metrics_);
      ASSERT_TRUE(server.ok()) << server.status();
      endpoints_.push_back(ToString((*server)->endpoint()));
      servers_.push_back(*std::move(server));
    }
  }
  StatusOr<std::unique_ptr<ps::PsClient>> Client(int trainer, int trainers,
                                                 ps::PsOptions options = {}) {
    options.trainer = trainer;
    options.trainers = trainers;
    options.partition.min_block_size = 64;
    return ps::PsClient::Connect(endpoints_, options);
  }

  std::string dir_;
  Metrics metrics_;
  std::vector<std::unique_ptr<Pserver>> servers_;
  std::vector<std::string> endpoints_;
};

// Computes the same step in one process: adds the gradients of both trainers, then applies
// momentum.
inline void SerialStep(Model& model, std::vector<std::vector<float>>& velocity, uint64_t step,
                       float rate) {
  const auto a = model.Gradients(0, step), b = model.Gradients(1, step);
  for (size_t v = 0; v < model.params.size(); ++v) {
    for (size_t i = 0; i < model.params[v].size(); ++i) {
      const float g = a[v][i] + b[v][i];
      velocity[v][i] = 0.9f * velocity[v][i] + g;
      model.params[v][i] = model.params[v][i] - rate * velocity[v][i];
    }
  }
}

inline void TrainSync(ps::PsClient* client, Model* model, int trainer, uint64_t from, uint64_t to,
                      Status* result) {
  *result = [&]() -> Status {
    for (uint64_t step = from; step < to; ++step) {
      const auto g = model->Gradients(trainer, step);
      // Pushes as a backward pass does: one push per variable, beginning with the last variable.
      // All pushes are in progress at the same time.
      std::vector<Answer<Status>> pushed(g.size());
      const auto view = model->View(g);
      for (size_t v = g.size(); v-- > 0;) {
        client->Push(step, 0.05f, {view[v]}, pushed[v].Callback());
      }
      const StatusOr<uint64_t> version = PullAndWait(*client, step + 1, model->Tensors());
      Status sent;
      for (auto& p : pushed) {
        if (const Status one = p.Get(); !one.ok()) sent = one;
      }
      TD_RETURN_IF_ERROR(sent);
      if (!version.ok()) return version.status();
      if (*version != step + 1) return Internal("version %d after step %d", *version, step);
    }
    return OkStatus();
  }();
}

}  // namespace tandem::pserver
