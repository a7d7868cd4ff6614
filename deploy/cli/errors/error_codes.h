// The kinds of errors that users see, with their numbers. A message contains its code, such as
// [TD6003]. The code stays in the message when gRPC, other ranks or logs forward the message.
// `tandem explain TD6003` and docs/reference/error-codes.md show this table.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct ErrorCode {
  int number;         // number of the code; its first digit is the area; a number is never reused
  const char* title;  // name of the error in a few words
  const char* means;
  const char* causes;  // the usual causes of the error
  const char* what_to_do;
  const char* example;  // a message of Tandem with this code, as printed
};

struct ErrorArea {
  int digit;
  const char* title;
};

const std::vector<ErrorArea>& ErrorAreas();

// Returns all codes, sorted by number.
const std::vector<ErrorCode>& ErrorCodes();

// Returns the name of a code, such as "TD6003".
std::string NameOf(const ErrorCode& code);

// Returns the codes in `text`, each once, in the order of `text`. Possible texts are "TD6003",
// "td6003", "6003", and a message with codes. An empty list: `text` contains no code. NOT_FOUND: a
// number in `text` is not the number of a code.
StatusOr<std::vector<ErrorCode>> CodesIn(const std::string& text);

// Returns the content of docs/reference/error-codes.md.
std::string ErrorsPage();

// Each function returns the rows of one area of the table.
std::vector<ErrorCode> JobErrors();       // returns the error codes TD1xxx
std::vector<ErrorCode> DataErrors();      // returns the error codes TD2xxx
std::vector<ErrorCode> RankErrors();      // returns the error codes TD3xxx
std::vector<ErrorCode> PserverErrors();   // returns the error codes TD4xxx
std::vector<ErrorCode> MachineErrors();   // returns the error codes TD5xxx
std::vector<ErrorCode> SecurityErrors();  // returns the error codes TD6xxx
std::vector<ErrorCode> RunningErrors();   // returns the error codes TD7xxx

}  // namespace tandem::deploy
