#include "common/base/thread_shortage.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "common/base/error_text.h"

namespace tandem {
namespace {

// A handler of std::terminate has no argument, and allocates nothing: there may be no memory
// either.
std::string sentence;
int exit_code = 1;
std::terminate_handler otherwise = nullptr;

[[noreturn]] void End() {
  std::fputs(sentence.c_str(), stderr);
  std::_Exit(exit_code);
}

void EndWithSentence() {
  if (abi::__cxa_current_exception_type() == nullptr) return otherwise();
  try {
    throw;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) End();
    otherwise();
  } catch (...) {  // not of a thread
    otherwise();
  }
}

}  // namespace

void NameThreadShortage(const std::string& program) {
  const Status status = ResourceExhausted(
      "cannot start a thread: Resource temporarily unavailable [TD3015]; hint: raise ulimit -u and "
      "ulimit -v, or the limits of processes and memory of the container or service");
  sentence = ErrorText(program, status);
  exit_code = ExitCodeOf(status);
  otherwise = std::set_terminate(&EndWithSentence);
}

}  // namespace tandem
