// TD3xxx: ranks and collective mode; TD4xxx: parameter servers.
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {

namespace {

// Errors of machines and processes.
std::vector<ErrorCode> ProcessErrors() {
  return {
      {3012, "a process does not answer",
       "others waited for it for --step_timeout_ms; tandemrun killed it, and could not start it "
       "again",
       "it was stopped (SIGSTOP); it hangs, swaps, or an evaluation takes longer than that",
       "--max_restarts=N starts it again, a pserver with --pserver_data_dir; --step_timeout_ms "
       "waits longer",
       "did not answer for 4.0 s, and was killed [TD3012]"},
      {3013, "ranks of several versions",
       "the ranks of a job speak one version of their protocol, and here are two",
       "another build or package on one of the hosts", "install the same version on all hosts",
       "it speaks version 3 of the handshake between ranks, this program 4 [TD3013]; hint: install "
       "the same version of Tandem on all hosts"},
      {3014, "an announcement of another rank 0",
       "a rank read where an earlier rank 0 listened, and came to the one that listens now",
       "the rank read it just before it was renewed; an old announcement was put back",
       "nothing: the rank looks again; if it goes on, see who may write to the folder or etcd",
       "rank 1 comes by an announcement that is not this rank 0's [TD3014]"},
  };
}

}  // namespace

std::vector<ErrorCode> RankErrors() {
  std::vector<ErrorCode> all = {
      {3001, "rank 0 cannot be reached", "this rank found no way to where the ranks meet",
       "rank 0 is not running yet; a wrong --rendezvous; a firewall",
       "look at rank 0's log; ping its host; --start_timeout_ms waits longer",
       "rank 1 of 2: no way to rank 0 at 127.0.0.1:7000 within 300ms (Connection refused) "
       "[TD3001]; "
       "is it running, and is the address right?"},
      {3002, "ranks did not come", "the job starts when all ranks are there, and some are not",
       "a process that was never started, or ended at once; another number of ranks",
       "the message names them: look at their logs",
       "rank 0 of 2 at 127.0.0.1:7000: rank 1 did not come within 2s [TD3002]; see their logs, and "
       "check that they were given this address"},
      {3003, "the mode needs others",
       "the trainer was started alone, and its job needs servers or "
       "ranks",
       "tandem-trainer by hand, without tandemrun",
       "tandemrun starts all there is to a job; or give the addresses yourself",
       "mode PSERVER needs servers [TD3003]: start the job with tandemrun --servers=N, or give "
       "--pservers=host:port,..."},
      {3004, "ranks do not do the same",
       "in one place of the program two ranks communicate "
       "differently",
       "job files or flags that differ from rank to rank; versions that differ",
       "give all ranks the same job and flags: tandemrun does",
       "ranks do not run the same operation: rank 1 runs allreduce, this rank runs broadcast; all "
       "ranks must make the same calls in the same order [TD3004]"},
      {3005, "a rank is gone",
       "its connection broke, or it left while others needed it or the job started",
       "it was killed (memory), failed, or its host or network is gone",
       "the first failure tells: tandem events LOG_DIR; --max_restarts replaces such ranks",
       "rank 1 is gone: its connection closed without a goodbye (Connection reset by peer) "
       "[TD3005]; see its log"},
      {3006, "a rank is silent", "nothing came from it for as long as a step may take",
       "it is stopped, swaps, or is far slower; a network that loses everything",
       "tandem status LOG_DIR names the slowest; --step_timeout_ms waits longer",
       "waiting for rank 1, which sends nothing [TD3006]"},
      {3007, "a rank of another job", "who came is not of this job, or counts its ranks otherwise",
       "two jobs at one address; --nproc that differs among hosts",
       "another port for one of the jobs; the same numbers everywhere",
       "this job has 2 ranks, not 4 [TD3007]"},
      {3008, "two processes are one rank", "a rank came twice",
       "the same TANDEM_RANK or RANK on two hosts; an old process that still runs",
       "number ranks from 0 without gaps; end the old process",
       "rank 1 is taken by 10.0.0.2:6170 [TD3008]"},
      {3009, "a rank cannot listen", "another program has the address, or this host has it not",
       "an old process that still runs; an address of another host",
       "ss -ltnp shows who holds the port; choose another, or leave it to the system",
       "rank 0 cannot listen on 127.0.0.1:7000: Address already in use [TD3009]; choose another "
       "port, or end the program that holds it"},
      {3010, "the rendezvous folder does not serve",
       "ranks leave word in a file that all of them "
       "see, and that can be locked",
       "the folder is not there on this host; rights; a file system without locks",
       "a folder on NFS 4 or another file system with locks; tcp://HOST:PORT needs none",
       "/none/job cannot be written: No such file or directory [TD3010]; the folder must be there, "
       "and this process must have the right to write in it"},
      {3011, "ranks with unequal settings",
       "what makes a job one is not alike in all ranks: nothing was trained",
       "ranks started by hand from job files or with flags that differ; other data on one host",
       "the message names the first difference; give all ranks one job file: tandemrun does",
       "rank 1 has global_batch_size 64, rank 0 has 32 [TD3011]; hint: give all ranks the same job "
       "file and flags"},
  };
  for (ErrorCode& code : ProcessErrors()) all.push_back(std::move(code));
  return all;
}

namespace {

// Errors of a server's state and accepted data.
std::vector<ErrorCode> ServerStateErrors() {
  return {
      {4010, "a server's data folder is damaged",
       "what was acknowledged to trainers is not all "
       "there",
       "a disk that fails; files that were removed or copied in part",
       "restore the folder; or move it away, and let all servers go on from an earlier checkpoint",
       "data/0: checkpoint of version 40 was acknowledged, but there is none [TD4010]"},
      {4011, "the server keeps no checkpoints", "it was started without a folder for them",
       "no --data_dir (tandemrun: --pserver_data_dir)", "start it with a folder",
       "no checkpoints: this server was started without a data folder [TD4011]"},
      {4012, "durability without a folder", "updates are to outlive the process, and have no place",
       "--durability without --data_dir (tandemrun: --pserver_data_dir)", "name a folder",
       "--durability=replayable needs a folder [TD4012]; hint: --pserver_data_dir=DIR"},
      {4013, "a gradient that is not finite", "the server took nothing of the push",
       "a learning rate that is too high; damaged data",
       "--check_nan_inf=true finds the operator; nonfinite_gradients: Skip leaves such steps out",
       "gradient of w, element 3 is nan; nothing was changed [TD4013] (nonfinite_gradients says "
       "what happens)"},
      {4014, "trainers with unequal settings",
       "what makes a job one is not alike in this trainer and in those at work",
       "trainers started by hand from job files or with flags that differ; other data on one host; "
       "a new job on the servers of one that has not ended",
       "the message names the first difference; give all trainers one job file: tandemrun does",
       "trainer 1 has global_batch_size 64, trainer 0 has 32 [TD4014]; hint: give all trainers the "
       "same job file and flags; a job with other settings can begin here when the trainers of "
       "this one have ended (one that was killed, when it has been silent for 60 s)"},
      {4015, "a push for another step",
       "in sync mode a server takes pushes of the step that it is at, and this one is of another",
       "tandem restore while trainers went on; a client that counts its steps otherwise, or does "
       "not "
       "begin with the version that init_or_fetch gives",
       "start the trainers again: they begin at the servers' step; in a client of one's own push "
       "step N when the version is N",
       "trainer 0 pushes for step 8, this server is at step 6: was it restored from an older "
       "checkpoint? [TD4015]"},
      {4016, "the update log is behind", "more pushes wait to be written than may",
       "a disk that is slower than the trainers", "push more slowly, or take a faster disk",
       "4294967000 bytes of pushes wait to be written to the update log, 1048576 more came, at "
       "most "
       "4294967296 may wait [TD4016]"},
      {4017, "the first values are being written",
       "they came before, and the server writes its first checkpoint",
       "trainer 0 was started again meanwhile", "start it once more when that is done",
       "the first values came before and are being written to the data folder [TD4017]"},
  };
}

// Errors of client calls and their replies.
std::vector<ErrorCode> ServerCallErrors() {
  return {
      {4020, "a global snapshot that is not there, or whose number is used",
       "global snapshots have ascending numbers, and the servers know which there are",
       "a number of another job, or of a snapshot that newer ones replaced; a program that numbers "
       "snapshots by itself",
       "tandem restore --list shows the snapshots; tandem save --snapshot asks the servers for the "
       "number",
       "there is no cut 7 that all 3 servers have; they have 4, 5 [TD4020]; hint: tandem restore "
       "--list shows their versions"},
      {4021, "tables that cannot go on in another mode",
       "a checkpoint has rows of is_distributed tables, which lie on pservers alone, and the job "
       "has "
       "its tables elsewhere; or the other way round",
       "the same checkpoint.dir with another mode, or with is_distributed changed",
       "go on with pservers and the same tables, or begin again with another checkpoint.dir",
       "ck/step-00000100/tables.rows: tables that lie on pservers alone cannot go on in this mode "
       "[TD4021]; hint: go on with --servers=N, or begin again with another checkpoint.dir"},
      {4022, "gradients are too old for momentum",
       "in a_sync mode the servers apply gradients many updates after their parameters were "
       "pulled; "
       "with momentum such a job converges badly, or not at all",
       "small models, whose steps are shorter than a message; several trainers without a bound",
       "a_sync_configs.max_staleness=4 bounds how far a trainer may be ahead; or an optimizer "
       "without momentum (sgd), or sync mode",
       "warning: gradients are 23.4 updates old when the servers apply them, above 5 with momentum "
       "with momentum 0.9: the job may not converge [TD4022]; hint: "
       "--a_sync_configs.max_staleness=4"},
      {4023, "a call that may not wait", "timeout_ms says how long the server may wait, and is 0",
       "a client of one's own that leaves the field out",
       "at least 1 in every WaitInit, Pull and Barrier",
       "timeout_ms is 0, expected at least 1 [TD4023]; hint: say how many milliseconds the server "
       "may wait"},
      {4024, "no number is left for a trainer",
       "each start of a trainer has a higher number than the one before, and the highest is used",
       "a client of one's own that numbers its starts by itself",
       "start the pservers with empty data folders, and go on from the trainers' checkpoint",
       "trainer 0: the servers know incarnation 18446744073709551615, and there is no number above "
       "it [TD4024]; hint: start the pservers with empty data folders, and go on from the "
       "trainers' "
       "checkpoint"},
      {4025, "a server does not answer a call",
       "the server answered before, and this call got no answer in the time that the client waits",
       "the server was killed and did not come back; its host is gone or stopped",
       "tandem status --pservers=LIST; the server's log; start it again at its address with its "
       "data folder, and the client's calls go on",
       "pserver 0 (127.0.0.1:7000): no answer for 62.0 s [TD4025]"},
      {4026, "a step without all its gradients",
       "in sync mode servers update parameters once each trainer pushed all variables and tables; "
       "this trainer asked for the update and had not pushed all",
       "a parameter without a gradient (grad is None in PyTorch) was left out of the push",
       "push the named variables too: zeros where there is no gradient, no rows for a table",
       "step 0 of sync mode cannot be done: no gradient of \"fc.b\" was pushed [TD4026]; hint: "
       "push all configured variables and tables, zeros or no rows where there is no gradient"},
      {4027, "threads of the trainer slow servers of its host",
       "OpenMP threads of PyTorch wait for work by spinning; a server on the same host lacks those "
       "processors",
       "a Python trainer and its servers on one host, without OMP_WAIT_POLICY=passive",
       "start Python with OMP_WAIT_POLICY=passive (tandemrun does so for its own trainers), or "
       "with OMP_NUM_THREADS=1",
       "2 OpenMP threads of torch spin while they wait, which slows pserver 127.0.0.1:7000 on this "
       "host [TD4027]; hint: start Python with OMP_WAIT_POLICY=passive"},
  };
}

}  // namespace

std::vector<ErrorCode> PserverErrors() {
  std::vector<ErrorCode> rows = {
      {4001, "a server does not answer",
       "it was called again and again for as long as a start may "
       "take",
       "it is not running, or starts slowly from a large checkpoint; a wrong --pservers",
       "tandem status LOG_DIR; the server's log; --start_timeout_ms waits longer",
       "pserver 0 (127.0.0.1:1) did not answer for 3 s: is it running, is the address right? "
       "[TD4001]"},
      {4002, "a server of another job", "the caller and the server name different jobs",
       "two jobs at one address; another --name; a server from yesterday",
       "the same --job and --name everywhere; other ports for the other job",
       "job \"k\": this server serves job \"j\" [TD4002]"},
      {4003, "another number of trainers", "servers wait for as many trainers as they were told",
       "--trainers of the server and --workers of the job differ",
       "the same number for all; tandemrun sees to it",
       "2 trainers: this server was started for 4 [TD4003]"},
      {4004, "trainers that disagree",
       "all trainers bring the same variables, optimizer and mode, "
       "and this one does not",
       "job files or flags that differ among trainers; a server that is still there from a job "
       "with other settings",
       "one job file for all; start the servers anew, with new data folders for a new job",
       "trainer 1 comes with another configuration: learning rate schedule [TD4004]"},
      {4005, "the server knows nothing of the job",
       "it was started anew and has no checkpoint to "
       "go on from",
       "it crashed, and had no data folder or no checkpoint yet",
       "--data_dir (tandemrun: --pserver_data_dir) with --durability=logged; start the job again",
       "this server is not configured; it may have been restarted without a checkpoint [TD4005]; "
       "hint: --durability=logged (or replayable) keeps pushes, none (the default) does not"},
      {4006, "a trainer is lost", "in sync mode all wait for each, and one is not heard from",
       "it was killed, or its host is gone", "its log; --max_restarts starts such trainers again",
       "trainer 1 is lost: nothing heard from it for 60.0 s (it pushed nothing yet); others wait "
       "for it at step 12 [TD4006]"},
      {4007, "waited too long for trainers",
       "a step or barrier is not complete in time, and the "
       "message names who is missing",
       "a trainer that is slow, stopped or evaluates; step_timeout_ms that is too short",
       "tandem status LOG_DIR shows who is waited for; a longer --step_timeout_ms",
       "barrier \"save\": waiting 30.0 s for trainer 2; others arrived [TD4007]"},
      {4008, "this trainer was replaced",
       "another process has taken its place, and its calls are "
       "refused",
       "a supervisor started it again while the old one still ran; two processes with one rank",
       "let the old process end; one process for each trainer",
       "trainer 1 was started again (incarnation 2); calls of incarnation 1 are refused [TD4008]"},
      {4009, "the port is taken", "something listens at this address already",
       "an old process that still runs; another job; with \"Too many open files\" it is ulimit -n",
       "ss -ltnp shows who holds the port; choose another, or port 0",
       "cannot listen on 127.0.0.1:7000: address in use [TD4009]"},
  };
  for (const auto part : {ServerStateErrors, ServerCallErrors}) {
    const std::vector<ErrorCode> more = part();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace tandem::deploy
