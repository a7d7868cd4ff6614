// A stand-in for NVRTC (kernels/ops/cuda/nvrtc_library.h). The stand-in compiles with g++ for the
// CUDA of host memory (tests/cuda_on_host/compiled_code.cc). Like the real NVRTC, the stand-in
// accepts only headers that its caller passes. The stand-in also rejects unknown options and code
// that is not CUDA. If the environment has TANDEM_FAKE_NVRTC_FAULT=compile, every compilation
// fails. The stand-in compiles each source once per process, because g++ takes a quarter of a
// second.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "kernels/ops/cuda/nvrtc_library.h"

namespace tandem::ops {

struct NvrtcProgramState {
  std::string source, log, code;
  std::map<std::string, std::string> headers;
};

namespace {

enum : NvrtcResult {
  kSuccess,
  kOutOfMemory,
  kFailed,
  kInvalidInput,
  kInvalidProgram,
  kInvalidOption,
  kCompilation
};

// CUDA's keywords, defined in C++. Kernels get their parameters by reference, so that all kernels
// have the same function type.
constexpr char kPrelude[] = R"text(#include <math.h>
#include <string.h>
struct Dims { unsigned x, y, z; };
static const Dims* (*place)(int which);
extern "C" void tandem_on_host_place(const Dims* (*get)(int which)) { place = get; }
#define threadIdx (*place(0))
#define blockIdx (*place(1))
#define blockDim (*place(2))
#define gridDim (*place(3))
#define __device__
#define __global__
#define __grid_constant__ &
#define __launch_bounds__(threads)
)text";

constexpr char kEpilogue[] = R"text(
extern "C" const unsigned long tandem_on_host_param_bytes;
const unsigned long tandem_on_host_param_bytes = sizeof(tandem::ops::Table);
)text";

// Name of a header with instructions that only the device has. The stand-in replaces the header by
// kElements.
constexpr char kElementsName[] = "kernels/ops/fused/fused_elements.h";
constexpr char kElements[] = R"text(#pragma once
#include <cstdint>
namespace tandem::ops {
struct F16 { _Float16 value; };
struct BF16 { uint16_t bits; };
template <typename T> struct Element;
template <> struct Element<float> {
  static float Wide(float x) { return x; }
  static float Narrow(float x) { return x; }
};
template <> struct Element<F16> {
  static float Wide(F16 x) { return x.value; }
  static F16 Narrow(float x) { return {static_cast<_Float16>(x)}; }
};
template <> struct Element<BF16> {
  static float Wide(BF16 x) {
    const uint32_t bits = uint32_t{x.bits} << 16;
    float wide;
    memcpy(&wide, &bits, sizeof(wide));
    return wide;
  }
  static BF16 Narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
    return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
  }
};
}
)text";

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

using Inputs = std::pair<std::string, std::map<std::string, std::string>>;  // source, headers

std::mutex compiled_mutex;

// The code of each source that this process has compiled. Guarded by compiled_mutex.
std::map<Inputs, std::string>& Compiled() {
  static std::map<Inputs, std::string> compiled;
  return compiled;
}

// Returns the code of the same source and headers, which this process has compiled before; "":
// none.
std::string CompiledBefore(const NvrtcProgramState& program) {
  const std::lock_guard lock(compiled_mutex);
  const auto found = Compiled().find({program.source, program.headers});
  return found == Compiled().end() ? "" : found->second;
}

NvrtcResult Compile(NvrtcProgramState& program, const std::filesystem::path& dir) {
  for (const auto& [name, text] : program.headers) {
    Write(dir / name, name == kElementsName ? kElements : text);
  }
  Write(dir / "prelude.h", kPrelude);
  Write(dir / "fused.cc", program.source + kEpilogue);
  const std::string command = TANDEM_CXX " -std=c++17 -O1 -w -ffp-contract=off -fPIC -shared -I" +
                              dir.string() + " -include " + (dir / "prelude.h").string() + " " +
                              (dir / "fused.cc").string() + " -o " + (dir / "fused.so").string() +
                              " > " + (dir / "log").string() + " 2>&1";
  const bool compiled = std::system(command.c_str()) == 0;
  program.log = ReadAll(dir / "log");
  if (!compiled) return kCompilation;
  const std::string code = ReadAll(dir / "fused.so");
  const uint64_t bytes = code.size();
  program.code.assign("on host:");
  program.code.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  program.code.append(code);
  const std::lock_guard lock(compiled_mutex);
  Compiled()[{program.source, program.headers}] = program.code;
  return kSuccess;
}

}  // namespace
}  // namespace tandem::ops

using tandem::ops::NvrtcProgram;
using tandem::ops::NvrtcResult;

extern "C" {

const char* nvrtcGetErrorString(NvrtcResult result) {
  return result == tandem::ops::kCompilation ? "NVRTC_ERROR_COMPILATION"
                                             : "an error of the stand-in";
}

NvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return tandem::ops::kSuccess;
}

NvrtcResult nvrtcCreateProgram(NvrtcProgram* program, const char* source, const char*, int headers,
                               const char* const* texts, const char* const* names) {
  auto made = std::make_unique<tandem::ops::NvrtcProgramState>();
  made->source = source;
  for (int i = 0; i < headers; ++i) made->headers[names[i]] = texts[i];
  *program = made.release();
  return tandem::ops::kSuccess;
}

NvrtcResult nvrtcDestroyProgram(NvrtcProgram* program) {
  const std::unique_ptr<tandem::ops::NvrtcProgramState> owned(*program);
  *program = nullptr;
  return tandem::ops::kSuccess;
}

NvrtcResult nvrtcCompileProgram(NvrtcProgram program, int options, const char* const* option) {
  const std::set<std::string> known = {"--gpu-architecture=sm_80", "--fmad=false", "--std=c++17"};
  if (std::set<std::string>(option, option + options) != known) return tandem::ops::kInvalidOption;
  const char* const fault = std::getenv("TANDEM_FAKE_NVRTC_FAULT");
  if (fault != nullptr && std::strcmp(fault, "compile") == 0) {
    program->log = "fused.cu(1): error: as TANDEM_FAKE_NVRTC_FAULT asks for";
    return tandem::ops::kCompilation;
  }
  program->code = tandem::ops::CompiledBefore(*program);
  if (!program->code.empty()) return tandem::ops::kSuccess;
  std::string dir = (std::filesystem::temp_directory_path() / "nvrtc.XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) return tandem::ops::kFailed;
  const NvrtcResult result = tandem::ops::Compile(*program, dir);
  std::filesystem::remove_all(dir);
  return result;
}

NvrtcResult nvrtcGetProgramLogSize(NvrtcProgram program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return tandem::ops::kSuccess;
}

NvrtcResult nvrtcGetProgramLog(NvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return tandem::ops::kSuccess;
}

NvrtcResult nvrtcGetCUBINSize(NvrtcProgram program, size_t* bytes) {
  *bytes = program->code.size();
  return tandem::ops::kSuccess;
}

NvrtcResult nvrtcGetCUBIN(NvrtcProgram program, char* cubin) {
  std::copy(program->code.begin(), program->code.end(), cubin);
  return tandem::ops::kSuccess;
}

}  // extern "C"
