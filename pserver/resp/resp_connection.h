// One connection of a Redis client.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <unordered_set>

#include "pserver/resp/resp_session.h"

namespace tandem::pserver {

class RespConnection;

// The connections of one thread. Only this thread uses the fields, except `context`.
struct RespLoop {
  boost::asio::io_context context{1};
  // Destroyed before `context`, which their sockets use.
  std::unordered_set<std::shared_ptr<RespConnection>> connections;
};

// Reads commands, executes all complete commands that have arrived, and writes their replies
// together. While a reply is unsent, the connection reads no commands, so a client that receives
// nothing cannot fill the memory. Such a connection ends after RespLimits::unsent_timeout.
//
// Only the thread of the loop uses a connection. The loop owns it until it ends.
class RespConnection : public std::enable_shared_from_this<RespConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Adds a connection to `loop`, and reads its first command. Called on the thread of the loop.
  // `socket` is non-blocking. `peer`: address of the client, for messages.
  // `slot` counts the connection.
  static void Start(const std::shared_ptr<RespLoop>& loop, std::shared_ptr<RespShared> shared,
                    std::unique_ptr<RespSlot> slot, Socket socket, std::string peer);
  RespConnection(RespLoop& loop, std::shared_ptr<RespShared> shared, std::unique_ptr<RespSlot> slot,
                 Socket socket, std::string peer);
  ~RespConnection();

 private:
  // Executes commands and writes replies until bytes are missing, a command waits, or the client
  // must receive first.
  void Run();
  // Executes the complete commands. Returns true if it stopped because the output is large, or
  // because it is the turn of other connections.
  bool ExecuteCommands();
  // Sets whether a command waits, for RespLimits::reply_timeout at most.
  void SetWaiting(bool waiting);
  // Executes the gathered reads.
  void Flush();
  // Sends the output. Returns true if all of it was sent. Otherwise sends the rest later, then
  // calls Run.
  bool Write();
  void Read();
  // Makes room for received bytes. Returns false if the limit of the memory is reached.
  bool MakeRoom();
  void CountMemory();
  // Replies with an error, and ends the connection after it.
  void Fail(const Status& status);
  // Called when a command that waited has its reply.
  void OnWake();
  void OnTimeout(const char* what);
  void Close();
  std::string_view unparsed() const { return {in_.get() + in_begin_, in_end_ - in_begin_}; }

  RespLoop& loop_;
  const std::shared_ptr<RespShared> shared_;
  const std::unique_ptr<RespSlot> slot_;
  Socket socket_;
  boost::asio::steady_timer auth_timer_, unsent_timer_, reply_timer_;
  const std::string peer_;
  RespParser parser_;
  std::unique_ptr<RespSession> session_;
  bool limits_raised_ = false;  // the parser has the limits of an admitted client
  bool waiting_ = false;        // a command waits in the shard
  bool writing_ = false;        // the output waits for the client
  bool closing_ = false;        // the connection ends when the output is sent
  // Received bytes: [in_begin_, in_end_) of in_ are not executed yet.
  std::unique_ptr<char[]> in_;
  size_t in_capacity_ = 0, in_begin_ = 0, in_end_ = 0;
  RespOutput out_;
  size_t sent_ = 0;     // bytes of out_ that were sent
  size_t counted_ = 0;  // bytes of this connection in RespShared::memory
};

}  // namespace tandem::pserver
