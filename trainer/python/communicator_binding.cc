// Binds communicators of host memory as `tandem._core.Communicator`, for the process groups of
// PyTorch (tandem/torch/process_group.py).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "collective/host/connect.h"
#include "common/base/clock.h"
#include "trainer/python/bindings.h"
#include "trainer/python/durations.h"
#include "trainer/python/errors.h"
#include "trainer/python/interrupts.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using collective::Collective;
using collective::CollectiveOp;
using collective::Communicator;

// Interval at which a wait looks for signals.
constexpr auto kSignalInterval = std::chrono::milliseconds(100);

// Returns the time `seconds` from now, or no limit for a missing number.
Time DeadlineAfter(std::optional<double> seconds) {
  return seconds.has_value() ? SteadyNow() + FromSeconds(*seconds) : Time::max();
}

CollectiveOp ParseOp(const std::string& name) {
  for (const auto op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduce, CollectiveOp::kBroadcast,
        CollectiveOp::kAllGather, CollectiveOp::kBarrier, CollectiveOp::kReduceScatter,
        CollectiveOp::kAllToAll, CollectiveOp::kSendRecv}) {
    if (name == collective::Name(op)) return op;
  }
  throw StatusError(InvalidArgument("unknown collective operation \"%s\"", name));
}

ReduceOp ParseReduce(const std::string& name) {
  for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd}) {
    if (name == Name(op)) return op;
  }
  throw StatusError(
      InvalidArgument("unknown reduction \"%s\", expected sum, max, min or prod", name));
}

// Returns the number of elements that the buffers of a call must have in units of `count`.
size_t Parts(CollectiveOp op, bool output, size_t ranks) {
  switch (op) {
    case CollectiveOp::kAllGather:
      return output ? ranks : 1;
    case CollectiveOp::kReduceScatter:
      return output ? 1 : ranks;
    case CollectiveOp::kAllToAll:
      return ranks;
    default:
      return 1;
  }
}

// The address and size of a buffer of Python, which must be contiguous.
struct Bytes {
  void* data = nullptr;
  size_t size = 0;
};

Bytes BytesOf(const py::buffer& buffer, bool writable) {
  const py::buffer_info info = buffer.request(writable);
  py::ssize_t stride = info.itemsize;
  for (py::ssize_t i = info.ndim; i-- > 0; stride *= info.shape[i]) {
    if (info.shape[i] > 1 && info.strides[i] != stride) {
      throw StatusError(InvalidArgument("a buffer of a collective is not contiguous"));
    }
  }
  return {info.ptr, static_cast<size_t>(info.size * info.itemsize)};
}

// A running operation and the Python buffers that it uses. The destructor waits for the end of the
// operation, because the operation uses the buffers until then.
class PythonWork {
 public:
  PythonWork(const std::shared_ptr<Communicator>& communicator,
             std::shared_ptr<collective::Work> work, std::vector<py::object> buffers)
      : communicator_(communicator), work_(std::move(work)), buffers_(std::move(buffers)) {}
  ~PythonWork() {
    if (work_->finished()) return;
    const py::gil_scoped_release release;
    const std::shared_ptr<Communicator> communicator = communicator_.lock();
    if (interrupted_ && communicator) {
      communicator->Abort("Ctrl-C ended the wait for an operation");
    }
    (void)work_->Wait(Time::max());  // the operation has a deadline
  }
  PythonWork(const PythonWork&) = delete;
  PythonWork& operator=(const PythonWork&) = delete;

  // Blocks until the operation has ended. Throws StatusError: the operation failed, or `timeout`
  // seconds have passed. If a signal handler of Python raises an exception (KeyboardInterrupt),
  // throws this exception, and the operation continues until the work is destroyed.
  void Wait(std::optional<double> timeout) {
    const Time deadline = DeadlineAfter(timeout);
    RaiseIfError(RunInterruptibly([this, deadline] {
      while (!work_->finished() && SteadyNow() + kSignalInterval < deadline) {
        (void)work_->Wait(SteadyNow() + kSignalInterval);
        if (work_->finished()) break;
        interrupted_ = InterruptedBySignal();
        if (interrupted_) return Cancelled("Ctrl-C ended the wait");
      }
      return work_->Wait(deadline);
    }));
  }
  bool finished() const { return work_->finished(); }

 private:
  // Weak, because a program may keep works until it ends. If the communicator is destroyed, its
  // operations end.
  std::weak_ptr<Communicator> communicator_;
  std::shared_ptr<collective::Work> work_;
  std::vector<py::object> buffers_;
  bool interrupted_ = false;  // Ctrl-C ended the newest wait
};

