// Typing errors of users: letters swapped, missing or doubled, dashes, plurals, reordered words,
// names half remembered. The tests pass each row to the real program. At least 95 of 100 first "did
// you mean" suggestions must be right.
#include <regex>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"
#include "tests/support/softmax_program.h"

namespace tandem {
namespace {

constexpr double kShareMin = 0.95;

struct Typo {
  const char* typed;
  const char* meant;
};

// Mistyped command lines, each with the correct word.
constexpr Typo kLines[] = {
    {"tandem dmeo", "demo"},
    {"tandem stauts", "status"},
    {"tandem stat", "status"},
    {"tandem knob", "knobs"},
    {"tandem exprot", "export"},
    {"tandem lnt", "lint"},
    {"tandem docter", "doctor"},
    {"tandem expalin", "explain"},
    {"tandem comp", "completion"},
    {"tandem restor", "restore"},
    {"tandem event", "events"},
    {"tandem certificates", "certs"},
    {"tandem var", "vars"},
    {"tandem plans", "plan"},
    {"tandem graf", "graph"},
    {"tandem Bench", "bench"},
    {"tandem knobs lsit", "list"},
    {"tandem knobs explian a_sync", "explain"},
    {"tandem knobs explain a_snyc", "a_sync"},
    {"tandem knobs explain fuse_al_reduce_ops", "fuse_all_reduce_ops"},
    {"tandem knobs explain fuse_grad_size", "fuse_grad_size_in_MB"},
    {"tandem certs isue dir", "issue"},
    {"tandem certs innit dir", "init"},
    {"tandem certs issue pki --job=j --role=trainr", "trainer"},
    {"tandem certs issue pki --job=j --role=amdin", "admin"},
    {"tandem data inpsect file", "inspect"},
    {"tandem completion bsh", "bash"},
    {"tandem explain DATALOSS", "DATA_LOSS"},
    {"tandem explain INVALID_ARGUMNT", "INVALID_ARGUMENT"},
    {"tandem status -o jsn --pservers=127.0.0.1:1", "json"},
    {"tandem demo --epoch=3", "--epochs"},
    {"tandem demo --jsno", "--json"},
    {"tandem lint --wrokers=2 good.pbtxt", "--workers"},
    {"tandem lint --type=strtegy good.pbtxt", "strategy"},
    {"tandem graph good.pbtxt --befor=autodiff", "--before"},
    {"tandem graph good.pbtxt --after=autodif", "autodiff"},
    {"tandem status --pserver=127.0.0.1:1", "--pservers"},
    {"tandem status --secretfile=x", "--secret_file"},
    {"tandem drain --waits=3 log", "--wait_s"},
    {"tandem bench knobs --netwrok=lenet", "--network"},
    {"tandem plan good.pbtxt --rank=2", "--ranks"},
    {"tandemrun --server=2 good.pbtxt", "--servers"},
    {"tandemrun --num_servers=2 good.pbtxt", "--servers"},
    {"tandemrun --wokers=2 good.pbtxt", "--workers"},
    {"tandemrun --nprocs=2 good.pbtxt", "--nproc"},
    {"tandemrun --nproc-per-nod=2 good.pbtxt", "--nproc_per_node"},
    {"tandemrun --mod=local good.pbtxt", "--mode"},
    {"tandemrun --mode=colective good.pbtxt", "collective"},
    {"tandemrun --mode=pserve good.pbtxt", "pserver"},
    {"tandemrun --mode=hybird good.pbtxt", "hybrid"},
    {"tandemrun --logdir=x good.pbtxt", "--log_dir"},
    {"tandemrun --dryrun good.pbtxt", "--dry_run"},
    {"tandemrun --max_restart=1 good.pbtxt", "--max_restarts"},
    {"tandemrun --statusport=8000 good.pbtxt", "--status_port"},
    {"tandemrun --secret=x good.pbtxt", "--secret_file"},
    {"tandemrun --insecure good.pbtxt", "--insecure_allow_network"},
    {"tandem-pserver --lisen=127.0.0.1:0", "listen"},
    {"tandem-pserver --data-dri=x", "data_dir"},
    {"tandem-pserver --trainer=2", "trainers"},
    {"tandem-pserver --durablity=logged", "durability"},
    {"tandem-pserver --durability=loged --data_dir=d", "logged"},
    {"tandem-pserver --wal_sync=allways", "always"},
    {"tandem-pserver --admin=127.0.0.1:0", "status_listen"},
    {"tandem-trainer --job_fiel=good.pbtxt", "job_file"},
    {"tandem-trainer --job_file=good.pbtxt --check --result_jsn=x", "result_json"},
    {"tandem-trainer --job_file=good.pbtxt --check --log-formt=plain", "log_format"},
    {"tandem-trainer --job_file=good.pbtxt --log_format=plian", "plain"},
    {"tandem-trainer --job_file=good.pbtxt --check --epoch=3", "epochs"},
    {"tandem-trainer --job_file=good.pbtxt --check --lerning_rate=0.1", "learning_rate"},
    {"tandem-trainer --job_file=good.pbtxt --check --batchsize=8", "batch_size"},
    {"tandem-trainer --job_file=good.pbtxt --check --optimizer.lr_rate=1",
     "optimizer.learning_rate"},
    {"tandem-trainer --job_file=good.pbtxt --check --max_steps=3", "steps_max"},
    {"tandem-trainer --job_file=good.pbtxt --check --placee=cpu", "place"},
    {"tandem-trainer --job_file=good.pbtxt --check --place=cdua", "cuda"},
    {"tandem-trainer --job_file=good.pbtxt --check --reduce_strategy=Redcue", "Reduce"},
    {"tandem-trainer --job_file=good.pbtxt --check --a_sync=ture", "true"},
    {"tandem-trainer --job_file=good.pbtxt --check --gradientmerge=true", "gradient_merge"},
    {"tandem-trainer --job_file=good.pbtxt --check --checkpont.dir=x", "checkpoint.dir"},
};

// Mistyped lines, which the test adds to a good job file, each with the correct field.
constexpr Typo kJobLines[] = {
    {"epoch: 3", "epochs"},
    {"checkpiont { dir: \"x\" }", "checkpoint"},
    {"log_every_step: 5", "log_every_steps"},
    {"every_log_steps: 5", "log_every_steps"},
    {"eval_evry_epochs: 1", "eval_every_epochs"},
    {"thread: 2", "threads"},
    {"sead: 2", "seed"},
    {"mode: COLLECTVE", "COLLECTIVE"},
    {"mode: PSEVER", "PSERVER"},
    {"profile { dri: \"x\" }", "dir"},
    {"checkpoint { every_step: 5 }", "every_steps"},
    {"checkpoint { keeep: 5 }", "keep"},
    {"strategy { a_synch: true }", "a_sync"},
    {"strategy { fuse_all_reduce: true }", "fuse_all_reduce_ops"},
    {"strategy { fuse_grad_size_in_mb: 16 }", "fuse_grad_size_in_MB"},
    {"strategy { nccl_com_num: 2 }", "nccl_comm_num"},
    {"strategy { hierarchical_allreduce: true }", "use_hierarchical_allreduce"},
    {"strategy { recomputee: true }", "recompute"},
    {"strategy { localsdg: true }", "localsgd"},
    {"strategy { build_strategy { reduce_stratgy: Reduce } }", "reduce_strategy"},
    {"strategy { build_strategy { reduce_strategy: AllReduc } }", "AllReduce"},
    {"strategy { build_strategy { enable_in_place: true } }", "enable_inplace"},
    {"strategy { build_strategy { fuse_elemwise_add_act_ops: true } }", "fuse_elewise_add_act_ops"},
    {"strategy { build_strategy { fuse_all_optimiser_ops: true } }", "fuse_all_optimizer_ops"},
    {"strategy { execution_strategy { num_thread: 2 } }", "num_threads"},
    {"strategy { execution_strategy { num_iterations_per_run: 2 } }", "num_iteration_per_run"},
    {"strategy { amp_configs { init_loss_scale: 2 } }", "init_loss_scaling"},
    {"strategy { sync_batchnorm: true }", "sync_batch_norm"},
    {"strategy { determinstic: true }", "deterministic"},
};

// Mistyped words of a good job file. Each row has the mistyped text, followed by the correct text
// that it replaces.
constexpr Typo kJobWords[] = {
    {"sgdd", "sgd"},
    {"lenett", "lenet"},
    {"synthetc", "synthetic"},
    {"optimiser", "optimizer"},
    {"learing_rate", "learning_rate"},
    {"modle", "model"},
    {"zooo", "zoo"},
    {"formt", "format"},
    {"global_batchsize", "global_batch_size"},
    {"channnels", "channels"},
    {"datta", "data"},
};

// Mistyped words of a good program file. Each row has the mistyped text, followed by the correct
// text that it replaces.
constexpr Typo kProgramWords[] = {
    {"softmax_with_crossentropy", "softmax_with_cross_entropy"},
    {"\"acuracy\"", "accuracy"},
    {"\"reshap\"", "reshape"},
    {"var: \"lables\"", "label"},
    {"var: \"logit\" }\n  input { slot: \"Label", "logits"},
    {"slot: \"Logit\"", "Logits"},
    {"name: \"shap\"", "shape"},
    {"metric: \"ac\"", "acc"},
    {"dtype: F23", "F32"},
    {"kind: PARM", "PARAM"},
    {"inptu {", "input"},
    {"los:", "loss"},
};

constexpr char kGoodJob[] = R"(name: "good"
model { zoo: "lenet" arg { name: "channels" value: "6,16" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 64 }
}
optimizer { type: "sgd" learning_rate: 0.1 }
global_batch_size: 8
)";

std::string FirstHint(const std::string& output) {
  std::smatch found;
  return std::regex_search(output, found, std::regex("did you mean \"([^\"]*)\"")) ? found[1].str()
                                                                                   : "";
}

std::string WithoutDashes(const std::string& name) {
  return name.substr(std::min(name.size(), name.find_first_not_of('-')));
}

// Returns the good job with the program file instead of a model of the zoo.
std::string ProgramJob() {
  std::string job = kGoodJob;
  const size_t zoo = job.find("zoo: \"lenet\"");
  return job.replace(zoo, job.find(" }\ndata") - zoo, "program: \"program.pbtxt\"");
}

// Returns `text` with one occurrence of the correct text replaced by `typed`. The correct text is
// `typed` with one of its words replaced by `meant`.
std::string Mistyped(std::string text, const std::string& typed, const std::string& meant) {
  const std::regex word("[A-Za-z_0-9]+");
  for (std::sregex_iterator it(typed.begin(), typed.end(), word), end; it != end; ++it) {
    std::string good = typed;
    good.replace(static_cast<size_t>(it->position()), it->str().size(), meant);
    const size_t at = text.find(good);
    if (at != std::string::npos) return text.replace(at, good.size(), typed);
  }
  return text;
}

class TyposTest : public JobTest {
 protected:
  // Runs a mistyped command line in the test's directory, which contains the files that the line
  // names. Returns the output.
  std::string Say(const std::string& line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const std::string program = words[0];
    for (std::string& word : words) {
      const size_t at = word.find("good.pbtxt");
      if (at != std::string::npos) word = word.substr(0, at) + Path("good.pbtxt");
    }
    words.erase(words.begin());
    ChildProcess process(program, words, {}, Path("out"));
    EXPECT_NE(process.Wait(60), 0) << line;
    return process.Output();
  }
  void Count(const std::string& typed, const std::string& meant, const std::string& said) {
    const bool right = WithoutDashes(FirstHint(said)) == WithoutDashes(meant);
    right_ += right ? 1 : 0;
    ++all_;
    if (!right) wrong_ += "  " + typed + " -> \"" + FirstHint(said) + "\", meant " + meant + "\n";
  }

