#include "kernels/ops/fused/fused_compiled_cuda.h"

#include "kernels/ops/cuda/cuda_launch.h"
#if CUDART_VERSION >= 12080  // older CUDA runtimes cannot load code from memory
#include <absl/strings/str_cat.h>

#include <cstring>

#include "kernels/ops/cuda/code_cache.h"
#include "kernels/ops/cuda/nvrtc_library.h"
#include "kernels/ops/fused/fused_source.h"

namespace tandem::ops {
namespace {

// Compiled code that is loaded on the device.
class LoadedCode {
 public:
  static StatusOr<std::shared_ptr<LoadedCode>> Load(const std::string& cubin, bool ends) {
    auto code = std::make_shared<LoadedCode>();
    TD_RETURN_IF_ERROR(CheckCuda(cudaLibraryLoadData(&code->library_, cubin.data(), nullptr,
                                                     nullptr, 0, nullptr, nullptr, 0),
                                 "load of compiled code"));
    TD_RETURN_IF_ERROR(CheckCuda(cudaLibraryGetKernel(&code->run, code->library_, "fused"),
                                 "a kernel of compiled code"));
    if (!ends) return code;
    TD_RETURN_IF_ERROR(CheckCuda(cudaLibraryGetKernel(&code->end, code->library_, "fused_end"),
                                 "a kernel of compiled code"));
    return code;
  }
  LoadedCode() = default;
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;
  ~LoadedCode() {
    if (library_ != nullptr) (void)cudaLibraryUnload(library_);
  }

  cudaKernel_t run = nullptr, end = nullptr;

 private:
  cudaLibrary_t library_ = nullptr;
};

// The data of one launch: a FusedTable<groups_max, addresses_max>, and the tensors whose addresses
// the table contains.
struct CompiledLaunch {
  // For each address: the position p of the tensor among the operator's inputs, or -1 - p for
  // position p among its outputs.
  std::vector<int> addresses;
  std::vector<uint64_t> table;  // the bytes of the table, which ends with the addresses
  uint32_t groups = 0, tiles = 0;
};

struct CompiledState {
  std::shared_ptr<LoadedCode> code;
  std::vector<CompiledLaunch> launches;
  size_t groups_max;
};

// The first fields of a FusedTable, which do not depend on its size.
struct FusedTableHead {
  uint32_t groups, tiles;
};

FusedGroup* GroupsOf(CompiledLaunch& launch) {
  return reinterpret_cast<FusedGroup*>(reinterpret_cast<std::byte*>(launch.table.data()) +
                                       sizeof(FusedTableHead));
}

// Writes the addresses and the `packed` flags to the table. Called before each run, because
// addresses may change.
void FillTable(CompiledLaunch& launch, size_t groups_max, const KernelArgs& args) {
  FusedGroup* const groups = GroupsOf(launch);
  auto** const at = reinterpret_cast<const void**>(groups + groups_max);
  constexpr uintptr_t kPacked = 16;
  for (uint32_t g = 0; g < launch.groups; ++g) {
    const size_t end = g + 1 < launch.groups ? groups[g + 1].first : launch.addresses.size();
    uintptr_t bits = 0;
    for (size_t i = groups[g].first; i < end; ++i) {
      const int a = launch.addresses[i];
      at[i] = a >= 0 ? args.in[a] : args.out[-1 - a];
      bits |= reinterpret_cast<uintptr_t>(at[i]);
    }
    groups[g].packed = bits % kPacked == 0;
  }
}

Status LaunchCompiled(const KernelArgs& args, cudaKernel_t kernel, unsigned blocks,
                      CompiledLaunch& launch) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = kFusedThreads;
  config.stream = StreamOf(args).stream;
  void* params[] = {launch.table.data()};
  return CheckCuda(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), params),
                   "launch of compiled code");
}

Status RunCompiled(CompiledState& s, const KernelArgs& args) {
  for (CompiledLaunch& launch : s.launches) {
    FillTable(launch, s.groups_max, args);
    if (launch.tiles == 0) continue;
    TD_RETURN_IF_ERROR(LaunchCompiled(args, s.code->run, CudaBlocks(launch.tiles, 1), launch));
  }
  if (s.code->end == nullptr) return OkStatus();
  for (CompiledLaunch& launch : s.launches) {
    TD_RETURN_IF_ERROR(
        LaunchCompiled(args, s.code->end, CudaBlocks(launch.groups, kFusedThreads), launch));
  }
  return OkStatus();
}

