// A running call of the client of parameter servers, for Python. Ctrl-C ends its wait, and its
// arrays stay alive until the call has ended.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "pserver/client/client.h"

namespace tandem::python {

// The arrays of a call.
struct PsCallArrays {
  // The client may read these arrays after an error until it is destroyed (PsClient::Push).
  std::vector<pybind11::object> sent;
  std::vector<pybind11::object> received;  // the client writes them until the call has ended
};

// A client, and the arrays that it may still use. The GIL guards all members.
class SharedPsClient {
 public:
  using Result = std::shared_future<StatusOr<uint64_t>>;

  explicit SharedPsClient(std::unique_ptr<ps::PsClient> client) : client_(std::move(client)) {}

  // Returns the client; null: it is closed.
  ps::PsClient* get() const { return client_.get(); }
  // Ends the calls in progress with CANCELLED and destroys the client. Releases all arrays. Blocks,
  // without the GIL.
  void Close();

  // Keeps the arrays of a call as long as the client may use them.
  void Keep(const Result& result, PsCallArrays arrays);
  // Keeps an array that a failed call may still use, until the client is destroyed.
  void KeepUntilClosed(pybind11::object array);
  // Closes the client, because Ctrl-C ended its call `call`, without which it cannot continue.
  void CloseAfter(const std::string& call);
  // Returns the argument of CloseAfter; "": there was no such call.
  const std::string& interrupted_call() const { return interrupted_call_; }
  // Releases arrays of calls that have ended.
  void Sweep();

 private:
  struct Running {
    Result result;
    PsCallArrays arrays;
  };

  std::unique_ptr<ps::PsClient> client_;
  bool closed_ = false;                      // no call uses an array any more
  std::string interrupted_call_;             // see interrupted_call()
  std::vector<Running> running_;             // calls that had not ended when Python dropped them
  std::vector<pybind11::object> of_failed_;  // sent arrays of failed calls
};

// A running call. Use it from one thread at a time. Python may drop it before the call has ended:
// the client then keeps the arrays.
class PythonPsCall {
 public:
  using Start = std::function<void(ps::PsClient&, ps::PsClient::DoneVersion)>;

  // `start` starts the call and passes its argument on as the callback. REQUIRES: the client is not
  // closed.
  PythonPsCall(std::shared_ptr<SharedPsClient> client, PsCallArrays arrays, const Start& start);
  ~PythonPsCall();
  PythonPsCall(const PythonPsCall&) = delete;
  PythonPsCall& operator=(const PythonPsCall&) = delete;

  // Returns the version of the call. Blocks, without the GIL, until the call has ended within the
  // time limits of the client. Throws StatusError if the call failed. If a signal handler of Python
  // raises an exception (KeyboardInterrupt), throws this exception and leaves the call running.
  uint64_t Wait();

 private:
  const std::shared_ptr<SharedPsClient> client_;
  PsCallArrays arrays_;
  SharedPsClient::Result result_;
};

}  // namespace tandem::python
