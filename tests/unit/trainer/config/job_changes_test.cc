#include "trainer/config/job_changes.h"

#include "gtest/gtest.h"

namespace tandem::trainer {
namespace {

const char kBefore[] =
    "name: a   (a.pbtxt:1:1)\n"
    "optimizer.type: momentum   (a.pbtxt:2:1)\n"
    "data.dir: x   (y)   (a.pbtxt:3:1)\n"
    "data.reader_threads: 1   (a.pbtxt:3:9)\n"
    "checkpoint.dir: c   (flag --checkpoint.dir)\n"
    "strategy.amp: true   (a.pbtxt:4:1)\n"
    "steps_max: 10   (a.pbtxt:5:1)\n";

TEST(JobChanges, NothingOfWhereItWasSet) {
  EXPECT_EQ(ChangesOfJob(kBefore, kBefore), "");
  EXPECT_EQ(ChangesOfJob(kBefore,
                         "optimizer.type: momentum   (flag --optimizer.type, over b.pbtxt:2:1)\n"
                         "data.dir: x   (y)   (b.pbtxt:9:9)\n"
                         "strategy.amp: true   (flag --amp)\n"
                         "steps_max: 99   (flag --steps_max)\n"),
            "");
}

TEST(JobChanges, NamesWhatIsOtherNewAndGone) {
  EXPECT_EQ(ChangesOfJob(kBefore,
                         "optimizer.type: adam   (a.pbtxt:2:1)\n"
                         "data.dir: z   (y)   (a.pbtxt:3:1)\n"
                         "seed: 7   (flag --seed)\n"),
            "data.dir x   (y) -> z   (y), optimizer.type momentum -> adam, seed default -> 7, "
            "strategy.amp true -> default");
  EXPECT_EQ(ChangesOfJob("", ""), "");
}

}  // namespace
}  // namespace tandem::trainer
