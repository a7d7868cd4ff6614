#include "collective/nccl/nccl_library.h"

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/os/library.h"

namespace tandem::collective {

NcclType NcclTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return NcclType::kF32;
    case DType::kF16:
      return NcclType::kF16;
    case DType::kBF16:
      return NcclType::kBF16;
    case DType::kI32:
      return NcclType::kI32;
    case DType::kI64:
      return NcclType::kI64;
    case DType::kU8:
      return NcclType::kU8;
  }
  LOG(FATAL) << "element type " << static_cast<int>(dtype);
}

NcclReduce NcclReduceOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return NcclReduce::kSum;
    case ReduceOp::kMax:
      return NcclReduce::kMax;
    case ReduceOp::kMin:
      return NcclReduce::kMin;
    case ReduceOp::kProd:
      return NcclReduce::kProd;
  }
  LOG(FATAL) << "reduction " << static_cast<int>(op);
}

// Since NCCL 2.9 the version number is major * 10000 + minor * 100 + patch.
std::string NcclVersionText(int version) {
  return absl::StrFormat("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

namespace {

// Loads the functions of the table from the library, one at a time.
class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}
  template <typename Fn>
  void Find(const char* name, Fn* function) {
    if (!status_.ok()) return;
    const StatusOr<void*> symbol = FindSymbol(library_, name);
    status_ = symbol.status();
    if (symbol.ok()) *function = reinterpret_cast<Fn>(*symbol);
  }
  const Status& status() const { return status_; }

 private:
  void* const library_;
  Status status_;
};

Status Load(void* library, NcclLibrary* nccl) {
  Loader loader(library);
  loader.Find("ncclGetVersion", &nccl->GetVersion);
  TD_RETURN_IF_ERROR(loader.status());
  const bool asked = nccl->GetVersion(&nccl->version) == NcclResult::kSuccess;
  if (!asked || nccl->version < NcclLibrary::kVersionMin) {
    return Unavailable("NCCL has version %s, but this program needs version %s or newer",
                       NcclVersionText(nccl->version), NcclVersionText(NcclLibrary::kVersionMin));
  }
  loader.Find("ncclGetErrorString", &nccl->GetErrorString);
  loader.Find("ncclGetLastError", &nccl->GetLastError);
  loader.Find("ncclGetUniqueId", &nccl->GetUniqueId);
  loader.Find("ncclCommInitRankConfig", &nccl->CommInitRankConfig);
  loader.Find("ncclCommFinalize", &nccl->CommFinalize);
  loader.Find("ncclCommDestroy", &nccl->CommDestroy);
  loader.Find("ncclCommAbort", &nccl->CommAbort);
  loader.Find("ncclCommGetAsyncError", &nccl->CommGetAsyncError);
  loader.Find("ncclAllReduce", &nccl->AllReduce);
  loader.Find("ncclReduce", &nccl->Reduce);
  loader.Find("ncclBroadcast", &nccl->Broadcast);
  loader.Find("ncclAllGather", &nccl->AllGather);
  loader.Find("ncclReduceScatter", &nccl->ReduceScatter);
  loader.Find("ncclSend", &nccl->Send);
  loader.Find("ncclRecv", &nccl->Recv);
  loader.Find("ncclGroupStart", &nccl->GroupStart);
  loader.Find("ncclGroupEnd", &nccl->GroupEnd);
  return loader.status();
}

}  // namespace

StatusOr<NcclLibrary> OpenNccl(const std::string& path) {
  std::vector<std::string> places = {path};
  if (path.empty()) {
    places = LibraryPlaces("libnccl.so.2");
    places.emplace_back("/usr/local/cuda/lib64/libnccl.so.2");
  }
  constexpr char kWhere[] = "cannot use NCCL (libnccl.so.2), which CUDA places need to communicate";
  const StatusOr<void*> library = OpenLibrary(places);
  TD_RETURN_IF_ERROR(Annotate(library.status(), kWhere));
  NcclLibrary nccl{};
  TD_RETURN_IF_ERROR(Annotate(Load(*library, &nccl), kWhere));
  return nccl;
}

Status NcclError(const NcclLibrary& nccl, NcclResult result, const char* what, NcclComm comm) {
  TD_REQUIRE(result != NcclResult::kSuccess && result != NcclResult::kInProgress);
  const char* const more = comm == nullptr ? nullptr : nccl.GetLastError(comm);
  const std::string text =
      absl::StrFormat("%s: %s%s%s", what, nccl.GetErrorString(result),
                      more == nullptr || *more == '\0' ? "" : ": ", more == nullptr ? "" : more);
  switch (result) {
    case NcclResult::kRemoteError:
    case NcclResult::kSystemError:
    case NcclResult::kUnhandledCudaError:
      return Unavailable("%s", text);
    case NcclResult::kInvalidUsage:
      return InvalidArgument("%s", text);
    default:
      return Internal("%s", text);
  }
}

}  // namespace tandem::collective
