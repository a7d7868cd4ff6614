// TD6xxx: security; TD7xxx: jobs that run.
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

// Errors that one end of a connection reports about the other.
std::vector<ErrorCode> ConnectionErrors() {
  return {
      {6001, "a network address without TLS",
       "anybody in the network could read and change what is served here",
       "listening on 0.0.0.0 or a host's address without certificates",
       "tandem certs init and issue, then --tls_dir; or 127.0.0.1; in a network that you trust "
       "--insecure_allow_network",
       "0.0.0.0:0 is a network address, and pages are served without TLS [TD6001]: listen on "
       "127.0.0.1, or allow it with --insecure_allow_network"},
      {6002, "gradients would cross a network in the clear",
       "ranks of collective mode have no TLS among themselves",
       "ranks on several hosts without the flag that allows it",
       "--insecure_allow_network in a network that you trust; pserver mode has TLS",
       "ranks that meet at 240.0.0.1:7000 send gradients in the clear over the network: anybody on "
       "the way reads them, and changes those that NCCL carries [TD6002]. In a network that you "
       "trust allow it with "
       "--insecure_allow_network; pserver mode has TLS (docs/project/threat-model.md)"},
      {6003, "the server speaks TLS, the client does not", "they cannot talk to each other",
       "the trainer or tool was started without tls_dir",
       "--tls_dir=PKI/JOB/ROLE, as the servers have one",
       "the server at 127.0.0.1:7000 speaks TLS, and this client does not [TD6003]; hint: give "
       "tls_dir"},
      {6004, "the client speaks TLS, the server does not", "they cannot talk to each other",
       "the server was started without tls_dir; the address is of another program",
       "tls_dir for both, or for neither",
       "the server at 127.0.0.1:7000 does not speak TLS, and this client does [TD6004]; hint: give "
       "tls_dir to both or to neither"},
      {6005, "the server's certificate is not accepted",
       "it was not issued by an authority that this client trusts, or is over",
       "two authorities (tandem certs init ran twice); an old ca.crt; a clock that is wrong",
       "tandem certs show DIR of both sides; copy the same ca.crt to all",
       "the certificate of the server at 127.0.0.1:7000 is not accepted: certificate has expired "
       "[TD6005]; hint: is pki/j/trainer/ca.crt the authority that issued it?"},
      {6006, "the server is somebody else",
       "its certificate names another host, role or job than this client came for",
       "a certificate without this host's name; an address of another job",
       "tandem certs issue DIR --job=JOB --role=pserver --host=HOST for each host; look at the "
       "address",
       "the certificate of the server at 127.0.0.1:7000 is for a, not for b [TD6006]; hint: tandem "
       "certs issue DIR --job=JOB --role=pserver --host=b"},
      {6007, "the server does not accept this client",
       "it wants a certificate of its authority, and got none or another",
       "no tls_dir; certificates of another authority",
       "tandem certs issue with the authority of the server; tandem certs show compares",
       "the server at 127.0.0.1:7000 wants a certificate, and this client has none [TD6007]; hint: "
       "give tls_dir, or tls_cert and tls_key"},
  };
}

// Errors in the proof that both ends have the job's secret.
std::vector<ErrorCode> SessionErrors() {
  return {
      {6020, "the program at an address does not hold the secret",
       "a client sends nothing to a server that does not prove that it belongs to the job",
       "another secret file on one side, or none; another program took the server's port",
       "give both sides the same secret file; ss -ltnp shows who listens",
       "the program that listens on 127.0.0.1:7000 does not hold the secret of job \"lenet\" "
       "[TD6020]; hint: give both sides the same secret file; if they have it, find out who took "
       "the port"},
      {6021, "the server does not know the session",
       "sessions end with the server; a client opens another one and makes the call again",
       "a client that does not follow proto/pserver.proto; a recorded call that is sent again",
       "open a session with OpenSession for each server, and use each counter once",
       "this server does not know the caller's session [TD6021]"},
      {6022, "another version proves the secret in another way",
       "earlier versions sent the same token with each call; whoever got it could use it",
       "client and server are of different versions of Tandem",
       "run the same version on both sides; tandem version prints it",
       "the caller sent a token (metadata x-tandem-token), as earlier versions do; this server "
       "takes sessions alone [TD6022]; hint: run the same version of Tandem on both sides"},
  };
}

