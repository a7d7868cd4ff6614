#include "kernels/exec/trace/cupti_library.h"

#include <utility>
#include <vector>

#include "common/os/library.h"

namespace tandem::exec {
namespace {

template <typename Fn>
Status Find(void* library, const char* name, Fn* function) {
  TD_ASSIGN_OR_RETURN(void* const symbol, FindSymbol(library, name));
  *function = reinterpret_cast<Fn>(symbol);
  return OkStatus();
}

Status Load(void* library, CuptiLibrary* cupti) {
  TD_RETURN_IF_ERROR(Find(library, "cuptiGetResultString", &cupti->GetResultString));
  TD_RETURN_IF_ERROR(Find(library, "cuptiGetTimestamp", &cupti->GetTimestamp));
  TD_RETURN_IF_ERROR(Find(library, "cuptiActivityRegisterCallbacks", &cupti->RegisterCallbacks));
  TD_RETURN_IF_ERROR(Find(library, "cuptiActivityEnable", &cupti->Enable));
  TD_RETURN_IF_ERROR(Find(library, "cuptiActivityDisable", &cupti->Disable));
  TD_RETURN_IF_ERROR(Find(library, "cuptiActivityFlushAll", &cupti->FlushAll));
  TD_RETURN_IF_ERROR(Find(library, "cuptiActivityGetNextRecord", &cupti->GetNextRecord));
  TD_RETURN_IF_ERROR(Find(library, "cuptiActivityPushExternalCorrelationId", &cupti->PushId));
  return Find(library, "cuptiActivityPopExternalCorrelationId", &cupti->PopId);
}

}  // namespace

StatusOr<CuptiLibrary> OpenCupti(const std::string& path) {
  std::vector<std::string> places = {path};
  if (path.empty()) {
    places.clear();
    for (const std::string name : {"libcupti.so.13", "libcupti.so.12"}) {
      for (std::string& place : LibraryPlaces(name)) places.push_back(std::move(place));
      places.push_back("/usr/local/cuda/lib64/" + name);
    }
  }
  constexpr char kWhere[] = "CUPTI (libcupti.so)";
  const StatusOr<void*> library = OpenLibrary(places);
  TD_RETURN_IF_ERROR(Annotate(library.status(), kWhere));
  CuptiLibrary cupti{};
  TD_RETURN_IF_ERROR(Annotate(Load(*library, &cupti), kWhere));
  return cupti;
}

}  // namespace tandem::exec
