// tandem explain: every code has a row, and every example is what the file that it names says.
#include "deploy/cli/explain.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;

std::string ReadSource(const std::string& path) {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/" + path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// The string literals of a file, adjacent ones put together.
std::vector<std::string> Literals(const std::string& path) {
  const std::string text = std::regex_replace(ReadSource(path), std::regex("\"\\s*\n\\s*\""), "");
  const std::regex literal(R"re("((?:[^"\\\n]|\\.)*)")re");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), literal), end; it != end; ++it) {
    found.push_back(std::regex_replace((*it)[1].str(), std::regex(R"(\\")"), "\""));
  }
  return found;
}

// Whether printf's format could have given the text; formats with hardly a word of their own are
// none.
bool Gives(const std::string& format, const std::string& text) {
  if (format.size() < 12) return false;
  std::string pattern = std::regex_replace(format, std::regex(R"([.^$|()\[\]{}*+?\\])"), R"(\$&)");
  pattern = std::regex_replace(pattern, std::regex(R"(%(?:\\\.\d)?[a-z])"), ".*");
  return std::regex_match(text, std::regex(pattern));
}

TEST(Explain, EveryCodeHasARow) {
  const std::string header = ReadSource("common/base/status.h");
  const std::regex maker(R"(TANDEM_STATUS_MAKER\(\w+, (k\w+)\))");
  const size_t makers = static_cast<size_t>(
      std::distance(std::sregex_iterator(header.begin(), header.end(), maker), {}));
  std::set<StatusCode> codes;
  for (const CodeRow& row : CodeTable()) codes.insert(row.code);
  EXPECT_EQ(codes.size(), CodeTable().size());
  EXPECT_EQ(codes.size(), makers);
}

TEST(Explain, ExamplesAreWhatTandemSays) {
  for (const CodeRow& row : CodeTable()) {
    bool said = false;
    for (const std::string& literal : Literals(row.source)) said |= Gives(literal, row.example);
    EXPECT_TRUE(said) << row.source << " does not say: " << row.example;
  }
}

TEST(Explain, FindsByNameMessageAndExitCode) {
  ASSERT_TRUE(FindCode("DATA_LOSS").ok());
  EXPECT_EQ((*FindCode("DATA_LOSS"))[0].code, StatusCode::kDataLoss);
  const auto message = FindCode("tandem-trainer: a.bin: is damaged (at byte 7) (DATA_LOSS)\n");
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ((*message)[0].code, StatusCode::kDataLoss);
  EXPECT_EQ(FindCode("65")->size(), 1u);
  EXPECT_EQ(FindCode("200")->size(), 3u);  // lost peers, in three ways
  for (const char* none : {"0", "64", "", "something"}) EXPECT_FALSE(FindCode(none).ok()) << none;
  EXPECT_THAT(std::string(FindCode("DATALOSS").status().message()), HasSubstr("DATA_LOSS"));
}

}  // namespace
}  // namespace tandem::deploy
