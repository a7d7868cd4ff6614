// What a program says when the machine has no thread for it: std::thread tells so by an exception,
// which nothing here catches.
#pragma once

#include <string>

namespace tandem {

// From now on the process then ends with an error text of `program` (TD3015) and its exit code.
// Other exceptions that nothing catches end it as before. Once, from main.
void NameThreadShortage(const std::string& program);

}  // namespace tandem
