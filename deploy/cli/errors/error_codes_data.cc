// The error codes TD2xxx (data, checkpoints, files) and TD5xxx (devices, memory).
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

// Errors in training data.
std::vector<ErrorCode> SampleErrors() {
  return {
      {2001, "missing data", "a data file or directory of the job does not exist",
       "data.dir of another machine; a data set that was never downloaded; paths relative to "
       "another directory",
       "download the data set that the message names, or name another directory with "
       "--data.dir=DIR",
       "data directory none does not exist [TD2001]"},
      {2002, "a damaged data file",
       "the file is too short, too long, or does not belong to its companion file",
       "an interrupted download or copy; a full disk",
       "download or copy the file again; the message names the file and the offset",
       "cut.tfrecord contains damaged records [TD2002]"},
      {2003, "too many bad records",
       "the reader skips records that it cannot read, up to data.max_bad_records (default 0)",
       "a header line in the data; another separator or label; a few damaged lines",
       "check the file at the offset in the message; --data.max_bad_records=N allows N bad records",
       "train.csv: offset 17: the record has 2 fields, but the first line names 3 columns; this is "
       "bad record 1 of the file, but max_bad_records is 0 [TD2003]"},
      {2004, "a label or id out of range",
       "a sample has a class or id that the model does not have",
       "data.*.classes or the model's rows are too small; labels that count from 1",
       "run tandem data inspect JOB for the ranges, and make the model's last layer or table that "
       "large",
       "row 3 has the label 10, expected 0 to 9 or ignore_index -100 [TD2004]"},
      {2005, "an unknown data format", "data.format is not a format that Tandem reads",
       "a spelling mistake; a format that must be converted first",
       "use a format of docs/guides/prepare-data.md; tandem data convert writes tfrecord and "
       "recordio",
       "unknown data.format \"mnits\" [TD2005]; did you mean \"mnist\"?"},
      {2006, "too few samples", "an epoch would have no step, or a rank no sample",
       "a small data set with a large batch; more ranks than samples in a batch",
       "use a smaller global_batch_size, fewer ranks, or data.remainder: PAD",
       "the data set has 8 samples, fewer than one global batch of 64, and remainder: DROP leaves "
       "no step [TD2006]; hint: use a smaller batch or remainder: PAD"},
      {2007, "missing columns",
       "the first line of a csv file names its columns, and a column of the job is missing",
       "a spelling mistake; a file without a first line; files with different columns",
       "compare head -1 FILE with data.csv.column in the job file",
       "train.csv:1: there is no column \"prize\" [TD2007]; did you mean \"price\"?"},
      {2008, "a batch did not arrive in time",
       "the reader produced no batch within the time limit of a step",
       "a disk or network file system that hangs; decoding that needs more threads",
       "raise --data.reader_threads=N; the progress line shows the waiting time for data",
       "no batch arrived within 2s, because the reader is too slow (queue_capacity 4) [TD2008]"},
      {2009, "a file that is not a record file",
       "the file is neither a tfrecord nor a recordio file", "another format; a compressed file",
       "name its format in a job file and inspect the job; gunzip the file first",
       "train.csv: offset 0: the file is neither a tfrecord nor a recordio file [TD2009]"},
      {2010, "a stream whose files or batches have changed",
       "a step decides which records of the directory it has, so files may only be added, with "
       "names that ascend",
       "a file that was written under its final name; a name that comes before names that were "
       "read; a removed file that the job still needs; a damaged .tandem-index; another batch size",
       "write a file under another name and rename it; keep files until the job no longer needs "
       "them; docs/guides/online-learning.md explains the rules",
       "clicks/0007 has appeared after clicks/0008 was read, but its name comes before [TD2010]"},
  };
}

