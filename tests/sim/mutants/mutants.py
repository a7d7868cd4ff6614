"""Deliberate mistakes in the parameter server, which tests must find.

A mutant is a list of edits of source files: exact old text, new text. The product has none of them. A build
with a mutant compiles edited copies and links them in front of the libraries (mutants_test.py).

By hand: python3 mutants.py --source=. --name=no_dedup --out=DIR writes the edited files to DIR."""

import argparse
import collections
import os

Edit = collections.namedtuple("Edit", "path old new")
# A run of a test program that finds the mutant: filter of gtest, first seed and number of seeds.
Run = collections.namedtuple("Run", "program filter first seeds", defaults=(1, 1))
Mutant = collections.namedtuple("Mutant", "name mistake edits runs")

SHARD = "pserver/shard/"
REPLICATION = "pserver/replication/"
CLIENT = "pserver/client/"
MOVES = CLIENT + "moves/"


class DoesNotFit(Exception):
    """An edit's old text is not exactly once in its file."""


def sim(kind, first, seeds=1):
    return Run("sim_test", f"Modes/ModeTest.EveryPushCountsOnce/{kind}", first, seeds)


MUTANTS = [
    Mutant(
        "no_dedup", "a repeated push is applied again",
        [Edit(SHARD + "push_gate.cc",
              "    case SequenceWindow::Seen::kTaken:\n      return PushVerdict::kDuplicate;\n",
              "    case SequenceWindow::Seen::kTaken:\n      break;\n"),
         Edit(SHARD + "shard.cc", "  t.taken.Take(head.sequence);\n", "")],
        [sim("a_sync", 6)]),
    Mutant(
        "marks_not_kept", "the log restores updates, but not the numbers of their pushes",
        [Edit(SHARD + "shard.cc", "  t.taken.Take(head.sequence);\n",
              "  if (!replaying) t.taken.Take(head.sequence);\n")],
        [sim("a_sync", 6)]),
    Mutant(
        "steps_twice", "a new process of a trainer can push a step of its predecessor again",
        [Edit(SHARD + "push_gate.cc",
              "  if (head.once && !state_.sync() && head.step < t.once_adopted) return PushVerdict::kDuplicate;\n",
              "")],
        [Run("pserver_push_once_test", "*")]),
    Mutant(
        "steps_not_kept", "the log restores updates, but not which steps of a trainer they are",
        [Edit(SHARD + "shard.cc", "  if (head.once) t.once_steps",
              "  if (head.once && !replaying) t.once_steps")],
        [Run("pserver_push_once_test", "*"), sim("a_sync_source", 1, 20), sim("a_sync_standbys_source", 1, 20)]),
    Mutant(
        "rollback_forgotten", "after a restore, a trainer whose process is newer than the snapshot continues",
        [Edit(SHARD + "trainers/trainer_registry.cc",
              "    if (before.incarnation > t.incarnation) t.Replace(before.incarnation, version);\n",
              "    if (before.incarnation > t.incarnation && version != UINT64_MAX) continue;\n")],
        [Run("pserver_push_once_test", "*"), sim("a_sync_source", 67), sim("a_sync_readers_source", 20)]),
    Mutant(
        "snapshot_early", "the log has a snapshot before the last pushes of the snapshot",
        [Edit(SHARD + "shard.cc",
              "  if (options_.on_logged_snapshot != nullptr) state_.journal.Note(hold_.record());\n", ""),
         Edit(SHARD + "global_snapshot_calls.cc",
              "  shard_.hold_.Order(std::move(order), std::move(done));\n",
              "  shard_.hold_.Order(std::move(order), std::move(done));\n"
              "  if (shard_.options_.on_logged_snapshot) shard_.state_.journal.Note(shard_.hold_.record());\n")],
        [sim("a_sync_standbys", 1, 40)]),
    Mutant(
        "steps_apart", "a checkpoint has the updates of the trainers, but not their positions in the data",
        [Edit(SHARD + "trainers/trainer_registry.cc", "    t.once_steps = mark.steps;\n", "    t.once_steps = 0;\n")],
        [sim("a_sync_source", 1, 20)]),
    Mutant(
        "steps_stay", "buckets move to a new server without the steps of the trainers",
        [Edit(SHARD + "bucket_migrations.cc", "    t.once_steps = mark.mark.steps;\n", "")],
        [Run("pserver_once_moves_test", "*")]),
    Mutant(
        "repeated_after_move", "streams: a step that the source of a move had is counted again by its target",
        [Edit(SHARD + "bucket_migrations.cc",
              "  for (TrainerRegistry::Trainer& t : state_.trainers) t.once_adopted = t.once_steps;\n", "")],
        [Run("pserver_once_moves_test", "*")]),
    Mutant(
        "steps_apart_when_moved", "streams: buckets move between servers with different steps of a trainer",
        [Edit(SHARD + "bucket_migrations.cc",
              "  if (asked && AtItsStep() && migration.trainer_steps == OnceSteps(state_.trainers) &&\n",
              "  if (asked &&\n"),
         Edit(MOVES + "bucket_migrator.cc", " && std::ranges::equal(steps, others)) {\n", ") {\n")],
        [Run("pserver_once_moves_test", "*"), sim("a_sync_source_moves", 32), sim("a_sync_source_torn", 9)]),
    Mutant(
        "target_not_split_again", "streams: a target accepts a message that was split before the move",
        [Edit(SHARD + "bucket_migrations.cc",
              "  const bool between_steps = state_.sync() || moves_.offered_between_steps;\n",
              "  const bool between_steps = state_.sync();\n")],
        [Run("pserver_once_moves_test", "*"), sim("a_sync_source_torn", 69)]),
    Mutant(
        "messages_not_joined", "streams: a server gets the contents of a step in several messages after a move",
        [Edit(CLIENT + "push.cc", "    if (!parts_.options.rules.each_step_once) return nullptr;\n",
              "    if (parts_.caller.Now() != Time::min()) return nullptr;\n")],
        [sim("a_sync_source_moves", 38)]),
    Mutant(
        "gone_counts_twice", "streams: a message that a server took before it stopped counts again",
        [Edit(SHARD + "bucket_migrations.cc",
              "    return head.step < state_.trainers[head.caller.trainer].once_steps;\n",
              "    return false;\n")],
        [Run("pserver_once_moves_test", "*")]),
    Mutant(
        "answers_early", "replies do not wait until their updates are logged",
        [Edit(SHARD + "shard.cc", "  options_.log->WhenLogged(std::move(done));\n", "  done(OkStatus());\n")],
        [sim("sync", 13), sim("a_sync", 3)]),
    Mutant(
        "log_cut_short", "a checkpoint drops log entries that it does not contain",
        [Edit(SHARD + "snapshotter.cc", "  if (!state_.journal.has_log()) state_.Settle();\n",
              "  state_.Settle();\n")],
        [sim("sync", 7)]),
    Mutant(
        "old_rows_taken", "pushes from before a release are accepted when the buckets return",
        [Edit(SHARD + "bucket_migrations.cc",
              "  if (head.generation == moves_.generation) return OkStatus();\n",
              "  if (head.generation <= moves_.generation) return OkStatus();\n")],
        [Run("pserver_moves_test", "*")]),
    Mutant(
        "marks_stay", "buckets move without the marks of their pushes",
        [Edit(SHARD + "migration_contents.cc", "  PackMarks(state, moves, migration);\n",
              "  if (target < 0) PackMarks(state, moves, migration);\n")],
        [Run("pserver_moves_test", "*")]),
    Mutant(
        "owns_too_soon", "offered buckets are served before their release",
        [Edit(SHARD + "migration_contents.cc", "    state.params->Keep(m.bucket, false);\n",
              "    state.params->Keep(m.bucket, true);\n")],
        [sim("a_sync", 9), sim("sync", 2)]),
    Mutant(
        "moves_within_a_step", "pushes are accepted while buckets move between steps",
        [Edit(SHARD + "bucket_migrations.cc", "  if (!StepHeld(head)) return OkStatus();\n",
              "  if (!StepHeld(head) || StepHeld(head)) return OkStatus();\n"),
         Edit(SHARD + "bucket_migrations.cc", " && state_.params->step().NothingGathered();\n", ";\n")],
        [sim("sync_moves", 9)]),
    Mutant(
        "previous_stays", "sync: buckets move without the values before the last step",
        [Edit(SHARD + "migration_contents.cc", "  if (!state.has_previous) return;\n", "  return;\n"),
         Edit(SHARD + "migration_contents.cc", "Migrations(frozen, state.sync()))", "Migrations(frozen, false))")],
        [sim("sync_torn", 97), Run("pserver_step_moves_test", "*"), Run("pserver_slice_moves_test", "*")]),
    Mutant(
        "never_takes_back", "sync: targets do not learn of cancelled moves",
        [Edit(SHARD + "bucket_migrations.cc", "  if (moves_.begun.empty()) return;\n", "  return;\n")],
        [Run("pserver_step_moves_test", "*")]),
    Mutant(
        "never_asks", "after a restart, pushes without logged values are dropped",
        [Edit(SHARD + "checkpoint_calls.cc", "/*lost=*/false", "/*lost=*/true"),
         Edit(SHARD + "shard.cc",
              "    if (change.lost) {\n      ++state_.trainers[head.caller.trainer].lost_pushes;\n",
              "    if (false) {\n      ++state_.trainers[head.caller.trainer].lost_pushes;\n")],
        [sim("a_sync_replayable", 2), sim("sync_replayable", 2)]),
    Mutant(
        "snapshots_early", "a global snapshot does not wait for its missing pushes",
        [Edit(SHARD + "trainers/global_snapshot_hold.cc", "  for (uint64_t n = sent; n > ended; --n) {\n",
              "  for (uint64_t n = ended; n > ended; --n) {\n")],
        [sim("a_sync", 38)]),
    Mutant(
        "holds_nothing", "new pushes are accepted during a hold for a global snapshot",
        [Edit(SHARD + "trainers/global_snapshot_hold.cc", "  if (!active()) return OkStatus();\n",
              "  if (!active() || hold_.number != 0) return OkStatus();\n"),
         Edit(SHARD + "trainers/global_snapshot_hold.cc", "  if (t.taken.highest() > sent) {\n",
              "  if (sent == UINT64_MAX) {\n")],
        [sim("a_sync", 57)]),
    Mutant(
        "copies_late", "a snapshot contains updates that precede the copy but follow its begin",
        [Edit(SHARD + "snapshotter.cc", "  TD_REQUIRE(copying_);\n",
              "  TD_REQUIRE(copying_);\n"
              "  if (copy.copied.slice == 0) state_.params->snapshotter().Begin(copy.snapshot);\n")],
        [sim("a_sync", 2)]),
    Mutant(
        "standbys_not_awaited", "the primary acknowledges pushes before a standby has stored them",
        [Edit("pserver/storage/group_commit_log.cc",
              "  return awaits_standbys_ || replicated ? std::min(written_, replicated_) : written_;\n",
              "  return replicated ? std::min(written_, replicated_) : written_;\n")],
        [sim("sync_standbys", 1, 10), sim("a_sync_standbys", 1, 10)]),
    Mutant(
        "late_copies_stay_lost", "replication async: a delayed copy of a lost push still counts as lost",
        [Edit(SHARD + "trainers/trainer_registry.cc", "sequence != 0 && sequence <= known ?", "sequence == UINT64_MAX ?")],
        [sim("a_sync_standbys_async", 1586)]),
    Mutant(
        "leaves_uncounted", "replication async: a trainer leaves before a standby has its last report",
        [Edit(SHARD + "durable_shard.cc", "  if (replication_ == Replication::kAsync) return",
              "  if (clock_.Now() == Time::min()) return")],
        [sim("a_sync_standbys_async", 1, 500)]),
    Mutant(
        "forgets_incarnations", "a restore forgets an incarnation without steps, so an older one may push",
        [Edit(SHARD + "trainers/trainer_registry.cc",
              "    if (before.incarnation > t.incarnation) t.Replace(before.incarnation, version);\n",
              "    if (counts && before.incarnation > t.incarnation) t.Replace(before.incarnation, version);\n")],
        [sim("a_sync_readers_source", 1001250)]),
    Mutant(
        "term_stays", "a promotion does not increase the term, so old entries count as entries of the new primary",
        [Edit("deploy/launch/hosts/server_group.cc",
              "    term = (term / kTermStride + 1 + skipped) * kTermStride;\n", "    (void)skipped;\n"),
         Edit("pserver/follower_state.cc", "  if (term <= position_.term.number)",
              "  if (term < position_.term.number)")],
        [sim("sync_standbys", 1, 10), sim("a_sync_standbys", 1, 10)]),
    Mutant(
        "fewest_entries_win", "the launcher promotes the member with fewer entries",
        [Edit("deploy/launch/hosts/server_group.cc", "rank(m, *vote) > rank(best,", "rank(m, *vote) < rank(best,")],
        [sim("sync_standbys", 1, 10), sim("a_sync_standbys", 1, 10)]),
    Mutant(
        "promotes_unfenced", "a promotion does not end the term before it: entries of both count as the same",
        [Edit(REPLICATION + "log_source.cc",
              "  if (term == term_) return number <= last_;\n",
              "  if (term.history == term_.history) return number <= last_;\n"),
         Edit(REPLICATION + "log_source.cc",
              "  const bool same = request.term == term_;\n", "  const bool same = true;\n")],
        [sim("sync_standbys", 1, 20), sim("a_sync_standbys", 1, 20)]),
    Mutant(
        "replicas_ahead", "replicas receive entries that no majority of the members has",
        [Edit(REPLICATION + "log_source.cc",
              "  return request.member == kReplica ? replicated_ : last_;\n",
              "  return request.member == kReplica ? last_ : last_;\n")],
        [sim("a_sync_standbys_readers", 313)]),
    Mutant(
        "tombstones_lost", "followers do not learn of removed rows",
        [Edit("pserver/tables/sparse_table.cc", "  changed_.Add(gone);\n", "  gone.clear();\n")],
        [sim("sync_readers", 1, 5), sim("a_sync_readers", 1, 5)]),
    Mutant(
        "tokens_reused", "a token of a state that was lost or restored is continued",
        [Edit(REPLICATION + "log_source.cc",
              "  return term == term_ || HasEntry(term, number);\n",
              "  return term.history == term_.history || HasEntry(term, number);\n")],
        [sim("a_sync_readers", 1, 20)]),
]


def named(name):
    return next(m for m in MUTANTS if m.name == name)


def edited(source, edits):
    """path -> text of the files after the edits."""
    texts = {}
    for edit in edits:
        if edit.path not in texts:
            with open(os.path.join(source, edit.path), encoding="utf-8") as text:
                texts[edit.path] = text.read()
        count = texts[edit.path].count(edit.old)
        if count != 1:
            raise DoesNotFit(f"{edit.path}: the text of a mutant's edit is there {count} times, expected once; "
                             f"change the edit in tests/sim/mutants/mutants.py with the code:\n{edit.old}")
        texts[edit.path] = texts[edit.path].replace(edit.old, edit.new)
    return texts


def write(source, name, out):
    for path, text in edited(source, named(name).edits).items():
        os.makedirs(out, exist_ok=True)
        with open(os.path.join(out, os.path.basename(path)), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for flag in ("source", "name", "out"):
        parser.add_argument("--" + flag, required=True)
    given = parser.parse_args()
    write(given.source, given.name, given.out)