// Distributes the groups over launches. A new launch begins only if the next group does not fit
// into the table of the current launch.
StatusOr<std::vector<CompiledLaunch>> LaunchesOf(const Body& body, const FusedSource& source) {
  std::vector<CompiledLaunch> launches;
  const size_t bytes = sizeof(FusedTableHead) + source.groups_max * sizeof(FusedGroup) +
                       source.addresses_max * sizeof(void*);
  for (const FusedSource::Group& group : source.groups) {
    const bool full = launches.empty() || launches.back().groups == source.groups_max;
    if (full) launches.emplace_back().table.resize(bytes / sizeof(uint64_t));
    CompiledLaunch& launch = launches.back();
    const int64_t tiles = (group.elements + kFusedTile - 1) / kFusedTile;
    if (tiles > INT32_MAX - int64_t{launch.tiles})
      return Unimplemented("the tensors have too many elements for this kernel");
    GroupsOf(launch)[launch.groups++] = {group.elements, launch.tiles,
                                         static_cast<uint16_t>(launch.addresses.size()), group.body,
                                         0};
    launch.tiles += static_cast<uint32_t>(tiles);
    for (const int v : group.values) {
      const BodyValue& value = body.values[static_cast<size_t>(v)];
      launch.addresses.push_back(value.in >= 0 ? value.in : -1 - value.out);
    }
  }
  for (CompiledLaunch& launch : launches) {
    const FusedTableHead head{launch.groups, launch.tiles};
    std::memcpy(launch.table.data(), &head, sizeof(head));
  }
  return launches;
}

// Returns the key of the code in the cache. The key contains the device, the compiler, the headers
// and the source, so that a change of any of these makes a new key.
std::string KeyOf(const NvrtcLibrary& nvrtc, int major, int minor, const FusedSource& source) {
  int version = 0, release = 0;
  (void)nvrtc.Version(&version, &release);
  std::string key = absl::StrCat("NVRTC ", version, ".", release, "; sm_", major, minor, "\n");
  for (const HeaderText& header : FusedHeaders()) absl::StrAppend(&key, header.text);
  return absl::StrCat(key, source.text);
}

// Returns code for the current device. UNIMPLEMENTED: NVRTC is missing or does not support this
// device.
StatusOr<std::shared_ptr<LoadedCode>> CodeOf(const FusedSource& source, const PrepareContext& ctx) {
  using Shared = std::shared_ptr<LoadedCode>;
  using Compiled = CodeCache::Compiled<LoadedCode>;
  int device = 0, major = 0, minor = 0;
  const bool known =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
  if (!known) return Unimplemented("there is no CUDA device to compile for");
  const auto nvrtc = OpenNvrtc();
  if (!nvrtc.ok()) return Unimplemented("%s", nvrtc.status().message());
  const auto load = [&](const std::string& cubin) { return LoadedCode::Load(cubin, source.ends); };
  const auto compile = [&]() -> StatusOr<Compiled> {
    const auto cubin = CompileWithNvrtc(*nvrtc, source.text, FusedHeaders(), major, minor);
    if (!cubin.ok()) return Unimplemented("%s", cubin.status().message());
    TD_ASSIGN_OR_RETURN(Shared code, load(*cubin));
    return Compiled{std::move(code), *cubin};
  };
  CodeCache own;
  CodeCache& cache = ctx.code != nullptr ? *ctx.code : own;
  return cache.Get<LoadedCode>(KeyOf(*nvrtc, major, minor, source), load, compile);
}

}  // namespace

StatusOr<Kernel> PrepareCompiled(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const Body body, BindBody(view));
  TD_ASSIGN_OR_RETURN(const FusedSource source, WriteFusedSource(body));
  CompiledState state{nullptr, {}, source.groups_max};
  TD_ASSIGN_OR_RETURN(state.launches, LaunchesOf(body, source));
  TD_ASSIGN_OR_RETURN(state.code, CodeOf(source, ctx));
  return MakeKernel<CompiledState, RunCompiled>(std::move(state));
}

}  // namespace tandem::ops

#else

namespace tandem::ops {

StatusOr<Kernel> PrepareCompiled(const OpView&, const PrepareContext&) {
  return Unimplemented("this CUDA runtime cannot load code");
}

}  // namespace tandem::ops

#endif
