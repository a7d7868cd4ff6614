#include <dlfcn.h>
#include <omp.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "absl/strings/str_join.h"
#include "common/os/ports.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/idx_data.h"
#include "deploy/launch/options/endpoints.h"
#include "deploy/launch/process/process.h"
#include "kernels/exec/cuda_module_build.h"

namespace tandem::deploy {
namespace {

enum class Verdict { kOk, kNote, kProblem };

struct Finding {
  const char* what;
  Verdict verdict;
  std::string text;
  std::string fix;  // advice for the user; empty: no action is necessary
};

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

Finding CheckCpu() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags;
  while (std::getline(file, line) && flags.empty()) {
    if (line.rfind("flags", 0) == 0) flags = line + " ";
  }
  std::vector<std::string> has;
  for (const char* flag :
       {"avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16"}) {
    if (flags.find(std::string(" ") + flag + " ") != std::string::npos) has.push_back(flag);
  }
  std::string text = std::to_string(std::thread::hardware_concurrency()) + " cores";
  text += has.empty() ? ", no AVX2" : ", " + absl::StrJoin(has, " ");
  if (has.empty()) {
    return {"cpu", Verdict::kNote, text,
            "training works, but is many times slower than with AVX2 or AVX512"};
  }
  return {"cpu", Verdict::kOk, text, ""};
}

Finding CheckMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name, rest;
  double available_kib = 0;
  while (file >> name) {
    if (name == "MemAvailable:") file >> available_kib;
    std::getline(file, rest);
  }
  const double gib = available_kib * 1024 / kGiB;
  const std::string text = absl::StrFormat("%.1f GiB available", gib);
  if (gib < 1)
    return {"memory", Verdict::kProblem, text, "free memory: the demo needs about 1 GiB"};
  return {"memory", Verdict::kOk, text, ""};
}

Finding CheckFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = absl::StrFormat("%d open files allowed", limit.rlim_cur);
  if (limit.rlim_cur >= 4096) return {"files", Verdict::kOk, text, ""};
  return {"files", Verdict::kNote, text,
          "a pserver with many trainers needs more: ulimit -n 65536 (or LimitNOFILE=65536)"};
}

Finding CheckDisk() {
  struct statvfs fs {};
  if (statvfs(".", &fs) != 0)
    return {"disk", Verdict::kProblem, "the current directory cannot be read", ""};
  const double gib = static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize) / kGiB;
  const std::string text = absl::StrFormat("%.1f GiB free in this directory", gib);
  if (access(".", W_OK) != 0) {
    return {"disk", Verdict::kNote, text + ", which is read-only",
            "logs and checkpoints are written here by default; set --log_dir and checkpoint.dir"};
  }
  if (gib < 1) return {"disk", Verdict::kProblem, text, "free space on the disk for checkpoints"};
  return {"disk", Verdict::kOk, text, ""};
}

Finding CheckPorts() {
  const auto ports = FreePorts("127.0.0.1", 4);
  if (!ports.ok()) {
    return {"ports", Verdict::kProblem, ToString(ports.status()),
            "the loopback interface must be up: ip link set lo up"};
  }
  return {"ports", Verdict::kOk, "free ports on 127.0.0.1, host " + HostName(), ""};
}

Finding CheckOpenMp() {
  const Environment env = CurrentEnvironment();
  const auto policy = env.find("OMP_WAIT_POLICY");
  const std::string text = absl::StrFormat("%d threads, OMP_WAIT_POLICY %s", omp_get_max_threads(),
                                           policy == env.end() ? "not set" : policy->second);
  if (policy != env.end() && (policy->second == "active" || policy->second == "ACTIVE")) {
    return {"openmp", Verdict::kNote, text,
            "spinning threads of several processes slow each other down: unset OMP_WAIT_POLICY "
            "(tandemrun then sets passive)"};
  }
  if (policy == env.end()) {
    return {"openmp", Verdict::kOk, text + " (tandemrun sets passive)", ""};
  }
  return {"openmp", Verdict::kOk, text, ""};
}

