// Binds the client of parameter servers as `tandem._core.PsClient`, for the tables of PyTorch
// models (tandem/torch/table_optimizer.py).
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "pserver/client/client.h"
#include "trainer/python/bindings.h"
#include "trainer/python/durations.h"
#include "trainer/python/elements.h"
#include "trainer/python/errors.h"
#include "trainer/python/interrupts.h"
#include "trainer/python/keywords.h"
#include "trainer/python/pserver_call.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

using NamedArrays = std::map<std::string, py::buffer>;
using TableDefinition =
    std::tuple<std::string, int64_t, int64_t, std::string, float, float, uint64_t, std::string>;
// A table, ids, and the values of these rows.
using RowArrays = std::vector<std::tuple<std::string, py::buffer, py::buffer>>;

// Bounded by the time limits of calls: a restarted server is found as long as a call may wait.
constexpr int kRetries = 1 << 20;

std::vector<ps::PsTensor> TensorsOf(const NamedArrays& arrays) {
  std::vector<ps::PsTensor> tensors;
  for (const auto& [name, array] : arrays) {
    const auto values = Floats(array, name);
    tensors.push_back({name, values.data(), static_cast<int64_t>(values.size())});
  }
  return tensors;
}

std::vector<ps::PsConstTensor> ConstTensorsOf(const NamedArrays& arrays) {
  std::vector<ps::PsConstTensor> tensors;
  for (const auto& [name, array] : arrays) {
    const auto values = ConstFloats(array, name);
    tensors.push_back({name, values.data(), static_cast<int64_t>(values.size())});
  }
  return tensors;
}

ps::PsTable TableOf(const TableDefinition& given) {
  ps::PsTable table;
  std::string init;
  std::tie(table.variable, table.height, table.dim, init, table.a, table.b, table.seed,
           table.rules) = given;
  const size_t kind = Position(kInitKinds, init, "init of table " + table.variable);
  table.init = static_cast<ps::PsTable::InitKind>(kind);
  return table;
}

ps::PsOptimizer OptimizerOf(const std::string& type, const py::dict& attrs) {
  ps::PsOptimizer optimizer;
  optimizer.type = type;
  for (const auto& [key, value] : attrs) {
    auto& attr = optimizer.attrs[py::str(key)];
    if (py::isinstance<py::bool_>(value)) {
      attr = value.cast<bool>();
    } else if (py::isinstance<py::int_>(value)) {
      attr = value.cast<int64_t>();
    } else if (py::isinstance<py::float_>(value)) {
      attr = value.cast<double>();
    } else if (py::isinstance<py::str>(value)) {
      attr = value.cast<std::string>();
    } else {
      throw StatusError(InvalidArgument(
          "attribute %s of optimizer %s is a %s, expected bool, int, float or str [TD1206]",
          std::string(py::str(key)), type, std::string(py::str(py::type::of(value)))));
    }
  }
  return optimizer;
}

ps::PsMode ParseMode(const std::string& mode) {
  if (mode == "sync") return ps::PsMode::kSync;
  if (mode == "a_sync") return ps::PsMode::kASync;
  throw StatusError(InvalidArgument("mode is \"%s\", expected sync or a_sync [TD1006]", mode));
}

// A client that Python uses. Use it from one thread at a time.
class PythonPsClient {
 public:
  PythonPsClient(const std::vector<std::string>& servers, ps::PsOptions options) {
    options.patience.retries = kRetries;
    options.callbacks.stop = options.callbacks.interrupted = InterruptedBySignal;
    shared_ = std::make_shared<SharedPsClient>(ValueOrRaise(
        RunInterruptibly([&] { return ps::PsClient::Connect(servers, std::move(options)); })));
  }
  ~PythonPsClient() { Close(); }
  PythonPsClient(const PythonPsClient&) = delete;
  PythonPsClient& operator=(const PythonPsClient&) = delete;

  // Ends the calls in progress and disconnects. Calls that still run fail.
  void Close() { shared_->Close(); }

  // Returns (initialised, restored, version) as PsState.
  py::tuple Configure(const std::map<std::string, std::vector<int64_t>>& variables,
                      const std::string& optimizer, const py::dict& attrs, const std::string& mode,
                      const std::vector<TableDefinition>& tables) {
    std::vector<ps::PsVariable> shapes;
    for (const auto& [name, shape] : variables) shapes.push_back({name, Shape(shape)});
    std::vector<ps::PsTable> definitions;
    for (const TableDefinition& table : tables) {
      definitions.push_back(TableOf(table));
      dims_[definitions.back().variable] = definitions.back().dim;
    }
    mode_ = ParseMode(mode);
    const ps::PsOptimizer kind = OptimizerOf(optimizer, attrs);
    const auto state = Beginning<ps::PsState>("configure", [&](ps::PsClient& client) {
      return client.Configure(shapes, mode_, kind, definitions);
    });
    return py::make_tuple(state.initialised, state.restored, state.version);
  }

