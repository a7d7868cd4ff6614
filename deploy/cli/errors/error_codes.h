// The kinds of errors that users meet, by number. A message carries its code in its text,
// "... [TD6003]", so that it goes with the message over gRPC, from rank to rank and into every log;
// this is the table behind `tandem explain TD6003` and docs/reference/error-codes.md.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct ErrorCode {
  int number;         // never given to another kind of error; the first digit is the area
  const char* title;  // a few words
  const char* means;
  const char* causes;  // the usual ones
  const char* what_to_do;
  const char* example;  // a message of Tandem's, as it is printed
};

struct ErrorArea {
  int digit;
  const char* title;
};

const std::vector<ErrorArea>& ErrorAreas();

// By number, ascending.
const std::vector<ErrorCode>& ErrorCodes();

// "TD6003".
std::string NameOf(const ErrorCode& code);

// The codes that `text` names, in its order, each once: "TD6003", "td6003", "6003", or a message
// that carries some. Empty when it names none; NOT_FOUND for a number that no error has.
StatusOr<std::vector<ErrorCode>> CodesIn(const std::string& text);

// docs/reference/error-codes.md.
std::string ErrorsPage();

// The table, area by area.
std::vector<ErrorCode> JobErrors();       // TD1
std::vector<ErrorCode> DataErrors();      // TD2
std::vector<ErrorCode> RankErrors();      // TD3
std::vector<ErrorCode> PserverErrors();   // TD4
std::vector<ErrorCode> MachineErrors();   // TD5
std::vector<ErrorCode> SecurityErrors();  // TD6
std::vector<ErrorCode> RunningErrors();   // TD7

}  // namespace tandem::deploy