// Errors of a Kafka topic as the source of a stream.
std::vector<ErrorCode> KafkaErrors() {
  return {
      {2011, "no Kafka broker replies",
       "a trainer waits for a broker up to data.stream.kafka.broker_wait_s seconds and then ends",
       "brokers that are down; a wrong address or security.protocol; a firewall",
       "start the brokers or correct data.stream.kafka.brokers, and start the job again: it "
       "continues at its position",
       "topic clicks: the brokers kafka:9092 did not describe the topic: Local: Broker transport "
       "failure; the job has waited 300s for a broker [TD2011]"},
      {2012, "records that Kafka no longer has",
       "the job needs records at an offset that the brokers do not have",
       "retention that removed records which the job had not trained; a topic that was created "
       "again; a restored state that is older than the records",
       "keep records longer (retention.ms); data.stream.kafka.removed_offsets: SKIP continues with "
       "the next record; to begin again, remove the job's files from the directory of positions "
       "and its pserver state",
       "topic clicks, partition 3: the job needs offset 500, but the brokers have offsets 700 to "
       "900 [TD2012]"},
      {2013, "a Kafka topic that does not fit the job",
       "the topic does not exist, may not be read, has fewer partitions than workers or than "
       "before, or is not the topic of the stored positions",
       "a spelling mistake; missing rights; a topic that was created again with fewer partitions",
       "correct data.stream.kafka, or give a job with a new topic another name",
       "topic clicks has 2 partitions, but the job has 3 workers, and each worker needs a "
       "partition [TD2013]"},
      {2014, "a wrong setting of Kafka",
       "librdkafka refuses a line of data.stream.kafka.properties, or Tandem sets it itself",
       "a spelling mistake; settings of the Java client, which has other names",
       "correct the line; librdkafka's CONFIGURATION.md lists all settings",
       "kafka.properties:2: No such configuration property: \"security.protocl\" [TD2014]"},
      {2015, "a Kafka message that cannot be read",
       "librdkafka cannot read a batch of messages and would continue after it, so its records "
       "would be lost",
       "a damaged disk of a broker (check.crcs=true); a compression that this librdkafka does not "
       "have, such as zstd; a message above receive.message.max.bytes",
       "repair the partition, or set receive.message.max.bytes in data.stream.kafka.properties, "
       "and start the job again; it continues at the batch",
       "topic clicks, partition 3, offset 500: the messages cannot be read: Local: Decompression "
       "failed [TD2015]"},
  };
}

// Errors of checkpoints, models and output files.
std::vector<ErrorCode> FileErrors() {
  return {
      {2101, "no checkpoint", "the directory contains no complete checkpoint",
       "another directory; a job that ended before its first checkpoint",
       "check with ls DIR: a checkpoint is a directory step-N with a manifest; set "
       "checkpoint.every_steps",
       "directory none contains no checkpoint [TD2101]"},
      {2102, "a damaged checkpoint", "a file differs from its entry in the manifest",
       "a full disk; a file that was changed or copied in part",
       "restore the file; a job uses the newest complete checkpoint automatically",
       "step-200/model.safetensors has 512 bytes, but the manifest says 246824 bytes [TD2102]"},
      {2103, "all checkpoints are damaged",
       "the job cannot resume from any checkpoint in the directory",
       "a disk that fails; files that were changed by hand",
       "restore one of the checkpoints from a copy, or choose an empty checkpoint.dir to start "
       "from step 0",
       "none of the 1 checkpoints in ck can be read [TD2103]; the error of the newest is: "
       "ck/step-8: no manifest; hint: choose another checkpoint.dir, or remove these checkpoints "
       "to start from step 0"},
      {2104, "a directory that is in use", "the directory belongs to another job or process",
       "checkpoint.resume: false in a used directory; one directory for two jobs or two processes",
       "choose another directory, or empty this one, or remove checkpoint.resume",
       "ck contains checkpoints of job \"a\", not of job \"b\" [TD2104]"},
      {2105, "a checkpoint that does not fit the model",
       "a tensor has another shape or type than the program, or no tensor is a variable of the "
       "program",
       "a changed network; a checkpoint of another job",
       "undo the change of the job, or start with an empty checkpoint.dir",
       "checkpoint ck: variable \"fc_0.w_0\" is f32[84,10], but the program needs f32[120,10] "
       "[TD2105]"},
      {2106, "a file or directory cannot be read or written",
       "a system call failed; the message contains the reason",
       "a missing directory; missing permissions; a file in the middle of the path",
       "create the directory with mkdir -p, as the user who runs the program; ls -ld shows "
       "permissions",
       "cannot open train.csv: Permission denied [TD2106]"},
      {2107, "a full disk", "the disk has too few free bytes; existing files are unchanged",
       "checkpoints of many steps; logs; the write-ahead log of a server",
       "free space, or name a directory on another disk; a smaller checkpoint.keep keeps fewer "
       "checkpoints",
       "cannot write to log /var/lib/tandem: the disk has 1048576 free bytes, but 268435456 bytes "
       "are needed [TD2107]; nothing was written"},
      {2108, "an invalid ONNX model",
       "the file is not an ONNX model, or a part of the model is invalid",
       "another format; an interrupted download; an exporter with a defect",
       "download or export the model again; tandem import reads only .onnx files",
       "job.pbtxt is not an ONNX model, or the file is damaged [TD2108]"},
      {2109, "an existing file or directory",
       "the file or directory already exists, and Tandem does not overwrite it",
       "the command was run before; a directory with other files",
       "choose another directory, or remove the existing files",
       "directory mine/pserver already exists, but is not from an earlier demo [TD2109]; hint: "
       "choose "
       "another --dir"},
  };
}

