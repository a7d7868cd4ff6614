// An example of a C++ client of parameter servers. The client fits y = 2 x - 1 by gradient descent.
// The weight and the bias are on the servers. Usage: client HOST:PORT...
#include <cmath>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "pserver/client/client.h"

namespace {

using tandem::Status;
using tandem::StatusOr;
using tandem::ps::PsClient;

struct Line {
  float weight = 0, bias = 0;
};

// Returns the gradient of the mean of (weight x + bias - y)^2 / 2 over x = -1, -0.9, ..., 1.
Line Gradient(const Line& at) {
  Line sum;
  int count = 0;
  for (int i = -10; i <= 10; ++i, ++count) {
    const float x = static_cast<float>(i) / 10, y = 2 * x - 1;
    const float off = at.weight * x + at.bias - y;
    sum.weight += off * x;
    sum.bias += off;
  }
  return {sum.weight / static_cast<float>(count), sum.bias / static_cast<float>(count)};
}

// Sends the gradient of a step and blocks until the updated parameters are in `line`. Returns the
// result of PushPull.
StatusOr<uint64_t> Step(PsClient& client, uint64_t step, const Line& gradient, Line* line) {
  std::promise<StatusOr<uint64_t>> done;
  client.PushPull(step, /*learning_rate=*/0.5f,
                  {{"weight", &gradient.weight, 1}, {"bias", &gradient.bias, 1}},
                  {.version = step + 1}, {{"weight", &line->weight, 1}, {"bias", &line->bias, 1}},
                  [&done](StatusOr<uint64_t> version) { done.set_value(std::move(version)); });
  return done.get_future().get();
}

Status Fit(const std::vector<std::string>& servers, Line* line) {
  tandem::PsOptions options;
  options.job = "line";
  StatusOr<std::unique_ptr<PsClient>> client = PsClient::Connect(servers, options);
  if (!client.ok()) return client.status();
  const auto state = (*client)->Configure({{"weight", {1}}, {"bias", {1}}}, tandem::PsMode::kSync,
                                          {.type = "sgd"});
  if (!state.ok()) return state.status();
  const tandem::PsTensor params[] = {{"weight", &line->weight, 1}, {"bias", &line->bias, 1}};
  StatusOr<uint64_t> step = (*client)->InitOrFetch(params);
  while (step.ok() && *step < 100) step = Step(**client, *step, Gradient(*line), line);
  if (!step.ok()) return step.status();
  return (*client)->Complete();
}

}  // namespace

int main(int argc, char** argv) {
  Line line;
  const Status status = Fit({argv + 1, argv + argc}, &line);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", tandem::ToString(status).c_str());
    return 1;
  }
  std::printf("y = %.4f x + %.4f\n", line.weight, line.bias);
  return std::abs(line.weight - 2) < 1e-3 && std::abs(line.bias + 1) < 1e-3 ? 0 : 1;
}
