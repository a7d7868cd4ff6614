// Calls a function of a test when the process logs a text. Thus a test can react to events that are
// visible only in the log.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace tandem {

// While the object exists, each log message that contains `words` calls `then`, on the thread that
// logs. `then` must not log.
class WhenLogged final : public google::LogSink {
 public:
  WhenLogged(std::string words, std::function<void()> then)
      : words_(std::move(words)), then_(std::move(then)) {
    google::AddLogSink(this);
  }
  ~WhenLogged() override { google::RemoveLogSink(this); }
  WhenLogged(const WhenLogged&) = delete;
  WhenLogged& operator=(const WhenLogged&) = delete;

  int times() const { return times_; }

  using google::LogSink::send;
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t length) override {
    if (std::string_view(message, length).find(words_) == std::string_view::npos) return;
    ++times_;
    then_();
  }

 private:
  const std::string words_;
  const std::function<void()> then_;
  int times_ = 0;
};

}  // namespace tandem
