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
    "tandem explain CODE: explains an error, its causes and what to do\n  CODE: the code in "
    "brackets in a message (TD2001, or DATA_LOSS at its end), the whole\n        message, or the "
    "exit code of a program (65); without CODE all codes are listed\n";

std::string NameOf(const CodeRow& row) { return absl::StatusCodeToString(row.code); }

const char* Restart(int exit_code) {
  if (exit_code >= 128) return "temporary: a supervisor may restart the process";
  return "permanent: fix the cause before a restart";
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

// Returns NAME from a text of the form "what happened (NAME)". Returns any other text unchanged.
std::string LastInBrackets(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  const size_t open = text.rfind('(');
  if (end == text.npos || text[end] != ')' || open == text.npos) return text;
  return text.substr(open + 1, end - open - 1);
}

}  // namespace

const std::vector<CodeRow>& CodeTable() {
  static const std::vector<CodeRow> rows = {
      {StatusCode::kInvalidArgument, "a flag, a knob, a job file or a message has an invalid value",
       "correct the value in the message; tandem lint JOB shows all errors of a job file",
       "--epochs needs a value, because it is a field of the job or a knob: --epochs=VALUE "
       "[TD1003]",
       "trainer/main.cc"},
      {StatusCode::kNotFound, "a requested file, variable, table or checkpoint does not exist",
       "compare the name with the existing ones: tandem status, tandem vars, ls",
       "cannot open TLS file pki/mine/trainer/ca.crt [TD6015]",
       "common/rpc/credentials/tls_files.cc"},
      {StatusCode::kAlreadyExists, "a file or directory exists, and Tandem does not overwrite it",
       "choose another name, or remove the existing file", "shards/train.0 already exists [TD2109]",
       "trainer/reader/input/record_io.cc"},
      {StatusCode::kOutOfRange,
       "a sample number is too large, or a pserver does not serve the rows now",
       "rows: nothing, clients retry; samples: check whether the files changed",
       "synthetic data have no sample 4000, expected a number below 4000",
       "trainer/reader/synthetic.cc"},
      {StatusCode::kUnimplemented,
       "Tandem does not implement the setting, or not in this combination",
       "remove the setting; docs/reference/knobs.md lists the implemented ones",
       "geo (a_sync_configs.k_steps) is not implemented in hybrid mode [TD1109]",
       "trainer/modes/hybrid_mode.cc"},
      {StatusCode::kFailedPrecondition,
       "the job, the configuration or the step of the other side differs",
       "use the same job, trainers and checkpoint on both sides, or new directories",
       "the caller has 2 trainers, but this server was started for 4 trainers [TD4003]",
       "pserver/shard/params_factory.cc"},
      {StatusCode::kDataLoss, "a data file or checkpoint is damaged or incomplete",
       "restore the file; a job uses an older checkpoint automatically",
       "checkpoints/step-200/model.safetensors has 512 bytes, but the manifest says 246824 bytes "
       "[TD2102]",
       "trainer/files/checkpoint.cc"},
      {StatusCode::kUnavailable, "a server does not reply, or a port is in use",
       "check the process (tandem status LOG_DIR), the address and the port",
       "cannot listen on 127.0.0.1:7000: address in use [TD4009]", "common/rpc/server.cc"},
      {StatusCode::kPermissionDenied,
       "a file or the role of a certificate does not permit the operation",
       "grant the permission with chmod, tandem certs issue or a flag",
       "other users may read or change job.secret (mode 644) [TD6012]", "common/os/own_files.cc"},
      {StatusCode::kUnauthenticated, "the caller did not prove that it belongs to the job",
       "use the same secret (TANDEM_SECRET_FILE) and the same job name for all processes",
       "the call has no proof of the job's secret [TD6011]; hint: set TANDEM_SECRET_FILE=FILE, or "
       "--secret_file of tandem",
       "pserver/service/service.cc"},
      {StatusCode::kAborted, "another process of the job was lost, or the job was restored",
       "find the first failure with tandem events LOG_DIR, and restart the job",
       "trainer 1 is lost: no call for 60.0 s (it has not pushed yet); the other trainers wait for "
       "this trainer at step 12 [TD4006]",
       "pserver/shard/trainer_timeouts.cc"},
      {StatusCode::kDeadlineExceeded, "another process did not arrive in time",
       "check the process that the message names: it is slow, stopped or not reachable",
       "barrier \"save\": timed out after 30.0 s: trainer 2 did not arrive [TD4007]",
       "pserver/shard/trainers/named_barriers.cc"},
      {StatusCode::kCancelled, "the process was stopped on request (SIGTERM, Ctrl-C, tandem drain)",
       "nothing; a restarted job resumes from its checkpoint",
       "training stopped on request after step 480 [TD7007]", "trainer/session/session.cc"},
      {StatusCode::kResourceExhausted, "memory, disk or a queue is full",
       "free the resource that the message names; no change is incomplete",
       "cannot write to log /var/lib/tandem: the disk has 1048576 free bytes, but 268435456 bytes "
       "are needed [TD2107]; nothing was written",
       "pserver/disk/disk_space.cc"},
      {StatusCode::kInternal, "a defect of Tandem",
       "report the message and the output of tandem version",
       "dot cannot draw program.svg [TD7009]; hint: write only the text with --dot",
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
  return NotFound("there is no error code \"%s\" [TD1006]%s", name, HintText(name, known));
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
  std::puts("The word in brackets at the end of a message, and its exit code");
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
