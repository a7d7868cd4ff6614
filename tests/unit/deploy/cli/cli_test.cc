// Tests the subcommands of tandem. The tests run tandem as a user does.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/status.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/demo/demo_data.h"
#include "deploy/cli/demo/demo_kill.h"
#include "deploy/cli/demo/demo_report.h"
#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CliTest : public LauncherTest {
 protected:
  // Runs `tandem ARGS` and returns the exit code.
  int Tandem(const std::vector<std::string>& args) {
    StartProgram("tandem", args);
    return WaitForLauncher();
  }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  // Creates the files of an MNIST directory; their contents are invalid. Returns the path of the
  // directory.
  std::string FakeData() {
    for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte",
                             "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}) {
      Write(name, "x");
    }
    return dir_;
  }
  std::vector<std::string> DemoArgs(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"demo",
                                     "--data=" + FakeData(),
                                     "--dir=" + dir_ + "/demo",
                                     "--no_kill",
                                     "--pserver_bin=" + server_script_,
                                     "--trainer_bin=" + trainer_script_};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // Returns the path of a script that acts as a trainer and reports a result with the hash `hash`.
  // `hash` is an expression of bash.
  std::string FakeTrainer(const std::string& hash) {
    return Script("trainer",
                  "if [ -n \"$PADDLE_PSERVERS_IP_PORT_LIST\" ]; then await server.0.pid; await "
                  "server.1.pid; fi\n"
                  "for a in \"$@\"; do case $a in --result_json=*) out=${a#*=};; "
                  "--job_file=*) job=${a#*=};; --mode=*) mode=${a#*=};; esac; done\n"
                  "echo progress of rank $RANK\n"
                  "cp $job $D/job.$mode\n"
                  "[ $RANK = 0 ] && echo '{\"accuracy\": 0.91, \"loss\": 0.25, \"images_per_s\": "
                  "1000, \"steps\": 5, \"seconds\": 2.5, \"params_sha256\": \"'" +
                      hash + "'\"}' > $out; true");
  }
};

TEST_F(CliTest, UnknownCommandsAreRefusedWithAHint) {
  EXPECT_EQ(Tandem({"dmeo"}), kExitUsage);
  EXPECT_EQ(Err(),
            "tandem: error: unknown command \"dmeo\" [TD1001] (INVALID_ARGUMENT)\nhint: did you "
            "mean \"demo\"?\n");
  EXPECT_EQ(Tandem({}), kExitUsage);
  EXPECT_EQ(Tandem({"help"}), 0);
  for (const deploy::Command& command : deploy::Commands())
    EXPECT_THAT(Out(), HasSubstr(command.name));
  EXPECT_EQ(Tandem({"version"}), 0);
  EXPECT_THAT(Out(), StartsWith("tandem "));
}

TEST_F(CliTest, EveryCommandExplainsItself) {
  for (const char* name :
       {"bench",  "bisect", "certs",   "completion", "demo", "doctor",    "drain",
        "events", "export", "follow",  "graph",      "help", "import",    "knobs",
        "lint",   "plan",   "profile", "promote",    "read", "rebalance", "restore",
        "save",   "scale",  "status",  "steps",      "top",  "vars",      "version"}) {
    EXPECT_EQ(Tandem({name, "--help"}), 0) << name;
    EXPECT_THAT(Out(), StartsWith(std::string("tandem ") + name));
    EXPECT_EQ(Tandem({name, "--hlep"}), kExitUsage) << name;
    EXPECT_THAT(Err(), HasSubstr("did you mean \"--help\"?"));
  }
}