  int all_ = 0, right_ = 0;
  std::string wrong_;
};

TEST_F(TyposTest, TheFirstHintIsWhatWasMeant) {
  Write("good.pbtxt", kGoodJob);
  for (const Typo& t : kLines) Count(t.typed, t.meant, Say(t.typed));
  for (const Typo& t : kJobLines) {
    Write("good.pbtxt", std::string(kGoodJob) + t.typed + "\n");
    Count(t.typed, t.meant, Say("tandem lint --type=job good.pbtxt"));
  }
  for (const Typo& t : kJobWords) {
    std::string job = kGoodJob;
    job.replace(job.find(t.meant), std::string(t.meant).size(), t.typed);
    Write("good.pbtxt", job);
    Count(t.typed, t.meant, Say("tandem lint --type=job good.pbtxt"));
  }
  Write("good.pbtxt", ProgramJob());
  for (const Typo& t : kProgramWords) {
    const auto program = Mistyped(kSoftmaxProgram, t.typed, t.meant);
    ASSERT_NE(program, kSoftmaxProgram) << t.typed;
    Write("program.pbtxt", program);
    Count(t.typed, t.meant, Say("tandem-trainer --check --job_file=good.pbtxt"));
  }
  std::printf("typos with the right first hint: %d of %d\n%s", right_, all_, wrong_.c_str());
  EXPECT_GE(all_, 100);
  EXPECT_GE(right_, kShareMin * all_) << wrong_;
}

// Files without typing errors give no suggestion.
TEST_F(TyposTest, WithoutTyposNobodyAsks) {
  Write("program.pbtxt", kSoftmaxProgram);
  for (const std::string& job : {std::string(kGoodJob), ProgramJob()}) {
    const std::string path = Write("good.pbtxt", job);
    ChildProcess process("tandem-trainer", {"--check", "--job_file=" + path}, {}, Path("out"));
    EXPECT_EQ(process.Wait(60), 0) << process.Output();
    EXPECT_EQ(FirstHint(process.Output()), "");
  }
}

}  // namespace
}  // namespace tandem
