// Tests tandem certs with certificates of other authorities.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CertsTest : public LauncherTest {
 protected:
  int Tandem(const std::vector<std::string>& args) {
    StartProgram("tandem", args);
    return WaitForLauncher();
  }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
};

// tandem escapes text from certificates of other authorities, so that the text cannot control the
// terminal.
TEST_F(CertsTest, CertificatesOfStrangersAreShownEscaped) {
  const std::string config = Write("config",
                                   "[req]\ndistinguished_name = name\nx509_extensions = more\n"
                                   "prompt = no\n[name]\nCN = stranger\n[more]\n"
                                   "subjectAltName = URI:spiffe://\\\x1b[31m,DNS:a\x1b]0;b\n");
  const std::string cert = dir_ + "/cert.pem", key = dir_ + "/key.pem";
  const std::string made =
      Script("made", "openssl req -x509 -newkey rsa:2048 -nodes -config " + config + " -keyout " +
                         key + " -out " + cert + " > $D/openssl.out 2>&1");
  ASSERT_EQ(std::system(made.c_str()), 0) << Read("openssl.out");
  EXPECT_EQ(Tandem({"certs", "show", cert}), 0) << Err();
  EXPECT_THAT(Out(), AllOf(HasSubstr("hosts    a\\033]0;b"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(Tandem({"certs", "show", cert, "-o", "json"}), 0) << Err();
  EXPECT_THAT(Out(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace tandem::deploy
