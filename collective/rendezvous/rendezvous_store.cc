#include "collective/rendezvous/rendezvous_store.h"
#include "collective/rendezvous/etcd_store.h"
#include "collective/rendezvous/file_store.h"

#include "absl/strings/ascii.h"

namespace tandem::collective {
namespace {

class KnownAddress final : public RendezvousStore {
 public:
  explicit KnownAddress(HostPort address) : address_(std::move(address)) {}

  Status Announce(const Meeting&, Time) override { return OkStatus(); }
  StatusOr<Meeting> Find(Time) override { return Meeting(address_); }
  std::string name() const override { return ToString(address_); }

 private:
  const HostPort address_;
};

}  // namespace

std::unique_ptr<RendezvousStore> MakeKnownAddress(const HostPort& address) {
  return std::make_unique<KnownAddress>(address);
}

std::unique_ptr<RendezvousStore> MakeRendezvousStore(const RendezvousUrl& url,
                                                     const std::string& job,
                                                     const std::string& secret,
                                                     const EtcdAccess& access) {
  switch (url.kind) {
    case RendezvousUrl::Kind::kTcp:
      break;
    case RendezvousUrl::Kind::kFile:
      return MakeFileStore(url.path, job, secret);
    case RendezvousUrl::Kind::kEtcd:
      return MakeEtcdStore(url, job, secret, access);
  }
  return MakeKnownAddress(url.address);
}

std::string FileNameOf(const std::string& job) {
  std::string name;
  for (const char c : job) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    name += plain ? std::string(1, c) : absl::StrFormat("%%%02x", static_cast<unsigned char>(c));
  }
  return name.empty() ? "%" : name;
}

}  // namespace tandem::collective
