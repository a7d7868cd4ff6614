// A stand-in for libtandem_cuda.so that needs no GPU. The "CUDA device" of this module consists of
// host memory and runs the CPU's kernels. Only copies and kernels may access the memory of the
// device. Any other access gets SIGSEGV, because it would fail on a real GPU too. Thus tests can
// run jobs with --place=cuda on any machine.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/tensor/device_pool.h"
#include "common/tensor/finite.h"
#include "common/threads/bounded_queue.h"
#include "kernels/exec/backend.h"
#include "tests/support/guarded_stream.h"

namespace tandem {
namespace {

// Size of the reserved address space in bytes. Memory in this space is never freed.
constexpr size_t kMemory = size_t{4} << 30;

// The memory of the device. The memory is accessible only while a thread is inside a copy or a
// kernel.
class GuardedMemory {
 public:
  GuardedMemory()
      : base_(static_cast<std::byte*>(mmap(nullptr, kMemory, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    CHECK(base_ != MAP_FAILED) << "no address space";
  }

  // Allocates memory. Returns nullptr if the memory is used up.
  std::byte* Take(size_t bytes) {
    MutexLock lock(mutex_);
    constexpr size_t kAlignment = DevicePool::kAlignment;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ + rounded > kMemory) return nullptr;
    std::byte* at = base_ + used_;
    used_ += rounded;
    if (inside_ > 0) Protect(PROT_READ | PROT_WRITE);
    return at;
  }
  size_t left() {
    MutexLock lock(mutex_);
    return kMemory - used_;
  }
  void Enter() {
    MutexLock lock(mutex_);
    if (inside_++ == 0) Protect(PROT_READ | PROT_WRITE);
  }
  void Leave() {
    MutexLock lock(mutex_);
    if (--inside_ == 0) Protect(PROT_NONE);
  }

 private:
  void Protect(int how) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = (used_ + page - 1) / page * page;
    CHECK(bytes == 0 || mprotect(base_, bytes, how) == 0);
  }

