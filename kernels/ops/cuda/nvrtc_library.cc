#include "kernels/ops/cuda/nvrtc_library.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/os/library.h"

namespace tandem::ops {
namespace {

constexpr char kWhere[] = "NVRTC (libnvrtc.so)";

template <typename Fn>
Status Find(void* library, const char* name, Fn* function) {
  TD_ASSIGN_OR_RETURN(void* const symbol, FindSymbol(library, name));
  *function = reinterpret_cast<Fn>(symbol);
  return OkStatus();
}

Status Load(void* library, NvrtcLibrary* nvrtc) {
  TD_RETURN_IF_ERROR(Find(library, "nvrtcGetErrorString", &nvrtc->GetErrorString));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcVersion", &nvrtc->Version));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcCreateProgram", &nvrtc->CreateProgram));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcDestroyProgram", &nvrtc->DestroyProgram));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcCompileProgram", &nvrtc->CompileProgram));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcGetProgramLogSize", &nvrtc->GetProgramLogSize));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcGetProgramLog", &nvrtc->GetProgramLog));
  TD_RETURN_IF_ERROR(Find(library, "nvrtcGetCUBINSize", &nvrtc->GetCubinSize));
  return Find(library, "nvrtcGetCUBIN", &nvrtc->GetCubin);
}

// Returns a text of NVRTC. The size that NVRTC reports includes the terminating 0.
template <typename Size, typename Get>
std::string Take(NvrtcProgram program, const Size& size, const Get& get) {
  size_t bytes = 0;
  if (size(program, &bytes) != 0) return "";
  std::string text(bytes, '\0');
  return get(program, text.data()) == 0 ? text : "";
}

std::string LogOf(const NvrtcLibrary& nvrtc, NvrtcProgram program) {
  std::string log = Take(program, nvrtc.GetProgramLogSize, nvrtc.GetProgramLog);
  log.resize(std::char_traits<char>::length(log.c_str()));
  return std::string(absl::StripSuffix(log, "\n"));
}

}  // namespace

StatusOr<NvrtcLibrary> OpenNvrtc(const std::string& path) {
  std::vector<std::string> places = {path};
  if (path.empty()) {
    places.clear();
    for (const std::string name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      for (std::string& place : LibraryPlaces(name)) places.push_back(std::move(place));
      places.push_back("/usr/local/cuda/lib64/" + name);
    }
  }
  const StatusOr<void*> library = OpenLibrary(places);
  TD_RETURN_IF_ERROR(Annotate(library.status(), kWhere));
  NvrtcLibrary nvrtc{};
  TD_RETURN_IF_ERROR(Annotate(Load(*library, &nvrtc), kWhere));
  return nvrtc;
}

StatusOr<std::string> CompileWithNvrtc(const NvrtcLibrary& nvrtc, const std::string& source,
                                       std::span<const HeaderText> headers, int major, int minor) {
  std::vector<const char*> names, texts;
  for (const HeaderText& header : headers) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  NvrtcProgram program = nullptr;
  NvrtcResult result =
      nvrtc.CreateProgram(&program, source.c_str(), "fused.cu", static_cast<int>(headers.size()),
                          texts.data(), names.data());
  if (result != 0) return Internal("a call of %s failed: %s", kWhere, nvrtc.GetErrorString(result));
  const std::string arch = absl::StrCat("sm_", major, minor);
  const std::string for_arch = "--gpu-architecture=" + arch;
  const char* const options[] = {for_arch.c_str(), "--fmad=false", "--std=c++17"};
  result = nvrtc.CompileProgram(program, static_cast<int>(std::size(options)), options);
  const std::string log = LogOf(nvrtc, program);
  std::string cubin;
  if (result == 0) cubin = Take(program, nvrtc.GetCubinSize, nvrtc.GetCubin);
  nvrtc.DestroyProgram(&program);
  if (result != 0) {
    return Internal("%s cannot compile a kernel for %s: %s\n%s", kWhere, arch,
                    nvrtc.GetErrorString(result), log);
  }
  if (cubin.empty()) return Internal("%s returned no code for %s", kWhere, arch);
  return cubin;
}

}  // namespace tandem::ops
