// Carries a Status to Python, where it becomes an exception of the package (tandem/errors.py).
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem::python {

// A failure that C++ throws to Python. The translator of RegisterErrors converts it to the
// exception class of its status code.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status, bool of_file = false);

  const Status& status() const { return status_; }
  // Returns whether the failure concerns a file. In this case NOT_FOUND also becomes a
  // FileNotFoundError.
  bool of_file() const { return of_file_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  const Status status_;
  const std::string text_;
  const bool of_file_;
};

// Throws StatusError if `status` is not OK. The caller may hold the GIL or not.
void RaiseIfError(const Status& status);
// Throws StatusError like RaiseIfError, for an operation on a file (of_file() is true).
void RaiseIfFileError(const Status& status);

// Returns the value if its status is OK. Throws StatusError if it is not.
template <typename T>
T ValueOrRaise(StatusOr<T> value) {
  RaiseIfError(value.status());
  return std::move(value).value();
}

// Returns the value like ValueOrRaise, for an operation on a file (of_file() is true).
template <typename T>
T FileOrRaise(StatusOr<T> value) {
  RaiseIfFileError(value.status());
  return std::move(value).value();
}

// Registers the translator from StatusError to Python exceptions. The module calls RegisterErrors
// once, when Python imports it.
void RegisterErrors();

}  // namespace tandem::python
