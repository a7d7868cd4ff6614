#include "common/os/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

namespace tandem {
namespace {

// Returns the directory of the running program, with a slash at the end.
std::string ProgramDir() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  if (n <= 0) return "./";
  const std::string whole(path, static_cast<size_t>(n));
  return whole.substr(0, whole.rfind('/') + 1);
}

}  // namespace

std::vector<std::string> LibraryPlaces(const std::string& name) {
  return {ProgramDir() + name, ProgramDir() + "../lib/" + name, name};
}

StatusOr<void*> OpenLibrary(const std::vector<std::string>& places) {
  std::string why = "there is no path to search";
  bool found = false;  // true: a file of the library exists, but cannot be loaded
  for (const std::string& place : places) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* error = dlerror();
    if (found) continue;
    why = error == nullptr ? place : error;
    found = place.find('/') != std::string::npos && access(place.c_str(), F_OK) == 0;
  }
  return Unavailable("%s", why);
}

StatusOr<void*> FindSymbol(void* library, const char* name) {
  if (void* symbol = dlsym(library, name)) return symbol;
  return Unavailable("the loaded library has no function %s", name);
}

}  // namespace tandem
