// Fuzz target: the bytes that an HTTP/2 client sends to a server, which Http2Watch reads before
// gRPC reads them.
#include "common/rpc/http2_watch.h"

#include <memory>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const Time kNow(std::chrono::hours(1));

struct Reader {
  rpc::StrangerShare share{std::make_shared<rpc::StrangerBudget>(rpc::StrangerLimits())};
  rpc::Http2Watch watch;

  bool Feed(std::string_view bytes, bool stranger) {
    return watch.Feed(bytes, stranger ? &share : nullptr, kNow);
  }
};

std::string Frame(size_t length, char type, char flags) {
  std::string frame = {
      0, static_cast<char>(length >> 8), static_cast<char>(length), type, flags, 0, 0, 0, 1};
  return frame + std::string(length, 'x');
}

// Checks that the result does not depend on how the bytes are divided into pieces, and that a
// rejected connection stays rejected.
bool Accepts(std::string_view input, bool stranger) {
  Reader whole, pieces;
  const bool accepted = whole.Feed(input, stranger);
  bool last = true;
  for (size_t at = 0, size = 1; at < input.size(); at += size, size = size * 3 % 17 + 1) {
    const bool next = pieces.Feed(input.substr(at, size), stranger);
    CHECK(last || !next) << "a refused connection goes on";
    last = next;
  }
  CHECK_EQ(accepted, last);
  CHECK_EQ(accepted, std::string_view(whole.watch.why()).empty());
  CHECK_EQ(std::string_view(whole.watch.why()), std::string_view(pieces.watch.why()));
  return accepted;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  const std::string call = Frame(40, 1, 4) + Frame(20, 0, 1);
  const auto accepts = [](std::string_view input) {
    const bool stranger = Accepts(input, true), trusted = Accepts(input, false);
    CHECK(trusted || !stranger) << "a stranger may do more";
    return stranger;
  };
  return {{kPreface + Frame(18, 4, 0) + Frame(0, 4, 1) + call + call,
           kPreface + call + Frame(4, 3, 0) + Frame(8, 6, 0) + Frame(4, 8, 0),
           std::string("PRI * HTTP/2.0\r\n")},
          {kPreface, "PRI ", "SM"},
          accepts};
}

}  // namespace tandem