  uint64_t InitOrFetch(const NamedArrays& params, uint64_t version) {
    const std::vector<ps::PsTensor> tensors = TensorsOf(params);
    try {
      return Beginning<uint64_t>("init_or_fetch", [&](ps::PsClient& client) {
        return client.InitOrFetch(tensors, version);
      });
    } catch (...) {
      // After an error of a server, the client may still use the arrays.
      for (const auto& [name, array] : params) shared_->KeepUntilClosed(array);
      throw;
    }
  }

  // Starts a push, and a pull of `params` after it (sync: after the step). The version of the call
  // is that of the pull; without params it is step + 1.
  std::unique_ptr<PythonPsCall> PushPull(uint64_t step, float learning_rate,
                                         const NamedArrays& gradients, const NamedArrays& params,
                                         const RowArrays& rows, int64_t event_time_ms) {
    PsCallArrays arrays;
    for (const auto& [name, array] : gradients) arrays.sent.push_back(array);
    for (const auto& [name, array] : params) arrays.received.push_back(array);
    std::vector<ps::PsConstRows> views;
    for (const auto& [table, ids, values] : rows) {
      const auto view = Ids(ids, table);
      const auto floats = ConstFloats(values, table);
      RequireRows(table, view.size(), floats.size());
      views.push_back({table, view, floats.data()});
    }
    const ps::PullCondition when{.version = mode_ == ps::PsMode::kSync ? step + 1 : 0};
    const std::vector<ps::PsConstTensor> sent = ConstTensorsOf(gradients);
    const std::vector<ps::PsTensor> received = TensorsOf(params);
    return Start(std::move(arrays), [&](ps::PsClient& client, ps::PsClient::DoneVersion done) {
      if (!received.empty()) {
        client.PushPull(step, learning_rate, sent, when, received, std::move(done), views,
                        event_time_ms);
        return;
      }
      const auto pushed = [done = std::move(done), step](const Status& status) {
        done(status.ok() ? StatusOr<uint64_t>(step + 1) : StatusOr<uint64_t>(status));
      };
      client.Push(step, learning_rate, sent, pushed, views, event_time_ms);
    });
  }

  // Starts a pull of rows of several tables into the arrays of values: at `version` or later, or at
  // exactly this version.
  std::unique_ptr<PythonPsCall> PullRows(uint64_t version, bool exactly, const RowArrays& rows) {
    PsCallArrays arrays;
    std::vector<ps::PsRows> wanted;
    for (const auto& [table, ids, values] : rows) {
      const auto view = Ids(ids, table);
      const auto floats = Floats(values, table);
      const size_t dim = RequireRows(table, view.size(), floats.size());
      ps::PsRows& one = wanted.emplace_back();
      one.variable = table;
      one.ids.assign(view.begin(), view.end());
      one.to.reserve(view.size());
      for (size_t i = 0; i < view.size(); ++i) one.to.push_back(floats.data() + i * dim);
      arrays.received.push_back(values);
    }
    return Start(std::move(arrays), [&](ps::PsClient& client, ps::PsClient::DoneVersion done) {
      client.PullRows({.version = version, .exactly = exactly}, std::move(wanted), std::move(done));
    });
  }

