#include <utility>

#include "collective/rendezvous/resolve.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

namespace tandem::collective {
namespace {

namespace asio = boost::asio;

constexpr timespec kLookEvery = {0, 100'000'000};

// A request to the system's resolver, which handles it on another thread.
struct Question {
  std::string host;
  addrinfo hints = {};
  gaicb call = {};
};

std::vector<asio::ip::address> AddressesOf(const addrinfo* found) {
  std::vector<asio::ip::address> addresses;
  for (; found != nullptr; found = found->ai_next) {
    if (found->ai_family != AF_INET && found->ai_family != AF_INET6) continue;
    asio::ip::tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), found->ai_addr, found->ai_addrlen);
    addresses.push_back(endpoint.address());
  }
  return addresses;
}

}  // namespace

StatusOr<std::vector<asio::ip::address>> Resolve(BlockingIoContext& waiter, const std::string& host,
                                                 Time deadline) {
  BlockingIoContext::Error error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return std::vector{address};
  auto question = std::make_unique<Question>();
  question->host = host;
  question->hints.ai_socktype = SOCK_STREAM;
  question->call.ar_name = question->host.c_str();
  question->call.ar_request = &question->hints;
  gaicb* const call = &question->call;
  gaicb* calls[] = {call};
  int result = getaddrinfo_a(GAI_NOWAIT, calls, 1, nullptr);
  if (result != 0)
    return Unavailable("cannot resolve host %s: %s [TD3001]", host, gai_strerror(result));
  while ((result = gai_error(call)) == EAI_INPROGRESS) {
    if (SteadyNow() >= deadline || !waiter.end().ok()) {
      // A running request cannot be cancelled, and writes its result to `question` later. So this
      // memory is never freed.
      if (gai_cancel(call) == EAI_NOTCANCELED) static_cast<void>(question.release());
      return Unavailable("cannot resolve host %s: the name server did not reply in time [TD3001]",
                         host);
    }
    const gaicb* waited[] = {call};
    gai_suspend(waited, 1, &kLookEvery);
    waiter.Look(SteadyNow());
  }
  if (result != 0)
    return Unavailable("cannot resolve host %s: %s [TD3001]", host, gai_strerror(result));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(call->ar_result, &freeaddrinfo);
  return AddressesOf(found.get());
}

}  // namespace tandem::collective
