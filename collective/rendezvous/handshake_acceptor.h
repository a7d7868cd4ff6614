// The side of the handshake that listens. Internal to collective/, because it includes Asio.
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

// Accepts connections from ranks with higher numbers than this rank, one for each rank and channel.
// Runs the handshake on each connection, in handlers of `io`. Call methods only on the thread that
// runs `io`.
class HandshakeAcceptor {
 public:
  using Tcp = boost::asio::ip::tcp;

  // All arguments must outlive this object. REQUIRES: `acceptor` listens.
  HandshakeAcceptor(boost::asio::io_context& io, Tcp::acceptor& acceptor,
                    const WorldConfig& config);
  ~HandshakeAcceptor();

  // After this call the acceptor rejects a connection if its Hello names another address than
  // `address`, or another nonce of an announcement than `meeting`.
  void Expect(const HostPort& address, const Nonce& meeting) {
    address_ = address;
    meeting_ = meeting;
  }

  struct Seat {
    std::unique_ptr<Tcp::socket> socket;  // the connection; null: the rank is not connected yet
    bool ready = false;                   // true: the Welcome message has been sent
    Hello hello;
    Challenge challenge;
  };
  Seat& At(Channel channel, int rank) {
    return channel == Channel::kControl ? control_[rank] : data_[rank];
  }
  // Returns the ranks that are not connected on `channel`.
  std::vector<int> Missing(Channel channel) const;
  // Returns the lowest rank that was accepted on `channel` but has closed its connection. -1: none.
  int Left(Channel channel) const;
  // Returns the ranks from which no bytes have arrived on `channel` since their handshake.
  // REQUIRES: all ranks are connected.
  std::vector<int> Silent(Channel channel) const;
  // Closes the connection of `rank`, which may then connect again.
  void Forget(Channel channel, int rank) { At(channel, rank) = Seat(); }
  // Sets the number of the rendezvous round. Closes existing connections of other rounds, and from
  // then on rejects new connections of other rounds. The control connections of rank 0 are exempt.
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
  // Replies to a peer with another version of the handshake.
  void AnswerOther(const GuestPtr& guest, const Status& why);
  void Drain(const GuestPtr& guest, const Status& why);
  Status Admit(const Hello& hello);
  Status CheckAim(const Hello& hello) const;

  boost::asio::io_context& io_;
  Tcp::acceptor& acceptor_;
  const WorldConfig& config_;
  boost::asio::steady_timer retry_;
  std::vector<Seat> control_, data_;
  std::optional<HostPort> address_;  // address of this rank; empty: peers may use any address
  Nonce meeting_ = {};
  uint64_t generation_ = 0;  // number of the rendezvous round; 0: not known yet
  // Connections in the handshake, the oldest first; at most config.guests_max.
  std::list<GuestPtr> guests_;
  uint64_t refused_ = 0;  // number of rejected connections
  bool closed_ = false;
};

}  // namespace tandem::collective
