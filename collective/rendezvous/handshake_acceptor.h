// The listening side of the handshake. Internal to collective/, because it includes Asio.
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

namespace tandem::collective {

// Accepts connections from ranks higher than this one, one per rank and channel, and runs the
// handshake with each. All work happens in handlers of `io`. Call methods only from the thread that
// runs `io`.
class HandshakeAcceptor {
 public:
  using Tcp = boost::asio::ip::tcp;

  // All arguments must outlive this. REQUIRES that `acceptor` listens.
  HandshakeAcceptor(boost::asio::io_context& io, Tcp::acceptor& acceptor,
                    const WorldConfig& config);
  ~HandshakeAcceptor();

  // Rejects connections from now on that were not meant for this rank at `address`, found by the
  // announcement with `meeting`.
  void Expect(const HostPort& address, const Nonce& meeting) {
    address_ = address;
    meeting_ = meeting;
  }

  struct Seat {
    std::unique_ptr<Tcp::socket> socket;  // null: not connected yet
    bool ready = false;                   // the Welcome has been sent
    Hello hello;
    Challenge challenge;
  };
  Seat& At(Channel channel, int rank) {
    return channel == Channel::kControl ? control_[rank] : data_[rank];
  }
  // Returns the ranks that have not connected on `channel`.
  std::vector<int> Missing(Channel channel) const;
  // Returns the lowest rank that was accepted on `channel` and has closed its connection since; -1:
  // none.
  int Left(Channel channel) const;
  // Returns the ranks that have sent nothing to read on `channel`. REQUIRES that all ranks have
  // connected.
  std::vector<int> Silent(Channel channel) const;
  // Forgets the connection of `rank`, which may then connect again.
  void Forget(Channel channel, int rank) { At(channel, rank) = Seat(); }
  // Sets the rendezvous round. Forgets connections of other rounds, and rejects them from now on.
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
  void AnswerOther(const GuestPtr& guest, const Status& why);  // for peers of another version
  void Drain(const GuestPtr& guest, const Status& why);
  Status Admit(const Hello& hello);
  Status CheckAim(const Hello& hello) const;

  boost::asio::io_context& io_;
  Tcp::acceptor& acceptor_;
  const WorldConfig& config_;
  boost::asio::steady_timer retry_;
  std::vector<Seat> control_, data_;
  std::optional<HostPort> address_;  // empty: connections may have used any address
  Nonce meeting_ = {};
  uint64_t generation_ = 0;     // 0: not known yet
  std::list<GuestPtr> guests_;  // oldest first, at most config.guests_max
  uint64_t refused_ = 0;        // connections
  bool closed_ = false;
};

}  // namespace tandem::collective
