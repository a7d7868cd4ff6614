#include "deploy/launch/rank_reports.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/os/files.h"

namespace tandem::deploy {
namespace {

constexpr char kPromote[] = "promote", kScale[] = "scale";
constexpr char kWorkers[] = "workers", kPservers[] = "pservers";

bool ReadWait(std::istream& words, ProcessWait& wait) {
  int64_t waited = 0, limit = 0, start_limit = 0;
  if (!(words >> wait.who.kind >> wait.who.number >> wait.whom.kind >> wait.whom.number >> waited >>
        limit >> start_limit)) {
    return false;
  }
  wait.waited = std::chrono::milliseconds(waited);
  wait.limit = std::chrono::milliseconds(limit);
  wait.start_limit = std::chrono::milliseconds(start_limit);
  return true;
}

bool ReadScale(std::istream& words, ScaleRequest& request) {
  std::string what;
  if (!(words >> what >> request.number)) return false;
  request.what = what == kWorkers ? ScaleRequest::What::kWorkers : ScaleRequest::What::kPservers;
  return what == kWorkers || what == kPservers;
}

// Writes a line into the FIFO. Returns whether tandemrun gets the line.
bool Send(const std::string& path, const std::string& line) {
  const Fd fifo(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  // write() writes a line of at most PIPE_BUF bytes completely or not at all (pipe(7)).
  return fifo.valid() && write(fifo.get(), line.data(), line.size()) > 0;
}

}  // namespace

Status RankReportFifo::Open(const std::string& path) {
  TD_REQUIRE(fifo_.get() < 0 && !path.empty());
  unlink(path.c_str());
  if (mkfifo(path.c_str(), 0600) != 0) return FileError(path, "cannot be made", errno);
  path_ = path;
  // Opens the FIFO for writing too, because a read would return end-of-file while no rank has the
  // FIFO open.
  fifo_.Reset(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (fifo_.get() < 0) return FileError(path, "cannot be opened", errno);
  return OkStatus();
}

RankReportFifo::~RankReportFifo() {
  if (!path_.empty()) unlink(path_.c_str());
}

RankReports RankReportFifo::Read() {
  RankReports said;
  char buffer[4096];
  const ssize_t n = fifo_.get() < 0 ? 0 : read(fifo_.get(), buffer, sizeof(buffer));
  if (n <= 0) return said;
  rest_.append(buffer, static_cast<size_t>(n));
  // Length of the complete lines in bytes; 0: no line is complete.
  const size_t whole = rest_.rfind('\n') + 1;
  std::istringstream lines(rest_.substr(0, whole));
  rest_.erase(0, whole);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    ProcessWait wait;
    NamedProcess process;
    int rank = 0;
    if (word == "waits" && ReadWait(words, wait)) said.waits.push_back(wait);
    if (word == "here" && words >> process.kind >> process.number) said.here.push_back(process);
    if (word == "ready" && words >> rank) said.ready.push_back(rank);
    if (word == kPromote && words >> rank) said.promoted.push_back(rank);
    ScaleRequest request;
    if (word == kScale && ReadScale(words, request)) said.scale.push_back(request);
  }
  return said;
}

Status RequestPromotion(const std::string& path, int rank) {
  if (Send(path, absl::StrFormat("%s %d\n", kPromote, rank))) return OkStatus();
  return Unavailable("cannot send a request to tandemrun through %s: %s [TD4032]", path,
                     ErrnoText(errno));
}

Status RequestScale(const std::string& path, const ScaleRequest& request) {
  const bool workers = request.what == ScaleRequest::What::kWorkers;
  if (Send(path,
           absl::StrFormat("%s %s %d\n", kScale, workers ? kWorkers : kPservers, request.number))) {
    return OkStatus();
  }
  return Unavailable("cannot send a request to tandemrun through %s: %s [TD7018]", path,
                     ErrnoText(errno));
}

}  // namespace tandem::deploy
