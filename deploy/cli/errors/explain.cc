#include "deploy/cli/errors/explain.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem explain CODE: what an error means and what to do about it\n"
    "  CODE: what a message carries in brackets (TD2001, or DATA_LOSS at its end), the whole\n"
    "        message, or the exit code of a program (65); without it all of them are listed\n";

std::string NameOf(const CodeRow& row) { return absl::StatusCodeToString(row.code); }

const char* Restart(int exit_code) {
  if (exit_code >= 128) return "worth another start: a supervisor may do it by itself";
  return "starting again changes nothing before somebody has looked";
}

void Print(const ErrorCode& code) {
  std::printf("%s   %s\n  means    %s\n  causes   %s\n  do       %s\n  example  %s\n",
              Paint(STDOUT_FILENO, Color::kBold, NameOf(code)).c_str(), code.title, code.means,
              code.causes, code.what_to_do, code.example);
}

void Print(const CodeRow& row) {
  const int exit_code = ExitCodeOf(Status(row.code, "x"));
  std::printf("%s   exit code %d, %s\n", Paint(STDOUT_FILENO, Color::kBold, NameOf(row)).c_str(),
              exit_code, Restart(exit_code));
  std::printf("  means    %s\n  do       %s\n  example  %s (%s)\n", row.meaning, row.what_to_do,
              row.example, NameOf(row).c_str());
}

// "what happened (NAME)" -> "NAME"; any other text is unchanged.
std::string LastInBrackets(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  const size_t open = text.rfind('(');
  if (end == text.npos || text[end] != ')' || open == text.npos) return text;
  return text.substr(open + 1, end - open - 1);
}

}  // namespace

const std::vector<CodeRow>& CodeTable() {
  static const std::vector<CodeRow> rows = {
      {StatusCode::kInvalidArgument, "a flag, a knob, a job file or a message has a wrong value",
       "the message names it, often with the right one; tandem lint JOB shows all at once",
       "--epochs: a field of the job or a knob needs a value: --epochs=VALUE [TD1003]",
       "trainer/main.cc"},
      {StatusCode::kNotFound,
       "a file, variable, table or checkpoint that is asked for is not there",
       "compare the name with what there is: tandem status, tandem vars, ls",
       "TLS file pki/mine/trainer/ca.crt cannot be opened [TD6015]", "common/rpc/tls_files.cc"},
      {StatusCode::kAlreadyExists, "something would be written over, and nobody allowed it",
       "choose another name, or remove what is there", "shards/train.0: is there already",
       "trainer/reader/record_io.cc"},
      {StatusCode::kOutOfRange,
       "a sample beyond the end, or rows that a pserver does not serve now",
       "rows: buckets move or a snapshot is taken, clients retry; samples: files changed, or "
       "report it",
       "synthetic: sample 4000 of 4000", "trainer/reader/synthetic.cc"},
      {StatusCode::kUnimplemented, "Tandem knows the setting, and cannot do it yet or not here",
       "leave it away; docs/reference/knobs.md and docs/reference/operators.md say what is built",
       "geo (a_sync_configs.k_steps) is not built yet in hybrid mode",
       "trainer/modes/hybrid_mode.cc"},
      {StatusCode::kFailedPrecondition,
       "it cannot be done in this state: another job, configuration or step is there",
       "make both sides agree (name of the job, number of trainers, checkpoint), or use new "
       "folders",
       "2 trainers: this server was started for 4 [TD4003]", "pserver/shard/params_factory.cc"},
      {StatusCode::kDataLoss, "a data file or checkpoint is damaged, or could not be written whole",
       "the message names file and place: restore the file; an older checkpoint is taken by itself",
       "checkpoints/step-200/model.safetensors: has 512 bytes, the manifest says 246824 [TD2102]",
       "trainer/files/checkpoint.cc"},
      {StatusCode::kUnavailable, "a server does not answer, or a port is taken",
       "is the process there (tandem status LOG_DIR), is the address right, is the port free?",
       "cannot listen on 127.0.0.1:7000: address in use [TD4009]", "common/rpc/server.cc"},
      {StatusCode::kPermissionDenied,
       "the rights of a file, or the role of a certificate, forbid it",
       "the message says which right is missing: chmod, tandem certs issue, or a flag that allows "
       "it",
       "job.secret may be read or changed by others (mode 644) [TD6012]; hint: chmod 600 "
       "job.secret",
       "common/base/own_files.cc"},
      {StatusCode::kUnauthenticated, "the caller did not prove that it belongs to the job",
       "give all processes the same secret (TANDEM_SECRET_FILE) and the same name of the job",
       "the call carries no proof that its caller holds the job's secret [TD6011]; hint: "
       "TANDEM_SECRET_FILE=FILE, or --secret_file of tandem",
       "pserver/service/service.cc"},
      {StatusCode::kAborted, "another process of the job was lost, or the job went back",
       "look for the first failure: tandem events LOG_DIR; the job goes on from its checkpoint",
       "trainer 1 is lost: nothing heard from it for 60.0 s (it pushed nothing yet); others wait "
       "for it at step 12 [TD4006]",
       "pserver/shard/trainer_timeouts.cc"},
      {StatusCode::kDeadlineExceeded, "others did not come in time",
       "the message names who is missing: is it slow, stopped, or behind a broken network?",
       "barrier \"save\": waiting 30.0 s for trainer 2; others arrived [TD4007]",
       "pserver/shard/named_barriers.cc"},
      {StatusCode::kCancelled, "it was stopped on request (SIGTERM, Ctrl-C, tandem drain)",
       "nothing; started again, the job goes on from its checkpoint",
       "stopped on request after step 480 [TD7007]", "trainer/session/session.cc"},
      {StatusCode::kResourceExhausted, "memory, disk or a queue is full",
       "make room where the message says; nothing was changed half",
       "log /var/lib/tandem: 1048576 bytes free, 268435456 needed [TD2107]; nothing was written",
       "pserver/disk/disk_space.cc"},
      {StatusCode::kInternal, "something that should not happen",
       "report it with the message and what tandem version says",
       "dot could not draw program.svg [TD7009]; hint: --dot writes the text alone",
       "deploy/cli/tools/graph.cc"},
  };
  return rows;
}

