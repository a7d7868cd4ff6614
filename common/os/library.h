// Loads shared libraries at run time, so that a program also runs on machines without the library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Returns the paths at which library `name` of Tandem or of a vendor may be: in the directory of
// the running program, in ../lib, and in the search path of the loader.
std::vector<std::string> LibraryPlaces(const std::string& name);

// Loads the first library of `places` that can be loaded. The library stays loaded until the
// process ends, because its functions and threads may be in use after the caller has ended.
// UNAVAILABLE: no library can be loaded. The message is the loader's error for the first path at
// which a file exists, or for the last path if no file exists.
StatusOr<void*> OpenLibrary(const std::vector<std::string>& places);

// Returns the address of a symbol in a loaded library. UNAVAILABLE: the library has no such symbol.
StatusOr<void*> FindSymbol(void* library, const char* name);

}  // namespace tandem