  // Returns (ids, values) of all rows of a table that had a gradient, ids ascending.
  py::tuple PullTable(const std::string& table, uint64_t version) {
    const auto rows = Blocking<ps::PsTableRows>(
        [&](ps::PsClient& client) { return client.PullTable(table, false, version); });
    const auto dim = static_cast<size_t>(DimOf(table));
    const std::vector<size_t> begins = rows.Begins();
    std::vector<size_t> order(rows.ids.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&rows](size_t a, size_t b) { return rows.ids[a] < rows.ids[b]; });
    auto ids = NewArrayOf<int64_t>(order.size());
    auto values = NewArrayOf<float>(order.size(), dim);
    float* to = values.mutable_data();
    for (size_t i = 0; i < order.size(); ++i, to += dim) {
      const size_t at = order[i];
      ids.mutable_data()[i] = static_cast<int64_t>(rows.ids[at]);
      const size_t stored = std::min(dim, begins[at + 1] - begins[at]);  // less in a brief row
      std::fill(std::copy_n(rows.content.data() + begins[at], stored, to), to + dim, 0.0F);
    }
    return py::make_tuple(ids, values);
  }

  uint64_t Save() {
    return Blocking<uint64_t>([](ps::PsClient& client) { return client.Save(); });
  }
  void Complete() {
    ps::PsClient& client = Open();
    RaiseIfError(RunInterruptibly([&client] { return client.Complete(); }));
  }
  int ShmServers() { return Open().shm_servers(); }
  // Returns the numbers of rows that pulls found and did not find in the row cache.
  std::pair<uint64_t, uint64_t> CacheCounts() {
    const ps::PsCacheCounts counts = Open().row_cache();
    return {counts.hits, counts.misses};
  }

 private:
  ps::PsClient& Open() {
    if (shared_->get() == nullptr && shared_->interrupted_call().empty()) {
      throw StatusError(FailedPrecondition("the client of parameter servers is closed [TD1219]"));
    }
    if (shared_->get() == nullptr) {
      throw StatusError(FailedPrecondition(
          "the client of parameter servers cannot be used, because Ctrl-C ended its call %s "
          "[TD1219]; hint: make another client",
          shared_->interrupted_call()));
    }
    return *shared_->get();
  }

  template <typename T>
  T Blocking(const std::function<StatusOr<T>(ps::PsClient&)>& call) {
    ps::PsClient& client = Open();
    return ValueOrRaise(RunInterruptibly([&] { return call(client); }));
  }

  // Like Blocking, for a call that must succeed before other calls: if Ctrl-C ends it, the client
  // is closed. `name`: name of the call in Python.
  template <typename T>
  T Beginning(const char* name, const std::function<StatusOr<T>(ps::PsClient&)>& call) {
    try {
      return Blocking<T>(call);
    } catch (const py::error_already_set&) {
      shared_->CloseAfter(name);
      throw;
    }
  }

  std::unique_ptr<PythonPsCall> Start(PsCallArrays arrays, const PythonPsCall::Start& call) {
    // The destructors of arrays may call Python code, which may close the client.
    shared_->Sweep();
    (void)Open();
    return std::make_unique<PythonPsCall>(shared_, std::move(arrays), call);
  }

  // Returns the number of values of a row.
  int64_t DimOf(const std::string& table) const {
    const auto found = dims_.find(table);
    if (found != dims_.end()) return found->second;
    throw StatusError(NotFound("there is no table \"%s\" [TD1207]", table));
  }
  // Returns the number of values of a row. Checks that the arrays fit each other.
  size_t RequireRows(const std::string& table, size_t ids, size_t floats) const {
    const auto dim = static_cast<size_t>(DimOf(table));
    if (ids * dim == floats) return dim;
    throw StatusError(InvalidArgument("table %s: %d values for %d rows of %d values [TD1206]",
                                      table, floats, ids, dim));
  }

  std::shared_ptr<SharedPsClient> shared_;
  ps::PsMode mode_ = ps::PsMode::kSync;
  std::map<std::string, int64_t> dims_;  // values of a row, by table
};

std::unique_ptr<PythonPsClient> Connect(
    const std::vector<std::string>& servers, const std::string& job, int trainer, int trainers,
    const std::string& secret,
    const std::optional<std::tuple<std::string, std::string, std::string>>& tls,
    bool insecure_allow_network, double start_timeout, double step_timeout,
    uint64_t row_cache_bytes, uint64_t row_cache_versions) {
  ps::PsOptions options;
  options.job = job;
  options.trainer = trainer;
  options.trainers = trainers;
  options.security.secret = secret;
  if (tls.has_value()) {
    options.security.tls = {
        .cert = std::get<0>(*tls), .key = std::get<1>(*tls), .ca = std::get<2>(*tls)};
  }
  options.security.insecure_allow_network = insecure_allow_network;
  options.patience.start_timeout = FromSeconds(start_timeout);
  options.patience.step_timeout = FromSeconds(step_timeout);
  options.row_cache.bytes = row_cache_bytes;
  options.row_cache.versions = row_cache_versions;
  return std::make_unique<PythonPsClient>(servers, std::move(options));
}

}  // namespace

void BindPserver(py::module_& module) {
  py::class_<PythonPsCall>(module, "PsCall", "A running call to parameter servers.")
      .def("wait", &PythonPsCall::Wait);
  py::class_<PythonPsClient>(module, "PsClient", "The client of one trainer for its servers.")
      .def(py::init(&Connect), py::kw_only(), py::arg("servers"), py::arg("job"),
           py::arg("trainer"), py::arg("trainers"), py::arg("secret"), py::arg("tls"),
           py::arg("insecure_allow_network"), py::arg("start_timeout"), py::arg("step_timeout"),
           py::arg("row_cache_bytes"), py::arg("row_cache_versions"))
      .def("configure", &PythonPsClient::Configure, py::arg("variables"), py::arg("optimizer"),
           py::arg("attrs"), py::arg("mode"), py::arg("tables"))
      .def("init_or_fetch", &PythonPsClient::InitOrFetch, py::arg("params"), py::arg("version") = 0)
      .def("push_pull", &PythonPsClient::PushPull, py::arg("step"), py::arg("learning_rate"),
           py::arg("gradients"), py::arg("params"), py::arg("rows"), py::arg("event_time_ms") = 0)
      .def("pull_rows", &PythonPsClient::PullRows, py::arg("version"), py::arg("exactly"),
           py::arg("rows"))
      .def("pull_table", &PythonPsClient::PullTable, py::arg("table"), py::arg("version") = 0)
      .def("save", &PythonPsClient::Save)
      .def("complete", &PythonPsClient::Complete)
      .def("close", &PythonPsClient::Close)
      .def_property_readonly("shm_servers", &PythonPsClient::ShmServers)
      .def_property_readonly("cache_counts", &PythonPsClient::CacheCounts);
}

}  // namespace tandem::python
