// Loads libraries at run time, so that programs also run on machines without them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Returns the paths at which to search a library of Tandem or of a vendor. These are beside the
// running program, in ../lib, and the bare name for the loader.
std::vector<std::string> LibraryPlaces(const std::string& name);

// Loads the first of `places` that can be loaded. It stays loaded until the process ends, because
// its functions and threads outlive the caller. UNAVAILABLE: none can be loaded. The message is the
// loader's; an error of an existing file has precedence over that of a missing one.
StatusOr<void*> OpenLibrary(const std::vector<std::string>& places);

// UNAVAILABLE: the library has no such symbol.
StatusOr<void*> FindSymbol(void* library, const char* name);

}  // namespace tandem
