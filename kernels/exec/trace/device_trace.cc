#include "kernels/exec/trace/device_trace.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "common/base/mutex.h"
#include "kernels/exec/trace/cupti_library.h"

namespace tandem::exec {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr CuptiKind kKinds[] = {CuptiKind::kCopy,       CuptiKind::kFill,
                                CuptiKind::kDriverCall, CuptiKind::kRuntimeCall,
                                CuptiKind::kKernel,     CuptiKind::kExternalId};

struct RawSpan {
  uint32_t correlation, stream;
  std::string what;
  uint64_t begin_ns, end_ns;
};

// Collects the data that CUPTI delivers by callbacks. There is one inbox per process, because the
// callbacks have no user argument.
struct Inbox {
  Mutex mu;
  bool open TD_GUARDED_BY(mu) = false;  // true while a trace is active
  CuptiLibrary cupti TD_GUARDED_BY(mu) = {};
  std::vector<RawSpan> spans TD_GUARDED_BY(mu);
  // By CUPTI's correlation id: the id of DeviceTrace::Enter.
  std::unordered_map<uint32_t, uint64_t> ids TD_GUARDED_BY(mu);
};

Inbox& TheInbox() {
  // The inbox is never deleted, because CUPTI may call back until the process has ended.
  static Inbox& inbox = *new Inbox();
  return inbox;
}

// Returns a kernel's name without return type, templates and arguments: "tandem::MapKernel" for
// "_ZN6tandem...".
std::string NameOf(const char* mangled) {
  if (mangled == nullptr) return "kernel";
  int status = 0;
  char* const whole = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? whole : mangled;
  std::free(whole);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kAnonymous)) != std::string::npos;) {
    name.erase(at, kAnonymous.size());
  }
  name = name.substr(0, name.find_first_of("<("));
  const size_t blank = name.rfind(' ');
  return blank == std::string::npos ? name : name.substr(blank + 1);
}

void RequestBuffer(uint8_t** buffer, size_t* bytes, size_t* records_max) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records_max = 0;  // maximum number of records per buffer; 0: as many as fit
}

void Keep(const CuptiRecord* record, Inbox& inbox) TD_REQUIRES(inbox.mu) {
  switch (record->kind) {
    case CuptiKind::kKernel: {
      const auto& kernel = *reinterpret_cast<const CuptiKernel*>(record);
      inbox.spans.push_back(
          {kernel.correlation, kernel.stream, NameOf(kernel.name), kernel.start, kernel.end});
      break;
    }
    case CuptiKind::kCopy: {
      const auto& copy = *reinterpret_cast<const CuptiCopy*>(record);
      inbox.spans.push_back({copy.correlation, copy.stream, "copy", copy.start, copy.end});
      break;
    }
    case CuptiKind::kFill: {
      const auto& fill = *reinterpret_cast<const CuptiFill*>(record);
      inbox.spans.push_back({fill.correlation, fill.stream, "fill", fill.start, fill.end});
      break;
    }
    case CuptiKind::kExternalId: {
      const auto& external = *reinterpret_cast<const CuptiExternalId*>(record);
      if (external.external_kind == kCuptiOwnIds) inbox.ids[external.correlation] = external.id;
      break;
    }
    case CuptiKind::kDriverCall:
    case CuptiKind::kRuntimeCall:
      break;
  }
}

void CompleteBuffer(void*, uint32_t, uint8_t* buffer, size_t, size_t used) {
  Inbox& inbox = TheInbox();
  {
    MutexLock lock(inbox.mu);
    CuptiRecord* record = nullptr;
    while (inbox.open && used > 0 && inbox.cupti.GetNextRecord(buffer, used, &record) == 0) {
      Keep(record, inbox);
    }
  }
  std::free(buffer);
}

class CuptiTrace final : public DeviceTrace {
 public:
  explicit CuptiTrace(const CuptiLibrary& cupti) : cupti_(cupti) {}
  ~CuptiTrace() override {
    for (const CuptiKind kind : kKinds) (void)cupti_.Disable(kind);
    (void)cupti_.FlushAll(kCuptiFlushAll);
    Inbox& inbox = TheInbox();
    MutexLock lock(inbox.mu);
    inbox.open = false;
    inbox.spans.clear();
    inbox.ids.clear();
  }

  Status Begin() {
    TD_RETURN_IF_ERROR(Check(cupti_.RegisterCallbacks(RequestBuffer, CompleteBuffer),
                             "cuptiActivityRegisterCallbacks"));
    for (const CuptiKind kind : kKinds) {
      TD_RETURN_IF_ERROR(Check(cupti_.Enable(kind), "cuptiActivityEnable"));
    }
    const Time before = SteadyNow();
    uint64_t ns = 0;
    TD_RETURN_IF_ERROR(Check(cupti_.GetTimestamp(&ns), "cuptiGetTimestamp"));
    first_ns_ = ns;
    first_ = before + (SteadyNow() - before) / 2;
    return OkStatus();
  }

  void Enter(uint64_t id) override { (void)cupti_.PushId(kCuptiOwnIds, id); }
  void Leave() override {
    uint64_t id = 0;
    (void)cupti_.PopId(kCuptiOwnIds, &id);
  }

  StatusOr<std::vector<DeviceSpan>> Take() override {
    TD_RETURN_IF_ERROR(Check(cupti_.FlushAll(kCuptiFlushAll), "cuptiActivityFlushAll"));
    Inbox& inbox = TheInbox();
    MutexLock lock(inbox.mu);
    std::vector<DeviceSpan> spans;
    for (RawSpan& raw : inbox.spans) {
      const auto id = inbox.ids.find(raw.correlation);
      spans.push_back({id == inbox.ids.end() ? 0 : id->second, raw.stream, std::move(raw.what),
                       At(raw.begin_ns), At(raw.end_ns)});
    }
    inbox.spans.clear();
    inbox.ids.clear();
    std::stable_sort(spans.begin(), spans.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return spans;
  }

 private:
  Status Check(CuptiResult result, const char* what) const {
    if (result == 0) return OkStatus();
    const char* text = nullptr;
    (void)cupti_.GetResultString(result, &text);
    return Unavailable("the CUPTI call %s failed: %s", what,
                       text == nullptr ? "unknown error" : text);
  }
  Time At(uint64_t ns) const {
    return first_ + std::chrono::nanoseconds(static_cast<int64_t>(ns - first_ns_));
  }

  const CuptiLibrary cupti_;
  uint64_t first_ns_ = 0;  // CUPTI's clock at the time first_, in ns
  Time first_;
};

}  // namespace

StatusOr<std::unique_ptr<DeviceTrace>> DeviceTrace::Start(const std::string& library) {
  TD_ASSIGN_OR_RETURN(const CuptiLibrary cupti, OpenCupti(library));
  {
    Inbox& inbox = TheInbox();
    MutexLock lock(inbox.mu);
    if (inbox.open) return Unavailable("another profile of this process already traces the device");
    inbox.open = true;
    inbox.cupti = cupti;
  }
  auto trace = std::make_unique<CuptiTrace>(cupti);
  TD_RETURN_IF_ERROR(trace->Begin());
  return std::unique_ptr<DeviceTrace>(std::move(trace));
}

}  // namespace tandem::exec