StatusOr<std::vector<CodeRow>> FindCode(const std::string& asked) {
  const std::string name = LastInBrackets(asked);
  int number = 0;
  const bool is_number = absl::SimpleAtoi(name, &number);
  std::vector<CodeRow> found;
  std::vector<std::string> known;
  for (const CodeRow& row : CodeTable()) {
    known.push_back(NameOf(row));
    const bool fits = is_number ? ExitCodeOf(Status(row.code, "x")) == number : NameOf(row) == name;
    if (fits) found.push_back(row);
  }
  if (!found.empty()) return found;
  for (const ErrorCode& code : ErrorCodes()) known.push_back(NameOf(code));
  return NotFound("\"%s\" is no code of Tandem's [TD1006]%s", name, HintText(name, known));
}

namespace {

nlohmann::ordered_json Json(const ErrorCode& code) {
  return {{"code", NameOf(code)},  {"title", code.title},   {"means", code.means},
          {"causes", code.causes}, {"do", code.what_to_do}, {"example", code.example}};
}

nlohmann::ordered_json Json(const CodeRow& row) {
  return {{"code", NameOf(row)},
          {"exit_code", ExitCodeOf(Status(row.code, "x"))},
          {"means", row.meaning},
          {"do", row.what_to_do},
          {"example", row.example}};
}

template <typename Row>
void Print(const std::vector<Row>& rows, bool as_json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    if (!as_json) Print(row);
    all.push_back(Json(row));
  }
  if (as_json) std::puts(all.dump(2).c_str());
}

void PrintList(bool as_json) {
  if (as_json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const ErrorCode& code : ErrorCodes()) all.push_back(Json(code));
    for (const CodeRow& row : CodeTable()) all.push_back(Json(row));
    std::puts(all.dump(2).c_str());
    return;
  }
  for (const ErrorArea& area : ErrorAreas()) {
    std::printf("TD%dxxx %s\n", area.digit, area.title);
    for (const ErrorCode& code : ErrorCodes()) {
      if (code.number / 1000 == area.digit) {
        std::printf("  %s  %s\n", NameOf(code).c_str(), code.title);
      }
    }
  }
  std::puts("The word in brackets at the end of a message, and the exit code that it gives");
  std::vector<std::vector<std::string>> table;
  for (const CodeRow& row : CodeTable()) {
    table.push_back(
        {"  " + NameOf(row), std::to_string(ExitCodeOf(Status(row.code, "x"))), row.meaning});
  }
  std::fputs(TableText(table).c_str(), stdout);
}

Status Explain(const ParsedArgs& parsed) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(parsed));
  if (parsed.positional.empty()) {
    PrintList(as_json);
    return OkStatus();
  }
  const std::string asked = absl::StrJoin(parsed.positional, " ");
  TD_ASSIGN_OR_RETURN(const std::vector<ErrorCode> codes, CodesIn(asked));
  if (!codes.empty()) {
    Print(codes, as_json);
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(const std::vector<CodeRow> rows, FindCode(asked));
  Print(rows, as_json);
  return OkStatus();
}

}  // namespace

int RunExplain(const Args& args) {
  return RunBody("explain", kUsage, {kOutputFlag}, args,
                 static_cast<Status (*)(const ParsedArgs&)>(Explain));
}

}  // namespace tandem::deploy