  std::byte* const base_;
  Mutex mutex_;
  size_t used_ = 0;
  int inside_ = 0;
};

GuardedMemory& Memory() {
  static GuardedMemory memory;
  return memory;
}

class Inside {
 public:
  Inside() { Memory().Enter(); }
  ~Inside() { Memory().Leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// A side stream runs its functions on a separate thread. Kernels of the device run synchronously,
// so events (marks) do nothing.
class GuardedSideStream final : public SideStream, public GuardedStream {
 public:
  GuardedSideStream() : jobs_(4096), thread_([this] { Loop(); }) {}
  ~GuardedSideStream() override {
    jobs_.Close();
    thread_.join();
  }
  void* handle() const override {
    return const_cast<GuardedStream*>(static_cast<const GuardedStream*>(this));
  }
  Status Enter() override { return OkStatus(); }
  StatusOr<Mark> RecordComputeEvent() override { return Mark(); }
  Status WaitOn(const Mark&) override { return OkStatus(); }
  StatusOr<bool> Idle() override { return under_way_.load() == 0; }

  void Put(std::function<void()> job) override {
    under_way_.fetch_add(1);
    CHECK(jobs_.Push(std::move(job), Time::max()) == PushResult::kOk);
  }

 private:
  void Loop() {
    while (auto job = jobs_.Pop(Time::max())) {
      {
        const Inside inside;
        (*job)();
      }
      under_way_.fetch_sub(1);
    }
  }

  BoundedQueue<std::function<void()>> jobs_;
  std::atomic<int> under_way_{0};
  std::thread thread_;
};

class GuardedDevice final : public Device {
 public:
  GuardedDevice(int index, const DeviceMemoryOptions& memory)
      : index_(index),
        pool_(ToString(place()),
              {.allocate = [](size_t bytes) { return Memory().Take(bytes); },
               .free = [](std::byte*) {},
               .free_bytes = [] { return Memory().left(); }},
              memory) {}
  Place place() const override { return {PlaceKind::kCuda, index_}; }
  StatusOr<std::unique_ptr<SideStream>> MakeSideStream() override {
    return std::unique_ptr<SideStream>(std::make_unique<GuardedSideStream>());
  }
  StatusOr<Buffer> Allocate(size_t bytes) override {
    TD_ASSIGN_OR_RETURN(std::byte* const memory, pool_.Take(bytes));
    const auto size = static_cast<int64_t>(bytes);
    Account(size);
    return Buffer(memory, [this, size](std::byte* p) {
      pool_.Give(p);
      Account(-size);
    });
  }
  DeviceMemoryCounts memory_counts() const override { return pool_.counts(); }
  Status CopyFromHost(void* dst, const void* src, size_t bytes) override {
    const Inside inside;
    if (bytes > 0) std::memcpy(dst, src, bytes);  // an empty copy may have no memory
    return OkStatus();
  }
  Status CopyToHost(void* dst, const void* src, size_t bytes) override {
    const Inside inside;
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return OkStatus();
  }
  Status Synchronize() override { return OkStatus(); }

 private:
  const int index_;
  DevicePool pool_;
};

// A recorded graph: the list of kernels that were called during the recording.
class GuardedGraph final : public LaunchGraph {
 public:
  Status Launch() override {
    const Inside inside;
    for (auto& [run, args] : calls_) TD_RETURN_IF_ERROR(run(args));
    return OkStatus();
  }
  int64_t launches() const override { return static_cast<int64_t>(calls_.size()); }
  void Add(ops::KernelFn run, const ops::KernelArgs& args) { calls_.emplace_back(run, args); }

 private:
  std::vector<std::pair<ops::KernelFn, ops::KernelArgs>> calls_;
};

// The graph that this thread records now; nullptr: none.
thread_local GuardedGraph* recorded = nullptr;

StatusOr<std::unique_ptr<LaunchGraph>> Record(Device&, const DeviceWork& work) {
  auto graph = std::make_unique<GuardedGraph>();
  recorded = graph.get();
  const Status done = work();
  recorded = nullptr;
  TD_RETURN_IF_ERROR(done);
  return std::unique_ptr<LaunchGraph>(std::move(graph));
}

Status RunInside(ops::Kernel& kernel, const ops::KernelArgs& args) {
  ops::KernelArgs inner = args;
  inner.state = kernel.state.get();
  if (recorded != nullptr) {
    recorded->Add(kernel.run, inner);
    return OkStatus();
  }
  const Inside inside;
  return kernel.run(inner);
}

// Prepares the first CPU kernel that supports the operator. UNIMPLEMENTED: no CPU kernel supports
// it.
StatusOr<ops::Kernel> Prepare(const ops::OpView& view, const ops::PrepareContext& context) {
  Status why = Unimplemented("it has none");
  for (const ops::KernelImpl& impl : ops::FindOp(view.op().type)->cpu_kernels()) {
    auto kernel = impl.prepare(view, context);
    if (kernel.ok()) {
      const size_t scratch = kernel->scratch_bytes;
      return ops::MakeKernel<ops::Kernel, RunInside>(*std::move(kernel), scratch);
    }
    if (kernel.status().code() != StatusCode::kUnimplemented) return kernel.status();
    why = kernel.status();
  }
  return why;
}

StatusOr<int> DeviceCount() { return 1; }
StatusOr<std::unique_ptr<Device>> MakeDevice(int index, const DeviceMemoryOptions& memory) {
  return std::unique_ptr<Device>(std::make_unique<GuardedDevice>(index, memory));
}
// The list omits the kernel of auc, so that tests can check that jobs with auc are rejected.
std::span<const ops::KernelRegistration> Kernels() {
  static const std::vector<ops::KernelRegistration> rows = [] {
    std::vector<ops::KernelRegistration> all;
    for (const ops::OpDef* def : ops::AllOps()) {
      const bool given = !def->cpu_kernels().empty() && std::string_view(def->type) != "auc";
      if (given) all.push_back({def->type, {{"guarded", Prepare}}});
    }
    return all;
  }();
  return rows;
}

Status Copy(Device& device, const SideStream* side, void* to, const void* from, size_t bytes) {
  if (side == nullptr) return device.CopyFromHost(to, from, bytes);
  static_cast<GuardedStream*>(side->handle())->Put([=] { std::memcpy(to, from, bytes); });
  return OkStatus();
}

Status Search(Device&, const exec::NonFiniteScan& search) {
  const Inside inside;
  const uint64_t failed = *search.failed;
  if (search.inputs ? failed != search.number : failed < search.number) return OkStatus();
  for (size_t i = 0; i < search.tensors.size(); ++i) {
    const auto& [data, dtype, numel] = search.tensors[i];
    const int64_t at = FirstNotFinite(data, dtype, numel);
    if (at < 0) continue;
    search.first[i] = static_cast<uint64_t>(at);
    *search.failed = search.number;
  }
  return OkStatus();
}

const exec::BackendModule kModule = {exec::BackendModule::kAbi,
                                     "guarded",
                                     DeviceCount,
                                     MakeDevice,
                                     Kernels,
                                     Record,
                                     nullptr,
                                     Copy,
                                     Search,
                                     nullptr};

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::exec::BackendModule*
tandem_backend_module() {
  return &tandem::kModule;
}