// Errors of the files that a pserver writes and reads.
std::vector<ErrorCode> ServerFileErrors() {
  return {
      {2110, "the checkpoint store failed",
       "a system call on a file of a server's data directory failed; the server acknowledges "
       "nothing any more and exits with code 201",
       "a disk that fails; too few file descriptors; a directory that was removed while in use",
       "start the server again, which recovers its state from the directory; tandemrun "
       "--max_restarts does it automatically",
       "cannot sync the write-ahead log of data/shard-0: IO error: fdatasync: Input/output error "
       "[TD2110]"},
      {2111, "a damaged checkpoint of a server",
       "a file differs from the data that the server wrote",
       "a disk that fails; a file that was changed or copied in part",
       "restore a copy of the directory, or move the directory away to start without this "
       "checkpoint",
       "data/shard-0/values-1 is damaged: record 12: CRC32C [TD2111]"},
      {2112, "the store of cold rows failed",
       "a system call on a file with rows outside memory failed; the server exits with code 201",
       "a directory that was removed while in use; a disk that fails",
       "start the server again, which reads all rows from its checkpoint and log",
       "the store of cold rows failed: cannot read the cold rows in database/cold-rows-0: IO "
       "error: No such file or directory [TD2112]"},
  };
}

// Errors whose cause is a file of another user or a limit of the host.
std::vector<ErrorCode> HostErrors() {
  return {
      {2113, "a file or directory of another user",
       "the file belongs to another user, other users may write to it, or it is a link; its "
       "content may therefore be from another user",
       "a directory in a place that all users can write (/tmp); a directory of another user; umask "
       "002",
       "use your own directory; run the command as the owner; chmod go-w DIR",
       "directory log-j belongs to user nobody (65534), expected root [TD2113]; hint: run the "
       "command "
       "as the expected user, or name another directory"},
      {2114, "too many open files", "the process has reached its limit of open files",
       "a low ulimit -n; thousands of data files; very many connections",
       "raise the limit with ulimit -n NUMBER before the start (systemd: LimitNOFILE)",
       "job.secret: cannot be opened (Too many open files) [TD2114]: this process may open only 16 "
       "files; hint: raise the limit with ulimit -n NUMBER"},
      {2115, "a file that is too large for the process",
       "the process has reached its limit of file size", "ulimit -f",
       "run ulimit -f unlimited before the start (systemd: LimitFSIZE)",
       "state.safetensors: cannot be written (File too large) [TD2115]: a file of this process may "
       "have at most 2048000 bytes; hint: raise the limit with ulimit -f unlimited"},
      {2116, "out of memory or threads",
       "the system gives the process no more memory or threads; the process exits with code 74",
       "ulimit -v or ulimit -u; a container that is too small; a large batch",
       "raise the limit that the message names, or use a smaller batch or fewer threads (tandem "
       "lint --memory JOB)",
       "the process is out of memory: 199000000 bytes of address space are in use, the limit of "
       "this process is 204800000 bytes (ulimit -v) [TD2116]"},
      {2117, "missing lines in the log directory",
       "tandemrun cannot write to a log or to events.jsonl; the job continues",
       "a full disk; ulimit -f; a directory that was removed",
       "free space, or choose a directory on another disk with --log_dir",
       "warning: lines of the logs or events in ./log-j are lost: No space left on device "
       "[TD2117]; the job continues"},
      {2118, "a server's data directory is damaged",
       "a record of the directory, or an entry of the update log in it, is missing or is not what "
       "was written",
       "a disk that fails; a directory that was changed or copied in part",
       "restore a copy of the directory, or move the directory away to start with an empty state",
       "data/shard-0: entry 12 of the update log is damaged: CRC32C [TD2118]; hint: restore a copy "
       "of the directory, or move the directory away to start with an empty state"},
      {2119, "a data directory of another version",
       "the record of a checkpoint has a format that this program does not read",
       "a newer version of Tandem wrote the directory",
       "start the version of Tandem that wrote it; or move the directory away to start without it",
       "data/shard-0: record meta has format 4, expected format 2 or 3 [TD2119]; hint: start the "
       "version of Tandem that wrote this store"},
      {2120, "the operating system refused a call",
       "a call for a socket, a pipe or a process failed for another reason than a limit of this "
       "process",
       "a host without buffers, ports or watches; a container that forbids the call",
       "check the limits of the host and of the container, and start again",
       "cannot create a socket: No buffer space available [TD2120]; hint: check the limits of this "
       "host"},
  };
}

}  // namespace

