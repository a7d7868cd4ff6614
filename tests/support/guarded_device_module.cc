// A stand-in for libtandem_cuda.so that needs no GPU: a "CUDA device" of host memory that only
// copies and kernels may touch, and the CPU's kernels to work on it. Whoever else reads or writes
// it, as the rest of a program must not with a GPU's memory, dies of SIGSEGV. So a job with
// --place=cuda can be run wherever tests run.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/exec/backend.h"

namespace tandem {
namespace {

constexpr size_t kMemory = size_t{4} << 30;  // address space; never given back
constexpr int kDevices = 1;

// All memory of the device: closed but while somebody is in it.
class GuardedMemory {
 public:
  GuardedMemory()
      : base_(static_cast<std::byte*>(mmap(nullptr, kMemory, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    CHECK(base_ != MAP_FAILED) << "no address space";
  }

  // nullptr when it is used up.
  std::byte* Take(size_t bytes) {
    MutexLock lock(mutex_);
    const size_t rounded = (bytes + Device::kAlignment) / Device::kAlignment * Device::kAlignment;
    if (used_ + rounded > kMemory) return nullptr;
    std::byte* at = base_ + used_;
    used_ += rounded;
    if (inside_ > 0) Protect(PROT_READ | PROT_WRITE);
    return at;
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

class GuardedDevice final : public Device {
 public:
  Place place() const override { return {PlaceKind::kCuda, 0}; }
  StatusOr<Buffer> Allocate(size_t bytes) override {
    std::byte* memory = Memory().Take(bytes);
    if (memory == nullptr) return ResourceExhausted("no memory for %d bytes", bytes);
    const auto size = static_cast<int64_t>(bytes);
    Account(size);
    return Buffer(memory, [this, size](std::byte*) { Account(-size); });
  }
  Status CopyFromHost(void* dst, const void* src, size_t bytes) override {
    const Inside inside;
    std::memcpy(dst, src, bytes);
    return OkStatus();
  }
  Status CopyToHost(void* dst, const void* src, size_t bytes) override {
    const Inside inside;
    std::memcpy(dst, src, bytes);
    return OkStatus();
  }
  Status Synchronize() override { return OkStatus(); }
};

Status RunInside(Kernel& kernel, const KernelArgs& args) {
  const Inside inside;
  KernelArgs inner = args;
  inner.state = kernel.state.get();
  return kernel.run(inner);
}

// The first of the CPU's kernels that serves.
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& context) {
  Status why = Unimplemented("it has none");
  for (const KernelImpl& impl : FindOp(view.op().type)->cpu) {
    auto kernel = impl.prepare(view, context);
    if (kernel.ok()) {
      const size_t scratch = kernel->scratch_bytes;
      return MakeKernel<Kernel, RunInside>(*std::move(kernel), scratch);
    }
    if (kernel.status().code() != StatusCode::kUnimplemented) return kernel.status();
    why = kernel.status();
  }
  return why;
}

StatusOr<int> DeviceCount() { return kDevices; }
StatusOr<std::unique_ptr<Device>> MakeDevice(int) {
  return std::unique_ptr<Device>(std::make_unique<GuardedDevice>());
}
// auc has no kernel here: a job that needs it must be refused.
std::span<const KernelRow> Kernels() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const OpDef* def : AllOps()) {
      const bool given = !def->cpu.empty() && std::string_view(def->type) != "auc";
      if (given) all.push_back({def->type, {{"guarded", Prepare}}});
    }
    return all;
  }();
  return rows;
}

const BackendModule kModule = {BackendModule::kAbi, "guarded", DeviceCount, MakeDevice, Kernels};

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::BackendModule*
tandem_backend_module() {
  return &tandem::kModule;
}
