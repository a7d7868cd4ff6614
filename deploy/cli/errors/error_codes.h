// The kinds of errors that users see, by number. A message contains its code, "... [TD6003]", so
// the code survives gRPC, transfers between ranks and logs. `tandem explain TD6003` and
// docs/reference/error-codes.md show this table.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct ErrorCode {
  int number;         // never reused for another kind of error; the first digit is the area
  const char* title;  // a few words
  const char* means;
  const char* causes;  // the usual causes
  const char* what_to_do;
  const char* example;  // a message of Tandem, as printed
};

struct ErrorArea {
  int digit;
  const char* title;
};

const std::vector<ErrorArea>& ErrorAreas();

// Sorted by number.
const std::vector<ErrorCode>& ErrorCodes();

// The code's name: "TD6003".
std::string NameOf(const ErrorCode& code);

// The codes in `text`, in order, each once: "TD6003", "td6003", "6003", or a message with codes.
// Empty: there is none. NOT_FOUND: a number is not a code.
StatusOr<std::vector<ErrorCode>> CodesIn(const std::string& text);

// The content of docs/reference/error-codes.md.
std::string ErrorsPage();

// The rows of the table, by area.
std::vector<ErrorCode> JobErrors();       // TD1
std::vector<ErrorCode> DataErrors();      // TD2
std::vector<ErrorCode> RankErrors();      // TD3
std::vector<ErrorCode> PserverErrors();   // TD4
std::vector<ErrorCode> MachineErrors();   // TD5
std::vector<ErrorCode> SecurityErrors();  // TD6
std::vector<ErrorCode> RunningErrors();   // TD7

}  // namespace tandem::deploy