// Errors of addresses that only the job's user may use.
std::vector<ErrorCode> SocketErrors() {
  return {
      {6023, "gradients and parameters would cross a network in the clear",
       "a client sends nothing over a network without TLS, unless that is allowed",
       "pservers at addresses of a network, and neither tls_dir nor the flag that allows it",
       "tandem certs init and issue, then tls_dir for both sides; in a network that you trust "
       "--insecure_allow_network (insecure_allow_network=True of the Python client)",
       "what goes to 10.0.0.7:7000 would cross the network in the clear: anybody on the way reads "
       "and changes it [TD6023]; hint: give tls_dir (tandem certs issue makes one), or in a "
       "network "
       "that you trust insecure_allow_network"},
      {6024, "the path of a Unix-domain socket is too long",
       "the kernel takes paths of at most 107 bytes", "a deep folder",
       "choose a folder with a shorter name, in XDG_RUNTIME_DIR or /tmp",
       "address \"unix:/a/very/long/path\": the path has 120 bytes; a Unix-domain socket's has at "
       "most 107 [TD6024]; hint: choose a folder with a shorter name"},
  };
}

// Errors of permissions and certificates.
std::vector<ErrorCode> CertificateErrors() {
  return {
      {6008, "a certificate that is over, or not valid yet", "certificates are valid for a time",
       "nobody renewed it; the clock of this machine is wrong",
       "tandem certs issue makes a new one, which running processes take without a restart; date",
       "expired on 2026-01-01 [TD6008]; hint: tandem certs issue makes a new one"},
      {6009, "the role may not do this",
       "the certificate's role (trainer, pserver, observer, admin) does not allow the call",
       "tandem save with an observer's certificate; a certificate of another job",
       "the hint says which certificate to issue; docs/project/threat-model.md lists who may do "
       "what",
       "SaveCheckpoint: the caller has role observer of job \"j\", and this needs role trainer or "
       "admin [TD6009]; hint: tandem certs issue DIR --job=j --role=admin"},
      {6010, "a certificate for another role or job", "the process would not be who it says it is",
       "tls_dir names the folder of another role", "--tls_dir=PKI/JOB/ROLE of this process",
       "certificate pki/j/trainer/tls.crt is for role trainer of job \"j\", but this is a pserver "
       "[TD6010]; hint: tandem certs issue DIR --job=JOB --role=pserver"},
      {6011, "no proof of the secret, or a wrong one",
       "the caller did not prove that it belongs to the job",
       "no secret file; another name of the job",
       "the same TANDEM_SECRET_FILE and the same --name or --job for all processes",
       "the call carries no proof that its caller holds the job's secret [TD6011]; hint: "
       "TANDEM_SECRET_FILE=FILE, or --secret_file of tandem"},
      {6012, "others may read a secret", "a key or secret file is open to other users",
       "it was copied, and its mode with it", "chmod 600 FILE",
       "secret file: job.secret may be read or changed by others (mode 644) [TD6012]; hint: chmod "
       "600 job.secret"},
      {6013, "the secret is missing", "the job needs a secret that all its processes have",
       "TANDEM_SECRET_FILE is not set, or names a file that is not there or too short",
       "openssl rand -hex 32 > job.secret; chmod 600 job.secret; the same content on each host",
       "secret file none: No such file or directory [TD6013]"},
      {6014, "two secrets in one job", "a rank came with another secret, and is not let in",
       "a file that was made anew on one host; a stranger at this port",
       "copy one secret file to all hosts; look who listens at the address",
       "the secret of job \"lenet\" is not the same [TD6014]"},
      {6015, "a TLS file cannot be used", "a certificate, key or authority is not there or no PEM",
       "a wrong --tls_dir; files that were not issued yet", "ls DIR; tandem certs show DIR",
       "TLS file pki/none cannot be opened [TD6015]"},
      {6025, "a program is between two ranks",
       "what came on a connection between ranks is not what the other rank sent, or was meant for "
       "another rank",
       "a program on the way that changes, repeats or passes on bytes; damage in the network",
       "look for a program on the way between these hosts; the job can be started again",
       "rank 1 (10.0.0.2:4711): what came is not what it sent: it was altered, repeated or left "
       "out "
       "on the way [TD6025]; hint: look for a program on the way between these hosts"},
      {6028, "a process of another user",
       "a log folder names a process that is not to be signalled",
       "a job that another user started", "run the command as the user who started the job",
       "cannot signal tandemrun (pid 4711): Operation not permitted [TD6028]"},
      {6029, "a certificate without a date", "its validity cannot be read",
       "a damaged file; a program that makes wrong certificates",
       "tandem certs issue makes a new one; openssl x509 -noout -dates -in FILE",
       "the certificate's notAfter is no date [TD6029]; hint: tandem certs issue makes a new one"},
  };
}

}  // namespace

