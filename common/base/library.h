// Libraries that are opened at run time, because machines without them must do as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Where a library of ours, or of a vendor's, is looked for: beside the running program, in ../lib,
// and where the loader looks.
std::vector<std::string> LibraryPlaces(const std::string& name);

// Opens the first of `places` that can be, for the life of the process: functions and threads of it
// outlive whoever opened it. UNAVAILABLE with the loader's words, those about a file that is there
// before those about one that is not.
StatusOr<void*> OpenLibrary(const std::vector<std::string>& places);

// UNAVAILABLE when the library has no such symbol.
StatusOr<void*> FindSymbol(void* library, const char* name);

}  // namespace tandem