// A communicator that Python uses. Thread-safe.
class PythonCommunicator {
 public:
  explicit PythonCommunicator(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  ~PythonCommunicator() { Leave(); }

  std::unique_ptr<PythonWork> Start(const std::string& op, const std::optional<py::buffer>& in,
                                    const std::optional<py::buffer>& out, const std::string& dtype,
                                    const std::string& reduce, int root, int to, int from,
                                    std::optional<double> timeout) {
    Collective call;
    call.deadline = DeadlineAfter(timeout);
    call.op = ParseOp(op);
    call.dtype = ValueOrRaise(ParseDType(dtype));
    call.reduce = ParseReduce(reduce);
    call.root = root;
    call.to = to;
    call.from = from;
    const std::shared_ptr<Communicator> communicator = Open();
    std::vector<py::object> buffers;
    std::optional<size_t> count;
    const auto add = [&](const py::buffer& buffer, bool output) {
      const Bytes bytes = BytesOf(buffer, output);
      const size_t unit = Parts(call.op, output, communicator->size()) * SizeOf(call.dtype);
      if (bytes.size % unit != 0 || count.value_or(bytes.size / unit) != bytes.size / unit) {
        throw StatusError(InvalidArgument("%s: a buffer of %d bytes does not fit the call",
                                          ToString(call), bytes.size));
      }
      count = bytes.size / unit;
      if (output) {
        call.out = bytes.data;
      } else {
        call.in = bytes.data;
      }
      buffers.push_back(buffer);
    };
    if (in.has_value()) add(*in, false);
    if (out.has_value()) add(*out, true);
    call.count = count.value_or(0);
    std::shared_ptr<collective::Work> work;
    {
      const py::gil_scoped_release release;
      work = communicator->Start(std::move(call));
    }
    newest_ = work;
    return std::make_unique<PythonWork>(communicator, std::move(work), std::move(buffers));
  }

  void Abort(const std::string& why) { Open()->Abort(why); }
  // Leaves the other ranks. They still receive the data of operations that have ended on this rank.
  // If an operation is running, aborts it, and the others get `why`. A second call has no effect.
  void Close(const std::string& why) {
    // The operations run one after another, so the newest one ends last.
    const std::shared_ptr<collective::Work> newest = newest_.lock();
    if (communicator_ != nullptr && newest != nullptr && !newest->finished()) Abort(why);
    Leave();
  }

 private:
  std::shared_ptr<Communicator> Open() const {
    if (communicator_ != nullptr) return communicator_;
    throw StatusError(FailedPrecondition("the communicator of this rank was closed [TD1219]"));
  }
  void Leave() {
    std::shared_ptr<Communicator> communicator = std::move(communicator_);
    const py::gil_scoped_release release;  // the destructor waits for the communication thread
    communicator.reset();
  }

  // The interpreter's lock guards both members.
  std::shared_ptr<Communicator> communicator_;  // null: closed
  std::weak_ptr<collective::Work> newest_;
};

// Connects the ranks as collective::Connect does. `listen_fd`: a bound socket that this call takes
// over; -1: none. `timeout`: time limit in seconds of this call, and of each operation.
std::unique_ptr<PythonCommunicator> ConnectRanks(int rank, int size, const std::string& secret,
                                                 const std::string& rendezvous, int listen_fd,
                                                 double timeout, bool tree_order) {
  collective::WorldConfig world;
  world.rank = rank;
  world.size = size;
  world.job = "torch.distributed";
  world.secret = secret;
  world.rendezvous = rendezvous;
  world.listen_fd = listen_fd;
  world.timeout = FromSeconds(timeout);
  world.stop = InterruptedBySignal;
  collective::HostCommunicatorConfig config;
  config.operation_timeout = FromSeconds(timeout);
  config.rule.tree_order = tree_order;
  return std::make_unique<PythonCommunicator>(
      ValueOrRaise(RunInterruptibly([&] { return collective::Connect(world, config); })));
}

}  // namespace

void BindCommunicator(py::module_& module) {
  py::class_<PythonWork>(module, "Work", "A running collective operation.")
      .def("wait", &PythonWork::Wait, py::arg("timeout") = py::none())
      .def_property_readonly("finished", &PythonWork::finished);
  py::class_<PythonCommunicator>(module, "Communicator",
                                 "One rank of a set of ranks that run collective operations.")
      .def(py::init(&ConnectRanks), py::kw_only(), py::arg("rank"), py::arg("size"),
           py::arg("secret"), py::arg("rendezvous"), py::arg("listen_fd"), py::arg("timeout"),
           py::arg("tree_order"))
      .def("start", &PythonCommunicator::Start, py::arg("op"), py::kw_only(),
           py::arg("input") = py::none(), py::arg("output") = py::none(), py::arg("dtype") = "u8",
           py::arg("reduce") = "sum", py::arg("root") = 0, py::arg("to") = -1,
           py::arg("from_") = -1, py::arg("timeout") = py::none())
      .def("abort", &PythonCommunicator::Abort, py::arg("why"))
      .def("close", &PythonCommunicator::Close, py::arg("why"));
}

}  // namespace tandem::python
