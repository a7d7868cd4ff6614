// Carries a Status to Python, where it becomes an exception of the package (tandem/errors.py).
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem::python {

// A failure on its way to Python. The translator of RegisterErrors turns it into the exception
// class of its code.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status, bool of_file = false);

  const Status& status() const { return status_; }
  // The failure concerns a file, so NOT_FOUND is also a FileNotFoundError.
  bool of_file() const { return of_file_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  const Status status_;
  const std::string text_;
  const bool of_file_;
};

// Throws StatusError unless `status` is OK. The calling thread may hold the GIL or not.
void RaiseIfError(const Status& status);
// As RaiseIfError, for an operation on a file.
void RaiseIfFileError(const Status& status);

// Returns the value, or throws StatusError.
template <typename T>
T ValueOrRaise(StatusOr<T> value) {
  RaiseIfError(value.status());
  return std::move(value).value();
}

// As ValueOrRaise, for an operation on a file.
template <typename T>
T FileOrRaise(StatusOr<T> value) {
  RaiseIfFileError(value.status());
  return std::move(value).value();
}

// Registers the translation of StatusError. Call once, when the module is imported.
void RegisterErrors();

}  // namespace tandem::python