std::vector<ErrorCode> DataErrors() {
  std::vector<ErrorCode> all = SampleErrors();
  for (const auto part : {KafkaErrors, FileErrors, ServerFileErrors, HostErrors}) {
    const std::vector<ErrorCode> rows = part();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

std::vector<ErrorCode> MachineErrors() {
  return {
      {5001, "the CUDA module cannot be used",
       "the kernels for CUDA devices are in a separate module, which is missing or of another "
       "build",
       "Tandem was built without nvcc; programs and module of two builds",
       "run tandem doctor to find the missing part; build with -DTANDEM_CUDA=ON and install both "
       "from one build; or use --place=cpu",
       "cannot open the CUDA module: libtandem_cuda.so: cannot open shared object file [TD5001]; "
       "hint: run ./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda, or use --place=cpu"},
      {5002, "a missing CUDA device", "the machine has fewer CUDA devices than the job needs",
       "no driver; CUDA_VISIBLE_DEVICES; a container without devices",
       "check with nvidia-smi and tandem doctor; or use --place=cpu",
       "place cuda:3 does not exist: there are only 2 CUDA devices [TD5002]"},
      {5003, "no kernel for a place",
       "the place has no kernel for an operator, or not for these types and shapes",
       "an operator without a CUDA kernel; unsupported 16-bit types",
       "use --place=cpu, or another operator or type; docs/reference/operators.md lists the "
       "kernels",
       "the place cuda:0 has no kernels for these operators: auc [TD5003]"},
      {5004, "full memory of a device", "the job needs more memory than the device has",
       "a batch that is too large; another program on the device; gpu_memory_limit_mb",
       "use a smaller batch, recompute, amp or sharding; tandem lint --memory JOB shows the needed "
       "memory",
       "cannot allocate 1048576 bytes on cuda:0: gpu_memory_limit_mb allows 1000000 bytes, of "
       "which 900000 bytes are in use [TD5004]"},
      {5005, "too little memory of the machine",
       "the parameters and the optimizer state alone need more memory than the machine has",
       "a table with too many rows; an optimizer with two slots",
       "use tables on pservers (is_distributed), sharding over ranks, or an optimizer with fewer "
       "slots",
       "parameters and state need 96.0 GB, but this machine has 16.0 GB of memory [TD5005]; the "
       "largest variable is \"emb\" f32[100000000,64]"},
      {5006, "a missing profiler library",
       "pe_profile_fname writes CPU samples with the library gperftools, which is missing",
       "gperftools is not installed; a library without the profiler",
       "install the library: apt-get install libgoogle-perftools4",
       "pe_profile_fname needs gperftools, which cannot be loaded: libprofiler.so.0: cannot open "
       "shared object file [TD5006]; hint: run apt-get install libgoogle-perftools4"},
  };
}

}  // namespace tandem::deploy