// Loads a library and unloads it again. Returns the loader's message if the library cannot be
// loaded, and "" otherwise.
std::string TryOpen(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  dlclose(library);
  return "";
}

Finding CheckCuda() {
  const std::string module = ProgramDir() + "/../lib/libtandem_cuda.so";
  if (!std::filesystem::exists(module)) {
    return {"cuda", Verdict::kNote, "no CUDA module (lib/libtandem_cuda.so): CPU only",
            std::string("for GPUs: ") + exec::kBuildCudaModule +
                ", with CUDA 12 or newer in /usr/local/cuda"};
  }
  if (const std::string error = TryOpen("libcuda.so.1"); !error.empty()) {
    return {"cuda", Verdict::kNote, "module built, but no NVIDIA driver: CPU only",
            "for GPUs: install the driver (" + error + ")"};
  }
  if (const std::string error = TryOpen(module); !error.empty()) {
    return {"cuda", Verdict::kProblem, "module and driver found, but it does not load", error};
  }
  return {"cuda", Verdict::kOk, "module and driver found", ""};
}

Finding CheckPrograms() {
  std::vector<std::string> absent;
  for (const char* program : {"tandem-pserver", "tandem-trainer", "tandemrun"}) {
    const std::string path = ProgramDir() + "/" + program;
    if (access(path.c_str(), X_OK) != 0) absent.push_back(program);
  }
  if (absent.empty()) return {"programs", Verdict::kOk, "all in " + ProgramDir(), ""};
  return {"programs", Verdict::kProblem,
          "not in " + ProgramDir() + ": " + absl::StrJoin(absent, " "), "./deploy/build.sh"};
}

Finding CheckData() {
  const Status status = CheckIdxDir(kFashionMnistDir);
  if (status.ok())
    return {"data", Verdict::kOk, std::string("Fashion-MNIST in ") + kFashionMnistDir, ""};
  return {"data", Verdict::kNote, "no Fashion-MNIST for the demo",
          "apt-get install dataset-fashion-mnist, or tandem demo --data=DIR"};
}

void Print(const Finding& finding) {
  std::string mark = Paint(STDOUT_FILENO, Color::kGreen, "ok     ");
  if (finding.verdict == Verdict::kNote) mark = Paint(STDOUT_FILENO, Color::kYellow, "note   ");
  if (finding.verdict == Verdict::kProblem) mark = Paint(STDOUT_FILENO, Color::kRed, "PROBLEM");
  std::printf("%s  %-9s %s\n", mark.c_str(), finding.what, finding.text.c_str());
  if (!finding.fix.empty()) std::printf("                   fix: %s\n", finding.fix.c_str());
}

const char* NameOf(Verdict verdict) {
  return verdict == Verdict::kOk ? "ok" : verdict == Verdict::kNote ? "note" : "problem";
}

StatusOr<int> Examine(const ParsedArgs& args) {
  TD_RETURN_IF_ERROR(TakesAtMost(0, args));
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  int exit_code = kExitOk;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (Finding (*check)() : {CheckCpu, CheckMemory, CheckFiles, CheckDisk, CheckPorts, CheckOpenMp,
                             CheckCuda, CheckPrograms, CheckData}) {
    const Finding finding = check();
    if (finding.verdict == Verdict::kProblem) exit_code = kExitFailure;
    if (!as_json) Print(finding);
    all.push_back({{"what", finding.what},
                   {"verdict", NameOf(finding.verdict)},
                   {"text", finding.text},
                   {"fix", finding.fix}});
  }
  if (as_json) std::puts(all.dump(2).c_str());
  return exit_code;
}

}  // namespace

int RunDoctor(const Args& args) {
  return RunBody("doctor",
                 "tandem doctor    checks this machine; exit code 1 when something must be fixed "
                 "before a job can run\n",
                 {kOutputFlag}, args, Examine);
}

}  // namespace tandem::deploy
