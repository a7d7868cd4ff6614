// Binds the follower of a table as `tandem._core.PsFollower`, for tandem.ps.Follower
// (tandem/ps_follower.py).
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

// A follower that Python uses. Only one thread at a time may wait for a change.
class PythonPsFollower {
 public:
  // `closing`: ends the wait of the follower if it is true (ReaderOptions::stop).
  PythonPsFollower(std::unique_ptr<ps::TableFollower> follower,
                   std::shared_ptr<std::atomic<bool>> closing)
      : closing_(std::move(closing)), follower_(std::move(follower)) {}
  ~PythonPsFollower() { Close(); }
  PythonPsFollower(const PythonPsFollower&) = delete;
  PythonPsFollower& operator=(const PythonPsFollower&) = delete;

  // Ends the wait of another thread, then disconnects.
  void Close() {
    *closing_ = true;
    const py::gil_scoped_release release;
    MutexLock lock(mu_);
    follower_.reset();
  }

  // Returns (server, version, replaced, first, ids, values, removed, current, token), or None if
  // there was no change for `timeout` seconds.
  py::object Next(double timeout) {
    std::string token;
    std::optional<ps::TableChange> change =
        ValueOrRaise(RunInterruptibly([&]() -> StatusOr<std::optional<ps::TableChange>> {
          MutexLock lock(mu_);
          if (follower_ == nullptr) {
            return FailedPrecondition("the follower of a table is closed [TD1219]");
          }
          TD_ASSIGN_OR_RETURN(auto next, follower_->Next(FromSeconds(timeout)));
          if (next) token = follower_->token();
          return next;
        }));
    if (!change) return py::none();
    py::array_t<float> values =
        NewArrayOf<float>(change->ids.size(), static_cast<size_t>(change->dim));
    std::copy(change->values.begin(), change->values.end(), values.mutable_data());
    return py::make_tuple(change->server, change->version, ArrayOf<int64_t>(change->replaced),
                          change->first, ArrayOf<int64_t>(change->ids), values,
                          ArrayOf<int64_t>(change->removed), change->current, py::bytes(token));
  }

 private:
  const std::shared_ptr<std::atomic<bool>> closing_;
  Mutex mu_;
  std::unique_ptr<ps::TableFollower> follower_ TD_GUARDED_BY(mu_);  // null: closed
};

std::unique_ptr<PythonPsFollower> Connect(const std::vector<std::string>& servers,
                                          const std::string& table, const std::string& job,
                                          const std::string& secret,
                                          const std::optional<TlsFiles>& tls,
                                          bool insecure_allow_network, double timeout,
                                          const std::string& token, double interval) {
  ps::ReaderOptions options = ReaderOptionsOf(job, secret, tls, insecure_allow_network, timeout);
  const auto closing = std::make_shared<std::atomic<bool>>(false);
  options.stop = [closing] { return *closing || InterruptedBySignal(); };
  ps::FollowOptions follow;
  follow.table = table;
  follow.token = token;
  follow.interval = FromSeconds(interval);
  return std::make_unique<PythonPsFollower>(
      ValueOrRaise(
          RunInterruptibly([&] { return ps::TableFollower::Connect(servers, options, follow); })),
      closing);
}

}  // namespace

void BindPsFollower(py::module_& module) {
  py::class_<PythonPsFollower>(module, "PsFollower", "Follows a table of parameter servers.")
      .def(py::init(&Connect), py::kw_only(), py::arg("servers"), py::arg("table"), py::arg("job"),
           py::arg("secret"), py::arg("tls"), py::arg("insecure_allow_network"), py::arg("timeout"),
           py::arg("token"), py::arg("interval"))
      .def("next", &PythonPsFollower::Next, py::arg("timeout"))
      .def("close", &PythonPsFollower::Close);
}

}  // namespace tandem::python
