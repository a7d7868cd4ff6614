// The listening half of a rendezvous. Internal to collective/: drags in Asio.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio.hpp>

#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/rendezvous.h"

namespace tandem {

// Lets in the ranks above its own, each once per channel. Runs in the handlers of `io`; for the
// thread that runs it.
class HandshakeAcceptor {
 public:
  using Tcp = boost::asio::ip::tcp;

  // All must outlive this. `acceptor` listens.
  HandshakeAcceptor(boost::asio::io_context& io, Tcp::acceptor& acceptor,
                    const WorldConfig& config);
  ~HandshakeAcceptor();

  // From now on guests must have meant this rank at `address`, by the announcement with `meeting`.
  void Expect(const HostPort& address, const Nonce& meeting) {
    address_ = address;
    meeting_ = meeting;
  }

  struct Seat {
    std::unique_ptr<Tcp::socket> socket;  // null: not here yet
    bool ready = false;                   // has been told that it is welcome
    Hello hello;
    Challenge challenge;
  };
  Seat& At(Channel channel, int rank) {
    return channel == Channel::kControl ? control_[rank] : data_[rank];
  }
  // Ranks that have not come on `channel`.
  std::vector<int> Missing(Channel channel) const;
  // The lowest rank that was let in on `channel` and has left since; -1: none.
  int Left(Channel channel) const;
  // Ranks that have sent nothing to read on `channel`. All must be there.
  std::vector<int> Silent(Channel channel) const;
  // Whoever left may come again.
  void Forget(Channel channel, int rank) { At(channel, rank) = Seat(); }
  // The world is known now: whoever came for another one is forgotten, or refused from now on.
  void SetGeneration(uint64_t generation);

 private:
  struct PendingConnection;
  using GuestPtr = std::shared_ptr<PendingConnection>;

  void Accept();
  void Arrived(Tcp::socket socket);
  void ReadGreeting(const GuestPtr& guest);
  void ReadHello(const GuestPtr& guest);
  void ReadProof(const GuestPtr& guest);
  void Judge(const GuestPtr& guest);
  void Refuse(const GuestPtr& guest, const Status& why);
  void Drop(const GuestPtr& guest, const std::string& why);
  void AnswerOther(const GuestPtr& guest, const Status& why);  // who is no dialler of this version
  void Drain(const GuestPtr& guest, const Status& why);
  Status Admit(const Hello& hello);
  Status CheckAim(const Hello& hello) const;

  boost::asio::io_context& io_;
  Tcp::acceptor& acceptor_;
  const WorldConfig& config_;
  boost::asio::steady_timer retry_;
  std::vector<Seat> control_, data_;
  std::optional<HostPort> address_;  // empty: guests may have come by any
  Nonce meeting_ = {};
  uint64_t generation_ = 0;     // 0: not known yet
  std::list<GuestPtr> guests_;  // oldest first, at most config.guests_max
  uint64_t refused_ = 0;        // connections
  bool closed_ = false;
};

}  // namespace tandem
