#include "trainer/python/pserver_call.h"

#include <chrono>
#include <utility>

#include "common/base/require.h"
#include "trainer/python/errors.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

// Interval at which a wait looks for signals.
constexpr auto kSignalInterval = std::chrono::milliseconds(100);

bool HasEnded(const SharedPsClient::Result& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

void SharedPsClient::Close() {
  {
    const py::gil_scoped_release release;
    client_.reset();
  }
  closed_ = true;
  // The destructors of arrays may call Python code, which may call this object.
  const auto running = std::exchange(running_, {});
  const auto of_failed = std::exchange(of_failed_, {});
}

void SharedPsClient::Keep(const Result& result, PsCallArrays arrays) {
  if (closed_) return;
  if (!HasEnded(result)) {
    running_.push_back({result, std::move(arrays)});
  } else if (!result.get().ok()) {
    of_failed_.insert(of_failed_.end(), arrays.sent.begin(), arrays.sent.end());
  }
}

void SharedPsClient::KeepUntilClosed(py::object array) {
  if (!closed_) of_failed_.push_back(std::move(array));
}

void SharedPsClient::CloseAfter(const std::string& call) {
  interrupted_call_ = call;
  Close();
}

void SharedPsClient::Sweep() {
  auto running = std::exchange(running_, {});
  for (Running& call : running) Keep(call.result, std::move(call.arrays));
}

PythonPsCall::PythonPsCall(std::shared_ptr<SharedPsClient> client, PsCallArrays arrays,
                           const Start& start)
    : client_(std::move(client)), arrays_(std::move(arrays)) {
  TD_REQUIRE(client_->get() != nullptr);
  // Another thread may close the client as soon as this thread does not have the GIL.
  ps::PsClient& open = *client_->get();
  const auto result = std::make_shared<std::promise<StatusOr<uint64_t>>>();
  result_ = result->get_future().share();
  const py::gil_scoped_release release;
  start(open, [result](StatusOr<uint64_t> version) { result->set_value(std::move(version)); });
}

PythonPsCall::~PythonPsCall() { client_->Keep(result_, std::move(arrays_)); }

uint64_t PythonPsCall::Wait() {
  while (!HasEnded(result_)) {
    {
      const py::gil_scoped_release release;
      result_.wait_for(kSignalInterval);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  client_->Keep(result_, std::exchange(arrays_, {}));
  return ValueOrRaise(result_.get());
}

}  // namespace tandem::python
