// Binds the followers of a table and of dense variables as `tandem._core.PsFollower` and
// `tandem._core.PsVariableFollower`, for tandem.ps (tandem/ps_follower.py).
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/follow/table_follower.h"
#include "pserver/client/follow/variable_follower.h"
#include "trainer/python/bindings.h"
#include "trainer/python/elements.h"
#include "trainer/python/errors.h"
#include "trainer/python/reader_arguments.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

template <typename To, typename From>
py::array_t<To> ArrayOf(const std::vector<From>& values) {
  py::array_t<To> array = NewArrayOf<To>(values.size());
  std::copy(values.begin(), values.end(), array.mutable_data());
  return array;
}

// A follower that Python uses. Only one thread at a time may wait for a change. `F`:
// ps::TableFollower or ps::VariableFollower.
template <typename F>
class ClosingFollower {
 public:
  // `closing`: ends the wait of the follower if it is true (ReaderOptions::stop).
  ClosingFollower(std::unique_ptr<F> follower, std::shared_ptr<std::atomic<bool>> closing)
      : closing_(std::move(closing)), follower_(std::move(follower)) {}
  ~ClosingFollower() { Close(); }
  ClosingFollower(const ClosingFollower&) = delete;
  ClosingFollower& operator=(const ClosingFollower&) = delete;

  // Ends the wait of another thread, then disconnects.
  void Close() {
    *closing_ = true;
    const py::gil_scoped_release release;
    MutexLock lock(mu_);
    follower_.reset();
  }

 protected:
  // Waits for a change. Calls `take` with the follower if there is one, under the lock.
  template <typename Take>
  auto Wait(double timeout, Take take) {
    using Change = std::decay_t<decltype(*follower_->Next(Duration()))>;
    return ValueOrRaise(RunInterruptibly([&]() -> StatusOr<Change> {
      MutexLock lock(mu_);
      if (follower_ == nullptr) return FailedPrecondition("the follower is closed [TD1219]");
      TD_ASSIGN_OR_RETURN(Change next, follower_->Next(FromSeconds(timeout)));
      if (next) take(*follower_, *next);
      return next;
    }));
  }

 private:
  const std::shared_ptr<std::atomic<bool>> closing_;
  Mutex mu_;
  std::unique_ptr<F> follower_ TD_GUARDED_BY(mu_);  // null: closed
};

class PythonPsFollower : public ClosingFollower<ps::TableFollower> {
 public:
  using ClosingFollower::ClosingFollower;

  // Returns (server, version, replaced, first, ids, values, removed, current, token), or None if
  // there was no change for `timeout` seconds.
  py::object Next(double timeout) {
    std::string token;
    const std::optional<ps::TableChange> change =
        Wait(timeout, [&token](const ps::TableFollower& follower, const ps::TableChange&) {
          token = follower.token();
        });
    if (!change) return py::none();
    py::array_t<float> values =
        NewArrayOf<float>(change->ids.size(), static_cast<size_t>(change->dim));
    std::copy(change->values.begin(), change->values.end(), values.mutable_data());
    return py::make_tuple(change->server, change->version, ArrayOf<int64_t>(change->replaced),
                          change->first, ArrayOf<int64_t>(change->ids), values,
                          ArrayOf<int64_t>(change->removed), change->current, py::bytes(token));
  }
};

class PythonPsVariableFollower : public ClosingFollower<ps::VariableFollower> {
 public:
  using ClosingFollower::ClosingFollower;

  // Returns (versions, values of the changed variables by name), or None if there was no change for
  // `timeout` seconds.
  py::object Next(double timeout) {
    std::vector<std::vector<float>> values;
    const std::optional<ps::VariableChange> change = Wait(
        timeout, [&values](const ps::VariableFollower& follower, const ps::VariableChange& next) {
          for (const std::string& name : next.changed) {
            values.push_back(follower.variables().at(name));
          }
        });
    if (!change) return py::none();
    py::dict changed;
    for (size_t i = 0; i < values.size(); ++i) {
      changed[py::str(change->changed[i])] = ArrayOf<float>(values[i]);
    }
    return py::make_tuple(change->versions, changed);
  }
};

std::unique_ptr<PythonPsFollower> Connect(
    const std::vector<std::string>& servers, const std::string& table, const std::string& job,
    const std::string& secret, const std::optional<TlsFiles>& tls, bool insecure_allow_network,
    double timeout, const std::string& token, double interval, std::pair<int, int> buckets,
    std::optional<float> min_score, const std::string& values) {
  ps::ReaderOptions options = ReaderOptionsOf(job, secret, tls, insecure_allow_network, timeout);
  const auto closing = std::make_shared<std::atomic<bool>>(false);
  options.stop = [closing] { return *closing || InterruptedBySignal(); };
  ps::FollowOptions follow;
  follow.table = table;
  follow.token = token;
  follow.interval = FromSeconds(interval);
  follow.bucket_begin = buckets.first;
  follow.bucket_end = buckets.second;
  follow.score_min = min_score;
  follow.format = ValueOrRaise(codec::ParseRowFormat(values));
  return std::make_unique<PythonPsFollower>(
      ValueOrRaise(
          RunInterruptibly([&] { return ps::TableFollower::Connect(servers, options, follow); })),
      closing);
}

std::unique_ptr<PythonPsVariableFollower> ConnectVariables(
    const std::vector<std::string>& servers, const std::vector<std::string>& variables,
    const std::string& job, const std::string& secret, const std::optional<TlsFiles>& tls,
    bool insecure_allow_network, double timeout, uint64_t every, double interval) {
  ps::ReaderOptions options = ReaderOptionsOf(job, secret, tls, insecure_allow_network, timeout);
  const auto closing = std::make_shared<std::atomic<bool>>(false);
  options.stop = [closing] { return *closing || InterruptedBySignal(); };
  const ps::VariableFollowOptions follow{
      .variables = variables, .every = every, .interval = FromSeconds(interval)};
  return std::make_unique<PythonPsVariableFollower>(
      ValueOrRaise(RunInterruptibly(
          [&] { return ps::VariableFollower::Connect(servers, options, follow); })),
      closing);
}

}  // namespace

void BindPsFollower(py::module_& module) {
  py::class_<PythonPsFollower>(module, "PsFollower", "Follows a table of parameter servers.")
      .def(py::init(&Connect), py::kw_only(), py::arg("servers"), py::arg("table"), py::arg("job"),
           py::arg("secret"), py::arg("tls"), py::arg("insecure_allow_network"), py::arg("timeout"),
           py::arg("token"), py::arg("interval"), py::arg("buckets"), py::arg("min_score"),
           py::arg("values"))
      .def("next", &PythonPsFollower::Next, py::arg("timeout"))
      .def("close", &PythonPsFollower::Close);
  py::class_<PythonPsVariableFollower>(module, "PsVariableFollower",
                                       "Follows dense variables of parameter servers.")
      .def(py::init(&ConnectVariables), py::kw_only(), py::arg("servers"), py::arg("variables"),
           py::arg("job"), py::arg("secret"), py::arg("tls"), py::arg("insecure_allow_network"),
           py::arg("timeout"), py::arg("every"), py::arg("interval"))
      .def("next", &PythonPsVariableFollower::Next, py::arg("timeout"))
      .def("close", &PythonPsVariableFollower::Close);
}

}  // namespace tandem::python
