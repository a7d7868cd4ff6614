#include "collective/rendezvous/rendezvous_url.h"

#include <algorithm>
#include <string_view>

namespace tandem::collective {
namespace {

// Removes `scheme` from the beginning of `text`. Returns false if `text` does not begin with
// `scheme`.
bool TakeScheme(std::string_view scheme, std::string* text) {
  if (!text->starts_with(scheme)) return false;
  text->erase(0, scheme.size());
  return true;
}

// Returns `path` without trailing slashes.
std::string Trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

StatusOr<RendezvousUrl> ParseRendezvousUrl(const std::string& text) {
  RendezvousUrl url;
  std::string rest = text;
  if (TakeScheme("file://", &rest)) {
    if (!rest.starts_with('/')) {
      return InvalidArgument(
          "rendezvous \"%s\" names no absolute directory, expected file:///DIR that all hosts "
          "share [TD1009]",
          text);
    }
    url.kind = RendezvousUrl::Kind::kFile;
    url.path = Trimmed(rest);
    return url;
  }
  url.tls = TakeScheme("etcds://", &rest);
  if (url.tls || TakeScheme("etcd://", &rest)) {
    url.kind = RendezvousUrl::Kind::kEtcd;
    const size_t slash = std::min(rest.find('/'), rest.size());
    url.path = Trimmed(rest.substr(slash));
    if (url.path == "/") url.path.clear();
    rest.resize(slash);
  } else if (!TakeScheme("tcp://", &rest) && rest.find("://") != std::string::npos) {
    return InvalidArgument(
        "\"%s\" is not a rendezvous, expected tcp://HOST:PORT, file:///DIR or "
        "etcd://HOST:PORT/PREFIX (etcds:// with TLS) [TD1009]",
        text);
  }
  TD_ASSIGN_OR_RETURN(url.address, ParseHostPort(rest));
  return url;
}

std::string ToString(const RendezvousUrl& url) {
  switch (url.kind) {
    case RendezvousUrl::Kind::kTcp:
      return ToString(url.address);
    case RendezvousUrl::Kind::kFile:
      return "file://" + url.path;
    case RendezvousUrl::Kind::kEtcd:
      return (url.tls ? "etcds://" : "etcd://") + ToString(url.address) + url.path;
  }
  return "?";
}

}  // namespace tandem::collective
