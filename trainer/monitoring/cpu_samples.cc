#include "trainer/monitoring/cpu_samples.h"

#include <dlfcn.h>
#include <signal.h>

#include "common/os/signal_stack.h"

namespace tandem::trainer {

// The library is loaded and never unloaded, because a thread may still run its signal handler after
// the sampling.
StatusOr<std::unique_ptr<CpuSamples>> CpuSamples::Start(const std::string& path) {
  constexpr char kLibrary[] = "libprofiler.so.0";
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return Unavailable(
        "pe_profile_fname needs gperftools, which cannot be loaded: %s [TD5006]; hint: run apt-get "
        "install libgoogle-perftools4",
        dlerror());
  }
  // The types of the functions are from gperftools/profiler.h.
  const auto start = reinterpret_cast<int (*)(const char*)>(dlsym(library, "ProfilerStart"));
  const auto stop = reinterpret_cast<Stop>(dlsym(library, "ProfilerStop"));
  if (start == nullptr || stop == nullptr) {
    return Unavailable(
        "pe_profile_fname: library %s has no function ProfilerStart or ProfilerStop [TD5006]; "
        "hint: run apt-get install libgoogle-perftools4",
        kLibrary);
  }
  if (start(path.c_str()) == 0) {
    return PermissionDenied("pe_profile_fname: cannot write %s [TD2106]", path);
  }
  RequireSignalStacks();
  // libprofiler has installed a handler that runs on the stack of the interrupted thread.
  struct sigaction action {};
  if (sigaction(SIGPROF, nullptr, &action) == 0) {
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGPROF, &action, nullptr);
  }
  return std::unique_ptr<CpuSamples>(new CpuSamples(stop));
}

CpuSamples::~CpuSamples() { stop_(); }

}  // namespace tandem::trainer