std::vector<ErrorCode> SecurityErrors() {
  std::vector<ErrorCode> all = ConnectionErrors();
  for (const std::vector<ErrorCode>& rows :
       {CertificateErrors(), SessionErrors(), SocketErrors()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

namespace {

// Errors from two jobs, or two states of one job, in the same directory.
std::vector<ErrorCode> DirErrors() {
  return {
      {7011, "a job runs in this log folder", "a second job would take logs and secret from it",
       "the same command twice; jobs of one name in one folder",
       "tandem status LOG_DIR looks at it, tandem drain LOG_DIR stops it; --log_dir=OTHER",
       "job j of ./log-j still runs (tandemrun, pid 4711), and the folder is its own [TD7011]; "
       "hint: tandem drain ./log-j stops it; --log_dir=DIR starts another job beside it"},
      {7012, "checkpoints of several steps",
       "in sync mode pservers go back to one step, and what they wrote last is of several",
       "tandem save while trainers push: each server writes at a moment of its own",
       "tandem save while nobody trains, or --checkpoint_every_steps of the pservers",
       "no pserver went back: in sync mode their checkpoints must be of one step, and these are of "
       "versions 17 and 18 [TD7012]; hint: tandem save while nobody trains, or "
       "--checkpoint_every_steps of the pservers"},
      {7013, "the launcher is gone",
       "tandemrun ended without a word, and the kernel ended the "
       "job's processes on this host with it",
       "kill -9; memory shortage; the end of a session that kills its processes",
       "start the job again: it goes on from its last checkpoint",
       "job j of ./log-j: tandemrun, pid 4711, is gone without an ending (killed?); its processes "
       "on this host ended with it [TD7013]; hint: start the job again; tandem events ./log-j "
       "shows "
       "its last word"},
  };
}

}  // namespace

std::vector<ErrorCode> RunningErrors() {
  std::vector<ErrorCode> all = {
      {7001, "a program cannot be started", "tandemrun did not find what it is to start",
       "Tandem is not built; --trainer_bin or --pserver_bin names another place",
       "./deploy/build.sh, or the right path",
       "trainer 0: cannot start ./none: No such file or directory [TD7001]; hint: "
       "./deploy/build.sh builds it; --trainer_bin=FILE names another one"},
      {7002, "this is no log folder of a job", "a running job is known by the folder of its logs",
       "another working folder; a folder of another name",
       "name what tandemrun was given as --log_dir; without it log-JOB, where it was started",
       "none/events.jsonl: there is no such file [TD7002]; hint: name the folder that tandemrun "
       "writes its logs to (--log_dir, else log-JOB)"},
      {7003, "the job is over", "nobody is left who could answer",
       "it ended; it runs on another host", "tandem events LOG_DIR says how it ended",
       "job j of log-a is over, or was started on another host [TD7003]"},
      {7004, "the job has no pservers", "the command is for jobs with parameter servers",
       "a job of collective or local mode",
       "checkpoints of such a job are its trainers': checkpoint.dir in the job file",
       "there are no pservers [TD7004]; hint: the trainers of the job keep everything, and write "
       "checkpoints themselves (checkpoint.dir)"},
      {7005, "the job has no status pages", "what is asked for comes from the trainers' pages",
       "the job was started without --status_port", "tandemrun --status_port=8000",
       "the trainers of this job have no status pages [TD7005]; hint: start it with tandemrun "
       "--status_port=8000, or give --status_pages=HOST:PORT"},
      {7006, "the job does not end", "it was told to stop, and goes on longer than was waited for",
       "a step or a checkpoint that takes long; a process that hangs",
       "tandem events LOG_DIR; wait longer (--wait_s), or kill it as the hint says",
       "job j has not ended within 1 s [TD7006]; hint: tandem events log-b, or kill 4711 to end it "
       "at once"},
      {7007, "stopped on request", "a signal or tandem drain ended the job behind a whole step",
       "Ctrl-C, SIGTERM of a supervisor, tandem drain",
       "nothing; with checkpoint.dir the same command goes on where it stopped",
       "stopped on request after step 480 [TD7007]"},
      {7008, "there is nothing to work on",
       "what was named holds nothing of what the command is for",
       "another folder or job than was meant; a setting that makes the job do without",
       "the hint says where such things come from",
       "prof has no timeline.RANK.json [TD7008]; hint: train with --profile.dir=FOLDER"},
      {7009, "dot does not draw", "drawings are made by the program dot",
       "graphviz is not installed; the network is too large for it",
       "apt-get install graphviz; tandem graph --dot gives its text",
       "--svg needs the program dot, which is not installed [TD7009]; hint: install graphviz, or "
       "take --dot"},
      {7010, "no status page answers there", "something listens, and it is no process of the job",
       "another port; a job that ended, and whose port another program has",
       "tandemrun --status_port=PORT says which pages there are",
       "127.0.0.1:8000: this is no status page of Tandem: no JSON [TD7010]; hint: --status_pages "
       "takes "
       "the "
       "addresses that tandemrun --status_port gives"},
  };
  const std::vector<ErrorCode> rows = DirErrors();
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace tandem::deploy
