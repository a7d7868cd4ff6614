// A stand-in for CUPTI (kernels/exec/trace/cupti_library.h). The stand-in for CUDA in
// tests/cuda_on_host calls tandem_fake_cupti_ran after each operation. If the environment has
// `TANDEM_FAKE_CUPTI_FAULT=privileges`, no activity can be enabled, as if the driver restricted its
// counters to root.
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/exec/trace/cupti_library.h"

namespace tandem::exec {
namespace {

struct Ran {
  CuptiKernel kernel;
  CuptiExternalId id;  // external id of the operation; kind 0: none
};

struct State {
  Mutex mu;
  CuptiLibrary::RequestBuffer request TD_GUARDED_BY(mu) = nullptr;
  CuptiLibrary::CompleteBuffer complete TD_GUARDED_BY(mu) = nullptr;
  std::set<CuptiKind> enabled TD_GUARDED_BY(mu);
  std::vector<Ran> ran TD_GUARDED_BY(mu);
  uint32_t correlation TD_GUARDED_BY(mu) = 0;
};

State& TheState() {
  static State state;
  return state;
}
thread_local std::vector<uint64_t> ids;

constexpr size_t kRecord = 256;  // space for one record in an activity buffer, in bytes

uint64_t Now() {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace
}  // namespace tandem::exec

using tandem::exec::CuptiKind;
using tandem::exec::CuptiRecord;
using tandem::exec::CuptiResult;
using tandem::exec::TheState;

extern "C" {

CuptiResult cuptiGetResultString(CuptiResult result, const char** text) {
  *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "an error of the stand-in";
  return 0;
}
CuptiResult cuptiGetTimestamp(uint64_t* ns) {
  *ns = tandem::exec::Now();
  return 0;
}
CuptiResult cuptiActivityRegisterCallbacks(tandem::exec::CuptiLibrary::RequestBuffer request,
                                           tandem::exec::CuptiLibrary::CompleteBuffer complete) {
  tandem::exec::State& state = TheState();
  tandem::MutexLock lock(state.mu);
  state.request = request;
  state.complete = complete;
  return 0;
}
CuptiResult cuptiActivityEnable(CuptiKind kind) {
  const char* const fault = std::getenv("TANDEM_FAKE_CUPTI_FAULT");
  if (fault != nullptr && std::string_view(fault) == "privileges") return 35;
  tandem::exec::State& state = TheState();
  tandem::MutexLock lock(state.mu);
  state.enabled.insert(kind);
  return 0;
}
CuptiResult cuptiActivityDisable(CuptiKind kind) {
  tandem::exec::State& state = TheState();
  tandem::MutexLock lock(state.mu);
  state.enabled.erase(kind);
  return 0;
}
CuptiResult cuptiActivityPushExternalCorrelationId(int, uint64_t id) {
  tandem::exec::ids.push_back(id);
  return 0;
}
CuptiResult cuptiActivityPopExternalCorrelationId(int, uint64_t* id) {
  if (tandem::exec::ids.empty()) return 1;
  *id = tandem::exec::ids.back();
  tandem::exec::ids.pop_back();
  return 0;
}

// Each buffer gets the records of one operation: its external id, if it has one, and the operation.
CuptiResult cuptiActivityFlushAll(uint32_t) {
  std::vector<tandem::exec::Ran> ran;
  tandem::exec::State& state = TheState();
  tandem::exec::CuptiLibrary::RequestBuffer request = nullptr;
  tandem::exec::CuptiLibrary::CompleteBuffer complete = nullptr;
  {
    tandem::MutexLock lock(state.mu);
    ran.swap(state.ran);
    request = state.request;
    complete = state.complete;
  }
  for (const tandem::exec::Ran& one : ran) {
    uint8_t* buffer = nullptr;
    size_t bytes = 0, records_max = 0, used = 0;
    request(&buffer, &bytes, &records_max);
    if (bytes < 2 * tandem::exec::kRecord) return 1;
    if (one.id.kind == CuptiKind::kExternalId) {
      std::memcpy(buffer, &one.id, sizeof(one.id));
      used = tandem::exec::kRecord;
    }
    std::memcpy(buffer + used, &one.kernel, sizeof(one.kernel));
    complete(nullptr, 0, buffer, bytes, used + tandem::exec::kRecord);
  }
  return 0;
}
CuptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t used, CuptiRecord** record) {
  uint8_t* const next =
      *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + tandem::exec::kRecord;
  if (next >= buffer + used) return 12;  // 12 is CUPTI_ERROR_MAX_LIMIT_REACHED: no more records
  *record = reinterpret_cast<CuptiRecord*>(next);
  return 0;
}

// ---- Interface for the CUDA of host memory ------------------------------------------------------

uint64_t tandem_fake_cupti_now() { return tandem::exec::Now(); }

// Records an operation that ran from the time `begin` until now. `what` is "kernel", "copy" or
// "fill".
void tandem_fake_cupti_ran(const char* what, uint64_t begin) {
  tandem::exec::State& state = TheState();
  tandem::MutexLock lock(state.mu);
  const std::string_view name = what;
  const CuptiKind kind = name == "copy"   ? CuptiKind::kCopy
                         : name == "fill" ? CuptiKind::kFill
                                          : CuptiKind::kKernel;
  if (!state.enabled.contains(kind)) return;
  tandem::exec::Ran ran{};
  const uint32_t correlation = ++state.correlation;
  if (kind == CuptiKind::kKernel) {
    ran.kernel.kind = kind;
    ran.kernel.start = begin;
    ran.kernel.end = tandem::exec::Now();
    ran.kernel.correlation = correlation;
    // The mangled name of MapKernel<float>().
    ran.kernel.name = "_ZN6tandem12_GLOBAL__N_19MapKernelIfEEvv";
  } else {
    const tandem::exec::CuptiCopy copy{kind, {}, 0, begin,      tandem::exec::Now(),
                                       0,    0,  0, correlation};
    static_assert(sizeof(copy) <= sizeof(ran.kernel));
    std::memcpy(&ran.kernel, &copy, sizeof(copy));
  }
  const bool called = state.enabled.contains(CuptiKind::kExternalId) &&
                      state.enabled.contains(CuptiKind::kDriverCall) && !tandem::exec::ids.empty();
  if (called) {
    ran.id = {CuptiKind::kExternalId, tandem::exec::kCuptiOwnIds, tandem::exec::ids.back(),
              correlation};
  }
  state.ran.push_back(ran);
}

}  // extern "C"
