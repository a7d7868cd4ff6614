// Loads shared libraries at run time, so that programs also run on machines without them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Returns the paths at which a library of Tandem or of a vendor may be: in the directory of the
// running program, in ../lib, and in the search path of the loader.
std::vector<std::string> LibraryPlaces(const std::string& name);

// Loads the first library of `places` that can be loaded. The library stays loaded until the
// process ends, because its functions and threads may be used longer than the caller lives.
// UNAVAILABLE: no library can be loaded. The message is the loader's error. An error of an existing
// file has precedence over that of a missing file.
StatusOr<void*> OpenLibrary(const std::vector<std::string>& places);

// Returns the address of a symbol in a loaded library. UNAVAILABLE: the library has no such symbol.
StatusOr<void*> FindSymbol(void* library, const char* name);

}  // namespace tandem