TEST_F(CliTest, AJobThatIsNotThereIsNamed) {
  EXPECT_EQ(Tandem({"status", dir_ + "/none"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("file " + dir_ +
                               "/none/job.json does not exist [TD7002] (NOT_FOUND)\nhint: name the "
                               "log directory of the job"));
  EXPECT_EQ(Tandem({"status", "--pservers=127.0.0.1:1", "--timeout_s=1"}), kExitUnavailable);
  EXPECT_THAT(Out(), HasSubstr("problem: pserver 0 (127.0.0.1:1): cannot connect to 127.0.0.1:1: "
                               "Connection refused [TD4001]"));
  EXPECT_EQ(Tandem({"status", "--pservers=here"}), kExitUsage);
  EXPECT_EQ(Tandem({"status", "--pservers=127.0.0.1:1", "-o", "yaml"}), kExitUsage);
  EXPECT_EQ(Tandem({"status", "--pservers=127.0.0.1:1", "--secret_file=" + dir_ + "/none"}),
            kExitUsage);
  EXPECT_EQ(Tandem({"steps", "--pservers=127.0.0.1:1"}), kExitConfig);
  EXPECT_THAT(Err(), HasSubstr("--status_port"));
  EXPECT_EQ(Tandem({"save", "--status_pages=127.0.0.1:1"}), kExitConfig);
  Write("job.json", "{\"job\": 3}");
  EXPECT_EQ(Tandem({"drain", dir_}), kExitData);
  Write("job.json",
        "{\"job\": \"j\", \"mode\": \"local\", \"processes\": [], "
        "\"launcher_pid\": 1, \"launcher_start\": 5}");
  EXPECT_EQ(Tandem({"drain", dir_}), kExitConfig) << "pid 1 is somebody else by now";
  EXPECT_THAT(Err(), HasSubstr("has ended, or runs on another host"));
}

TEST_F(CliTest, ShellsCompleteCommandsAndFlags) {
  ASSERT_EQ(Tandem({"completion", "bash"}), 0) << Err();
  Write("tandem.bash", Out());
  const char* folder = std::getenv("TANDEM_BIN_DIR");
  const std::string bin =
      (folder != nullptr ? folder : deploy::ProgramDir() + "/../bin") + "/tandem";
  const auto complete = [&](const std::string& words) {
    const std::string script =
        Script("complete", "source $D/tandem.bash\nCOMP_WORDS=(" + words +
                               ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tandem\n"
                               "echo \"${COMPREPLY[@]}\"\n");
    FILE* out = popen(script.c_str(), "r");
    char line[256] = "";
    if (std::fgets(line, sizeof(line), out) == nullptr) line[0] = '\0';
    pclose(out);
    return std::string(line);
  };
  EXPECT_EQ(complete("tandem sta"), "status\n");
  EXPECT_EQ(complete(bin + " certs --d"), "--days=\n");
  EXPECT_EQ(complete(bin + "run --mo"), "--mode=\n");
  EXPECT_EQ(complete(bin + "-trainer --strategy"), "--strategy_out\n");
}

TEST_F(CliTest, CertsAreMadeShownAndJudged) {
  const std::string dir = dir_ + "/ca", trainer = dir + "/j/trainer";
  EXPECT_EQ(Tandem({"certs", "init", dir}), 0) << Err();
  EXPECT_EQ(Tandem({"certs", "init", dir}), kExitUnavailable) << "never over an old one";
  EXPECT_EQ(Tandem({"certs", "issue", dir, "--job=j", "--role=trainer", "--days=7"}), 0) << Err();
  EXPECT_THAT(Out(), StartsWith(trainer + ": spiffe://tandem/job/j/role/trainer, valid until "));
  for (const auto& [file, mode] : std::map<std::string, unsigned>{
           {dir + "/ca.key", 0600}, {trainer + "/tls.key", 0600}, {trainer + "/tls.crt", 0644}}) {
    struct stat info {};
    ASSERT_EQ(stat(file.c_str(), &info), 0) << file;
    EXPECT_EQ(info.st_mode & 0777, mode) << file;
  }
  EXPECT_EQ(Tandem({"certs", "show", dir, trainer}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("role trainer of job j"));
  EXPECT_THAT(Out(), Not(HasSubstr("\033[")));
  EXPECT_EQ(Tandem({"certs", "show", trainer, "-o", "json"}), 0) << Err();
  const auto json = nlohmann::json::parse(Out(), nullptr, false);
  ASSERT_EQ(json.size(), 1u) << Out();
  EXPECT_EQ(json[0]["role"], "trainer");
  EXPECT_EQ(json[0]["not_after"].get<int64_t>() - json[0]["not_before"].get<int64_t>(),
            7 * 86400 + 300);
  ASSERT_EQ(chmod((trainer + "/tls.key").c_str(), 0640), 0);  // lets the group read the private key
  EXPECT_EQ(Tandem({"certs", "show", trainer}), 0) << Err();
  ASSERT_EQ(chmod((trainer + "/tls.key").c_str(), 0644), 0);
  EXPECT_EQ(Tandem({"certs", "show", trainer}), kExitPermission);
  EXPECT_THAT(Err(), HasSubstr("hint: run chmod 600"));

  EXPECT_EQ(Tandem({"certs", "issue", dir, "--job=j", "--role=boss"}), kExitUsage);
  EXPECT_EQ(Tandem({"certs", "issue", dir, "--job=j"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("--role is missing"));
  EXPECT_EQ(Tandem({"certs", "issue", dir_, "--job=j", "--role=admin"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("hint: run tandem certs init"));
  EXPECT_EQ(Tandem({"certs", "isue", dir}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean \"issue\"?"));
}

TEST_F(CliTest, GraphPrintsAndDrawsAProgramAroundAPass) {
  const std::string job =
      Write("job.pbtxt", "model { zoo: \"lenet\" }\ndata { dir: \"" + dir_ +
                             "\" }\noptimizer { type: \"sgd\" }\nbatch_size: 4\nstrategy {"
                             " build_strategy { fuse_all_optimizer_ops: true } }\n");
  EXPECT_EQ(Tandem({"graph", job}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("fused_elementwise("));
  EXPECT_THAT(Err(), HasSubstr("pass fuse_all_optimizer_ops: 1 place, "));
  EXPECT_EQ(Tandem({"graph", job, "--before=fuse_all_optimizer_ops"}), 0) << Err();
  EXPECT_THAT(Out(), Not(HasSubstr("fused_elementwise(")));
  EXPECT_THAT(Out(), HasSubstr("\nsgd("));
  EXPECT_EQ(Tandem({"graph", job, "--after=model"}), 0) << Err();
  EXPECT_THAT(Out(), Not(HasSubstr("_grad(")));
  EXPECT_EQ(Tandem({"graph", job, "--after=fuse_elewise_add_act_ops"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("does not use pass fuse_elewise_add_act_ops"));
  EXPECT_EQ(Tandem({"graph", job, "--after=autodif"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean \"autodiff\""));
  EXPECT_EQ(Tandem({"graph", job, "--dot=" + dir_ + "/g.dot"}), 0) << Err();
  std::ifstream dot(dir_ + "/g.dot");
  std::string first;
  std::getline(dot, first);
  EXPECT_EQ(first, "digraph program {");
}

TEST_F(CliTest, LintShowsTheMemoryBehindEachPass) {
  const std::string job =
      Write("job.pbtxt", "model { zoo: \"lenet\" }\ndata { dir: \"" + dir_ +
                             "\" }\noptimizer { type: \"sgd\" }\nbatch_size: 4\nstrategy {"
                             " build_strategy { fuse_elewise_add_act_ops: true"
                             " enable_inplace: true } }\n");
  EXPECT_EQ(Tandem({"lint", "--memory", job}), 0) << Err();
  // The columns of the output are: operator after which the row applies, number of operators, bytes
  // without reuse, peak bytes, lower bound in bytes.
  std::map<std::string, std::vector<int64_t>> rows;
  std::istringstream lines(Out());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string behind;
    words >> behind;
    if (behind == "enable_inplace") words.ignore(std::ssize(line), ')');
    for (int64_t n = 0; words >> n;) rows[behind].push_back(n);
  }
  for (const char* behind : {"model", "autodiff", "fuse_elewise_add_act_ops", "distribute",
                             "use_mkldnn", "enable_inplace"}) {
    ASSERT_EQ(rows[behind].size(), 4u) << behind << "\n" << Out();
    EXPECT_GE(rows[behind][1], rows[behind][2]) << behind;
    EXPECT_GE(rows[behind][2], rows[behind][3]) << behind;
    EXPECT_GT(rows[behind][3], 0) << behind;
  }
  EXPECT_LT(rows["model"][2], rows["autodiff"][2]) << "backward keeps what forward computed";
  EXPECT_LE(rows["enable_inplace"][2], rows["use_mkldnn"][2]);
  EXPECT_THAT(Out(), HasSubstr("memory plan: " + std::to_string(rows["enable_inplace"][2])));
  EXPECT_EQ(Tandem({"lint", "--memory", "--type=strategy", Write("s.pbtxt", "a_sync: true\n")}),
            kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("is a strategy file, expected a job file"));
}

TEST_F(CliTest, Knobs) {
  EXPECT_EQ(Tandem({"knobs", "list"}), 0);
  EXPECT_THAT(Out(), HasSubstr("\na_sync "));
  EXPECT_THAT(Out(), Not(HasSubstr("\033")));
  EXPECT_EQ(Tandem({"knobs", "explain", "a_sync"}), 0);
  EXPECT_THAT(Out(), HasSubstr("default:"));
  EXPECT_EQ(Tandem({"knobs", "explain", "a_snyc"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("hint: did you mean \"a_sync\"?"));
  EXPECT_EQ(Tandem({"knobs", "lsit"}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean \"list\"?"));
}

TEST_F(CliTest, LintTellsEveryErrorWithItsPlace) {
  const std::string path =
      Write("bad.pbtxt", "name: \"x\"\nepoch: 3\nstrategy { a_sync: maybe }\n");
  EXPECT_EQ(Tandem({"lint", path}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr(path + ":2:1: error: "));
  EXPECT_THAT(Err(), HasSubstr("did you mean \"epochs\"?"));
  EXPECT_THAT(Err(), HasSubstr(path + ":3:20: error: "));
  EXPECT_EQ(Tandem({"lint", dir_ + "/none"}), kExitUsage);
}

// tandem lint rejects every job that tandem-trainer would reject.
TEST_F(CliTest, LintChecksTheWholeJob) {
  const auto errors = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"lint", "--type=job", Write("job.pbtxt", text)};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(Tandem(args), kExitUsage);
    return Err();
  };
  const std::string whole =
      "model { zoo: \"lenet\" }\ndata { dir: \"x\" }\nglobal_batch_size: 10\n";
  EXPECT_EQ(Tandem({"lint", Write("good.pbtxt", whole)}), 0) << Err();
  EXPECT_THAT(errors("model { zoo: \"lenet\" }\nglobal_batch_size: 10\n"),
              HasSubstr("data.dir, the directory of the training data, is not set"));
  EXPECT_THAT(errors("model { zoo: \"lenet\" }\ndata { dir: \"x\" }\n"),
              HasSubstr("exactly one of batch_size"));
  EXPECT_THAT(errors(whole, {"--workers=11"}),
              HasSubstr("a batch of 10 samples is too small for 11 workers"));
  EXPECT_THAT(errors(whole, {"--workers=none"}), HasSubstr("--workers"));
  EXPECT_THAT(errors("model { zoo: \"lenett\" }\ndata { dir: \"x\" }\nbatch_size: 1\n"),
              HasSubstr("lenet"));
  EXPECT_THAT(errors("epochs: two\nmodel { zoo: \"lenet\" arg { name: \"hiden\" value: \"9\" } }\n"
                     "data { dir: \"x\" }\nbatch_size: 1\n"),
              AllOf(HasSubstr(":1:9: error: epochs expects an integer"),
                    HasSubstr(":2:22: error: model \"lenet\" has no argument \"hiden\" [TD1202]\n"),
                    HasSubstr("hint: did you mean \"hidden\"?")))
      << "all mistakes at once";
  EXPECT_THAT(errors(whole + "optimizer { type: \"momentun\" }\n"),
              HasSubstr("did you mean \"momentum\"?"));
  EXPECT_THAT(errors(whole + "optimizer { type: \"sgd\" beta1: 0.5 }\n"),
              HasSubstr("optimizer sgd has no setting beta1"));
  EXPECT_THAT(Err(), HasSubstr("adam, adamw, adamax, lamb, which have this setting"));
  EXPECT_THAT(errors(whole + "optimizer { type: \"adam\" weight_decay: 0.5 }\n"),
              HasSubstr("adamw, lars_momentum, lamb, which have this setting"));
  EXPECT_THAT(errors(whole + "optimizer { clip_norm: 1 clip_global_norm: 1 }\n"),
              HasSubstr("hint: keep one of"));
  EXPECT_THAT(errors(whole + "optimizer { decay_exclude: \".b\" }\n"),
              HasSubstr("no weight decay"));
  EXPECT_THAT(
      errors(whole + "optimizer { type: \"ftrl\" schedule { warmup_steps: 3 } }\n"),
      HasSubstr("ftrl divides by the learning rate, but a warm-up starts at rate 0 [TD1108]"));
  EXPECT_THAT(
      errors(whole + "optimizer { type: \"adam\" lazy_mode: true } strategy { lamb: true }\n"),
      HasSubstr("optimizer lamb has no setting lazy_mode [TD1107]"));
  EXPECT_THAT(errors(whole + "optimizer { type: \"adagrad\" epsilon: 0 }\n"),
              HasSubstr("optimizer.epsilon is 0, expected above 0: optimizer adagrad divides"));
  EXPECT_EQ(Tandem({"lint", Write("good.pbtxt", whole + "optimizer { type: \"adagrad\" epsilon: 0 "
                                                        "initial_accumulator: 0.1 }\n")}),
            0)
      << Err();
  const std::string profile = whole + "profile { dir: \"p\" } strategy { runtime_flags { ";
  EXPECT_THAT(errors(profile + "benchmark: true } }\n"),
              HasSubstr("benchmark and profile.dir exclude each other"));
  EXPECT_THAT(errors(profile + "check_nan_inf: true } }\n"),
              HasSubstr("profile.dir and check_nan_inf exclude each other"));
  // A batch of 10 has shares of 5 for two ranks, and a first share of 3 for three.
  const std::string merged = whole + "mode: COLLECTIVE strategy { batch_merge_repeats: 5 }\n";
  EXPECT_EQ(Tandem({"lint", "--workers=2", Write("good.pbtxt", merged)}), 0) << Err();
  EXPECT_THAT(errors(merged, {"--workers=3"}),
              HasSubstr("a batch of 3 samples cannot be divided into 5 equal parts"));
  EXPECT_THAT(errors(whole + "checkpoint { dir: \"ck\" } strategy { runtime_flags { "
                             "reader_queue_speed_test_mode: true } }\n"),
              HasSubstr("does not train, so checkpoint.dir has no effect [TD1107]"));
}

// The program depends on the mode: pservers and collectives accept what one process rejects, and
// the other way round.
TEST_F(CliTest, LintBuildsTheProgramOfTheMode) {
  const auto job = [this](const std::string& mode, const std::string& optimizer) {
    return Write(
        "job.pbtxt",
        "mode: " + mode +
            " model { zoo: \"deepfm\" arg { name: \"sparse\" value: \"1\" } }\n"
            "data { format: \"csv\" dir: \"x\" csv { train_file: \"a\" test_file: \"b\" } }\n"
            "optimizer { " +
            optimizer + " }\nglobal_batch_size: 16\n");
  };
  const std::string lamb = "type: \"lamb\"", clip = "clip_global_norm: 1";
  EXPECT_EQ(Tandem({"lint", job("LOCAL", lamb)}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("lamb does not support sparse gradients"));
  EXPECT_EQ(Tandem({"lint", job("PSERVER", lamb)}), 0) << Err();
  EXPECT_EQ(Tandem({"lint", "--workers=2", job("COLLECTIVE", lamb)}), 0) << Err();
  EXPECT_EQ(Tandem({"lint", job("COLLECTIVE", clip)}), 0) << Err();
  EXPECT_EQ(Tandem({"lint", job("PSERVER", clip)}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("clip_global_norm is not supported in pserver mode"));
  job("COLLECTIVE", "");
  EXPECT_EQ(Tandem({"lint", "--workers=2",
                    Write("job.pbtxt", Read("job.pbtxt") + "strategy { pipeline: true }\n")}),
            kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("pipeline with the sparse gradient of"));
  // Only the last ranks have no parameter.
  EXPECT_EQ(Tandem({"lint", "--workers=16",
                    Write("job.pbtxt",
                          "mode: COLLECTIVE model { zoo: \"softmax\" }\n"
                          "data { dir: \"x\" } global_batch_size: 16\n"
                          "strategy { amp: true sharding: true }\n")}),
            kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("there are more ranks than parameters"));
}

// A saved strategy contains its `mode`, and lint checks the strategy for this mode.
TEST_F(CliTest, LintBelievesTheModeOfAStrategy) {
  const std::string text = "mode: COLLECTIVE\na_sync: true\n";
  EXPECT_EQ(Tandem({"lint", "--type=strategy", Write("s.pbtxt", text)}), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("a_sync"));
  EXPECT_EQ(Tandem({"lint", "--type=strategy", Write("p.pbtxt", "a_sync: true\n")}), 0) << Err();
}

TEST_F(CliTest, LintSavesTheSameBytesAgain) {
  const std::string job = Write("a.pbtxt", deploy::ExampleJob());
  ASSERT_EQ(Tandem({"lint", job, "--save=" + dir_ + "/b.pbtxt"}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("OK (job)"));
  ASSERT_EQ(Tandem({"lint", dir_ + "/b.pbtxt", "--save=" + dir_ + "/c.pbtxt"}), 0) << Err();
  EXPECT_NE(Read("b.pbtxt"), "");
  EXPECT_EQ(Read("b.pbtxt"), Read("c.pbtxt"));
}

TEST_F(CliTest, LintKnowsStrategies) {
  const std::string path = Write("s.pbtxt", "fuse_all_reduce_ops: true\n");
  EXPECT_EQ(Tandem({"lint", path}), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("OK (strategy)"));
}

TEST_F(CliTest, DoctorNamesWhatItChecked) {
  Tandem({"doctor"});
  for (const char* what : {"cpu", "memory", "files", "disk", "ports", "openmp", "cuda", "data"}) {
    EXPECT_THAT(Out(), HasSubstr(std::string("  ") + what + " "));
  }
}

// Every command with output for humans can also print JSON.
TEST_F(CliTest, AnswersAsJson) {
  const auto json = [&](const std::vector<std::string>& args) {
    Tandem(args);
    return nlohmann::json::parse(Out(), nullptr, /*allow_exceptions=*/false);
  };
  const auto knobs = json({"knobs", "list", "-o", "json"});
  ASSERT_GT(knobs.size(), 50u) << Err();
  for (const auto& knob : knobs) EXPECT_NE(knob["doc"], "") << knob["knob"];
  const auto codes = json({"explain", "DATA_LOSS", "-o", "json"});
  ASSERT_EQ(codes.size(), 1u) << Err();
  EXPECT_EQ(codes[0]["code"], "DATA_LOSS");
  EXPECT_EQ(codes[0]["exit_code"], kExitData);
  const auto findings = json({"doctor", "--output=json"});
  ASSERT_GT(findings.size(), 5u) << Err();
  EXPECT_EQ(findings[0]["what"], "cpu");
  const std::string path =
      Write("bad.pbtxt", "name: \"x\"\nepoch: 3\nstrategy { a_sync: maybe }\n");
  const auto linted = json({"lint", "--type=job", path, "-o", "json"});
  ASSERT_EQ(linted.size(), 1u) << Err();
  EXPECT_EQ(linted[0]["ok"], false);
  const auto& first = linted[0]["findings"][0];
  EXPECT_EQ(first["line"], 2);
  EXPECT_EQ(first["column"], 1);
  EXPECT_EQ(first["severity"], "error");
  EXPECT_EQ(first["hint"], "did you mean \"epochs\"?");
  EXPECT_EQ(Tandem({"lint", path, "-o", "json"}), kExitUsage) << "the exit code stays";
  EXPECT_EQ(Tandem({"knobs", "list", "-o", "xml"}), kExitUsage);
}

// Covers every command that prints a result, except completion, whose output is for shells, and the
// commands that need a running job (tests/e2e/watch_test.cc).
TEST_F(CliTest, EveryCommandAnswersAsJson) {
  const auto json = [&](const std::vector<std::string>& args) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"-o", "json"});
    EXPECT_EQ(Tandem(all), 0) << args[0] << "\n" << Err();
    auto answer = nlohmann::json::parse(Out(), nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(answer.is_discarded()) << Out();
    all.back() = "yaml";
    EXPECT_EQ(Tandem(all), kExitUsage) << args[0];
    return answer;
  };
  EXPECT_NE(json({"version"})["version"], "");
  EXPECT_EQ(json({"help"}).size(), deploy::Commands().size());
  EXPECT_EQ(json({"knobs", "explain", "a_sync"})[0]["knob"], "a_sync");
  const std::string pki = dir_ + "/pki";
  EXPECT_EQ(json({"certs", "init", pki})["folder"], pki);
  const auto issued = json({"certs", "issue", pki, "--job=j", "--role=trainer"});
  EXPECT_EQ(issued["uri"], "spiffe://tandem/job/j/role/trainer");
  EXPECT_EQ(json({"certs", "show", issued["folder"]})[0]["good"], true);

  const std::string job = Write("job.pbtxt", R"(
    name: "small" model { zoo: "lenet" } global_batch_size: 4 mode: LOCAL
    optimizer { type: "momentum" learning_rate: 0.01 }
    data { format: "synthetic" synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 8 } }
    strategy { build_strategy { fuse_all_optimizer_ops: true } })");
  const auto memory = json({"lint", job, "--memory"})[0]["memory"];
  EXPECT_GT(memory["parameters"], 61706 * 4 - 1);
  EXPECT_EQ(memory["points"][0]["behind"], "model");
  const auto graph = json({"graph", job, "--after=model"});
  EXPECT_EQ(graph["after"], "model");
  EXPECT_EQ(graph["operators"][0]["type"], "conv2d");
  EXPECT_EQ(graph["operators"][0]["reads"][0], "img");
  const auto fused =
      std::find_if(graph["passes"].begin(), graph["passes"].end(),
                   [](const auto& p) { return p["pass"] == "fuse_all_optimizer_ops"; });
  ASSERT_NE(fused, graph["passes"].end());
  EXPECT_EQ((*fused)["matched"], 1);
  const auto data = json({"data", "inspect", job, "--records=1"});
  EXPECT_EQ(data["parts"][0]["samples"], 8);
  EXPECT_EQ(data["parts"][0]["fields"][1]["field"], "label");
  EXPECT_THAT(data["parts"][0]["first"][0]["features"]["label"].get<std::string>(),
              StartsWith("int64 [1] "));
}

TEST_F(CliTest, DemoWithEqualBits) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = FakeTrainer("abcdef0123456789abcdef");
  EXPECT_EQ(Tandem(DemoArgs({"--epochs=3"})), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("tandemrun --servers=2 --workers=2"));
  EXPECT_THAT(Out(), HasSubstr("progress of rank 0\n"));
  EXPECT_THAT(Out(), HasSubstr("91.00 %"));
  EXPECT_THAT(Out(), HasSubstr("bit for bit: yes\n"));
  for (const char* mode : {"pserver", "collective"}) {
    const std::string job = Read(std::string("job.") + mode);
    EXPECT_THAT(job, HasSubstr("epochs: 3"));
    EXPECT_THAT(job, HasSubstr("dir: \"" + dir_ + "\""));
    EXPECT_THAT(job, HasSubstr(dir_ + "/demo/" + mode + "/checkpoints"));
  }
}

TEST_F(CliTest, DemoAsJson) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = FakeTrainer("abcdef0123456789abcdef");
  EXPECT_EQ(Tandem(DemoArgs({"--json"})), 0) << Err();
  EXPECT_THAT(Err(), HasSubstr("progress of rank 0\n"));
  const auto json = nlohmann::json::parse(Out());
  EXPECT_EQ(json["accuracy_pserver"], 0.91);
  EXPECT_EQ(json["accuracy_collective"], 0.91);
  EXPECT_EQ(json["same_bits"], true);
  EXPECT_EQ(json["images_per_s"]["collective"], 1000);
  EXPECT_GT(json["seconds"], 0);
}

TEST_F(CliTest, DemoFailsWhenBitsDiffer) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = FakeTrainer("$mode");
  EXPECT_EQ(Tandem(DemoArgs({})), kExitFailure);
  EXPECT_THAT(Out(), HasSubstr("bit for bit: NO\n"));
}

TEST_F(CliTest, DemoFailsWithItsRun) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer", "await server.0.pid; await server.1.pid; exit 65");
  EXPECT_EQ(Tandem(DemoArgs({})), kExitData);
  EXPECT_THAT(Err(), HasSubstr("exit code 65"));
  EXPECT_THAT(Err(), HasSubstr("logs are in " + dir_ + "/demo"));
}

TEST_F(CliTest, DemoWithoutData) {
  EXPECT_EQ(Tandem({"demo", "--data=" + dir_}), kExitUsage);
  EXPECT_THAT(Err(),
              HasSubstr("directory " + dir_ + " contains neither file train-images-idx3-ubyte"));
  EXPECT_THAT(Err(), HasSubstr("hint: set --data to a directory"));
}

// The demo sums the final counts of all its servers.
TEST_F(CliTest, UpdatesAreCountedByTheServers) {
  const auto end = [&](int server, int version, int repeated) {
    Write("serverlog." + std::to_string(server),
          absl::StrFormat("x\ntandem-pserver %d restored version 3\ntandem-pserver %d ends at "
                          "version %d; repeated pushes: %d\n",
                          server, server, version, repeated));
  };
  end(0, 100, 0);
  EXPECT_EQ(deploy::CountUpdates(dir_, 2, 100).status().code(), StatusCode::kDataLoss);
  end(1, 100, 2);
  auto count = deploy::CountUpdates(dir_, 2, 100);
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->lost, 0);
  EXPECT_EQ(count->doubled, 0);
  EXPECT_EQ(count->repeated, 2);
  deploy::DemoResult result;
  result.pserver = result.collective = {.steps = 100, .params_sha256 = "ab"};
  result.kill =
      deploy::KillReport{.killed = true, .server = 1, .version_before = 40, .version_back = 41};
  result.updates = *count;
  EXPECT_TRUE(result.Good());
  EXPECT_THAT(deploy::DemoText(result, -1),
              HasSubstr("same result as without the kill: yes (sha256 ab"));
  result.kill->version_back = 39;
  EXPECT_FALSE(result.Good());
  EXPECT_EQ(result.Lost(), 1);
  result.kill->version_back = 40;
  end(0, 98, 0);
  end(1, 101, 0);
  result.updates = *deploy::CountUpdates(dir_, 2, 100);
  EXPECT_EQ(result.updates.lost, 2);
  EXPECT_EQ(result.updates.doubled, 1);
  EXPECT_FALSE(result.Good());
  result.updates = {};
  result.kill->problem = "did not restart in time";
  EXPECT_FALSE(result.Good());
}

TEST_F(CliTest, WrongResultFilesAreRefused) {
  for (const char* text :
       {"", "{", "[]", "{\"accuracy\": \"high\"}",
        "{\"accuracy\":1,\"images_per_s\":1,\"seconds\":1,\"steps\":1,\"params_sha256\":7}"}) {
    EXPECT_EQ(deploy::ReadDemoRun(Write("r.json", text)).status().code(), StatusCode::kDataLoss)
        << text;
  }
  EXPECT_EQ(deploy::ReadDemoRun(dir_ + "/none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::deploy
