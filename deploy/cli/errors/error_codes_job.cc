// The error codes TD1xxx: flags, job files, knobs, programs.
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

// Errors on the command line.
std::vector<ErrorCode> FlagErrors() {
  return {
      {1001, "unknown command", "tandem has no command of this name",
       "a spelling mistake; a command of a newer version",
       "run tandem help for the list of commands", "unknown command \"dmeo\" [TD1001]"},
      {1002, "unknown flag", "the program or command has no flag of this name",
       "a spelling mistake; a flag of the trainer that was given to tandemrun without -- before it",
       "run PROGRAM --help for the list of flags; tandemrun also accepts fields of the job "
       "(--epochs=3), and other flags of tandem-trainer after --",
       "unknown flag \"--sevrers\" [TD1002]"},
      {1003, "a flag without a value", "the flag needs a value",
       "the flag is the last word of the line, or \"=\" is missing",
       "write --flag=VALUE; --help shows the form of the value",
       "--epochs needs a value of the form N [TD1003]"},
      {1004, "a value of a flag is out of range",
       "the value of the flag is not a number, or not in the allowed range",
       "a unit after the number (30s), a fraction, an empty shell variable",
       "use a value in the range that the message shows",
       "--servers: expected a whole number from 1 to 1024, got \"0\" [TD1004]"},
      {1005, "flags that exclude each other",
       "each flag is valid, but together they contradict each other or have no effect",
       "flags of pserver mode and of collective mode in one command; a flag that needs another one",
       "remove one of the flags, or add the flag that the message names",
       "--workers needs pserver mode, which contradicts --mode=collective [TD1005]"},
      {1006, "an unknown word as a value", "the flag accepts only a few words",
       "a spelling mistake", "use one of the words that the message lists",
       "--mode: expected local, pserver, collective or hybrid, got \"colective\" [TD1006]"},
  };
}

// Errors in arguments, addresses and the environment.
std::vector<ErrorCode> ArgumentErrors() {
  return {
      {1007, "a missing argument", "the command needs an argument or a flag that is not given",
       "no job file, no directory, or no number of processes was given",
       "use the command in the hint as a pattern; --help shows more",
       "no job file or script given [TD1007]"},
      {1008, "a text file cannot be read",
       "a job, strategy or program file does not exist, is a directory, or has no read permission",
       "another working directory: paths in a job file are relative to that file; missing "
       "permissions",
       "run ls -l FILE as the user who runs the program",
       "cannot open none.pbtxt: No such file or directory [TD1008]"},
      {1009, "an invalid address", "an address names a host and a port, or a rendezvous",
       "a missing port; IPv6 without [ ]; a space between addresses",
       "write 127.0.0.1:7000, [::1]:7000, or a list HOST:PORT,HOST:PORT; a rendezvous is also "
       "file:///DIR or etcd://HOST:PORT/PREFIX",
       "address \"here\": expected HOST:PORT [TD1009]"},
      {1010, "an unexpected argument", "the command does not accept this argument or value",
       "flags of the trainer without -- before them; a space inside a value; a value for a flag "
       "without one",
       "remove the argument, or write -- before it; --help lists the arguments",
       "unexpected argument \"now\" [TD1010]; hint: run tandem-pserver --help"},
      {1011, "a value of the wrong form", "the value must have a certain form",
       "a missing part; a character that is not allowed",
       "use the form that the message shows; --help has an example",
       "--straggler: expected RANK:FACTOR, such as 3:2.5, got \"x\" [TD1011]"},
      {1012, "a port of the status pages is in use",
       "with --status_port each process of the job serves a status page: the first trainer on the "
       "given port, other processes on the following ports",
       "another job with this --status_port; a service that uses one of the ports",
       "choose another --status_port; ss -ltnp shows the programs that listen",
       "--status_port: 127.0.0.1:8000, the port of the status page of trainer 0, is in use "
       "[TD1012]; hint: choose another --status_port"},
      {1013, "an invalid environment variable",
       "the environment variables of the launcher name the rank and the processes of the job, and "
       "one of them is invalid",
       "variables of two launchers; only one variable of a pair is set; a typing mistake in a "
       "script",
       "set the variable to a value that the message shows, or unset it; "
       "docs/reference/environment.md lists the variables",
       "environment: RANK is set, but WORLD_SIZE is not [TD1013]; hint: set both or neither"},
  };
}

// Errors in a job file, in its strategy, or in flags that override settings of the job file.
std::vector<ErrorCode> SettingErrors() {
  return {
      {1101, "an unknown field, setting or knob", "there is no field, setting or knob of this name",
       "a spelling mistake; a field in the wrong message; a knob of another framework",
       "run tandem lint JOB for all errors at once; docs/reference/knobs.md lists knobs and their "
       "other spellings",
       "bad.pbtxt:2:1: error: JobConfig has no field \"epoch\" [TD1101]"},
      {1102, "a setting that is given twice",
       "one setting has two values, and neither has precedence",
       "a copied line; a flag in a script and again on the command line", "keep one of the values",
       "--epochs is given twice: --epochs=1 and --epochs=2 [TD1102]"},
      {1103, "a value of the wrong type", "the field expects a value of another type",
       "quotes around a number; text without quotes; a list instead of one value",
       "use a value of the type that the message shows; tandem knobs explain NAME explains a knob",
       "bad.pbtxt:6:7: error: seed expects an integer, got \"1.5\" [TD1103]"},
      {1104, "a setting is out of range",
       "the value of a field of the job is not in the allowed range",
       "a wrong unit: MB for bytes, ms for seconds",
       "use a value in the range that the message shows",
       "fuse_grad_size_in_MB is out of range: 100000 is more than 65536 MB [TD1104]"},
      {1105, "a syntax error in a text file", "the text cannot be parsed from this position on",
       "a missing brace or quote; \"=\" instead of \":\"",
       "check the line of the message and the line before it",
       "open.pbtxt:2:6: error: this message is never closed [TD1105]"},
      {1106, "a missing setting of the job",
       "a job needs a model, data and a batch size, each given exactly once",
       "an empty file; two ways to give the same setting",
       "start with deploy/examples/lenet.pbtxt; docs/start/first-job.md explains a job step by "
       "step",
       "data.dir, the directory of the training data, is not set [TD1106]"},
      {1107, "a setting without effect",
       "the setting has no effect in this mode or with the other settings, and Tandem does not "
       "ignore settings",
       "a strategy of another mode; a knob of servers in a job without servers",
       "remove the setting, or choose a mode that the hint names; docs/reference/knobs.md lists "
       "the modes of each knob",
       "a_sync: true has no effect with mode=collective (contradictions.pbtxt:1:1) [TD1107]"},
      {1108, "settings that exclude each other", "a job cannot use both settings",
       "a strategy that was combined from two others",
       "keep one of the settings; the message names the reason",
       "dgc and localsgd (contradictions.pbtxt:3:1) exclude each other: localsgd sends no "
       "gradients [TD1108]"},
      {1109, "a setting that is not implemented",
       "Tandem knows the setting, but does not implement it, or not in this combination",
       "a knob or flag of the reference that Tandem does not implement",
       "remove the setting; docs/reference/knobs.md lists the implemented ones",
       "--http_port is not implemented [TD1109]"},
      {1110, "an ambiguous name of a setting", "a short name is the name of several settings",
       "k_steps, which is a setting of localsgd, geo and gradient_merge",
       "write the full path, as in --strategy.localsgd_configs.k_steps=4",
       "\"k_steps\" is the name of several settings [TD1110]; write one of: "
       "strategy.a_sync_configs.k_steps, strategy.localsgd_configs.k_steps"},
  };
}

// Errors in the settings that say what a job trains and evaluates.
std::vector<ErrorCode> TaskErrors() {
  return {
      {1111, "missing test data", "a job evaluates the model at its end, but has no test data",
       "test_file, test_list, test_folder, split or test_share is not set",
       "set test_file, or split or test_share if the format supports it",
       "data.csv has no test data, which the evaluation at the end of the job needs [TD1111]; "
       "hint: set test_file"},
      {1112, "a missing or invalid loss", "training minimises one number, the loss of the program",
       "loss: is missing in the program file; a loss of each sample instead of their mean",
       "set loss: \"VARIABLE\" to a variable f32[1]; op mean computes the mean of many numbers",
       "program \"\": loss \"losses\" is f32[64,1], expected f32[1] [TD1112]; hint: take its mean "
       "with op mean"},
      {1113, "mode hybrid without both kinds of gradients",
       "hybrid stores tables with sparse gradients on pservers and reduces dense gradients among "
       "the ranks, so a network needs both",
       "a network without tables (an image classifier); dense tables (sparse=0)",
       "use --mode=collective without sparse gradients, --mode=pserver without dense ones; or set "
       "model argument sparse=1 or distributed=1",
       "mode hybrid needs a network with sparse and dense gradients, but this network has 0 sparse "
       "and 4 dense gradients [TD1113]; hint: use --mode=collective"},
  };
}

// Errors in the program of a neural network.
std::vector<ErrorCode> ProgramErrors() {
  return {
      {1201, "an unknown model", "model.zoo names a network that is not in the model zoo",
       "a spelling mistake; a network that is written as a program",
       "run tandem-trainer --list_models for the list; use your own network with model { program: "
       "\"FILE\" }",
       "there is no model \"lenett\" in the model zoo [TD1201]; did you mean \"lenet\"? (models: "
       "lenet, mlp)"},
      {1202, "an invalid argument of a model",
       "models have arguments (model.arg), each with a range",
       "an argument of another model; a value that is not a number",
       "use one of the arguments that the message lists; tandem-trainer --list_models shows "
       "defaults",
       "model \"lenet\" has no argument \"chanels\" [TD1202]; did you mean \"channels\"? "
       "(arguments: channels, hidden)"},
      {1203, "an unknown or unsupported optimizer",
       "optimizer.type is unknown, or the optimizer does not support these gradients",
       "a spelling mistake; a name of another framework",
       "use one of the optimizers that the message lists",
       "unknown optimizer \"momentun\" [TD1203]; did you mean \"momentum\"? (optimizers: sgd, "
       "momentum)"},
      {1204, "an unknown operator", "a program uses an operator that Tandem does not have",
       "a spelling mistake; a program of another framework",
       "use an operator of docs/reference/operators.md; tandem import reads ONNX and names "
       "unsupported operators",
       "unknown operator \"meen\" [TD1204]; did you mean \"mean\"?"},
      {1205, "an unknown variable", "a program reads a variable that no earlier operator writes",
       "a spelling mistake; operators in the wrong order",
       "order the operators so that a variable is written before it is read",
       "program \"\": the loss \"los\" is not a variable [TD1205]; did you mean \"loss\"?"},
      {1206, "an invalid slot or attribute of an operator",
       "the operator does not have a slot or attribute of this name, or it is missing",
       "a spelling mistake; capital letters",
       "use the slots and attributes of docs/reference/operators.md",
       "program.pbtxt op #0 (mean): operator mean has no slot \"x\" (slots: X) [TD1206]; did you "
       "mean \"X\"?"},
      {1207, "shapes or types that do not fit",
       "an operator does not support the shapes or types of its inputs",
       "a layer with the wrong width; images in another layout; a label of another type",
       "compare the shapes in the message; tandem graph JOB shows the whole program",
       "operator matmul (program.pbtxt op #1): X is f32[-1,8], Y is f32[4,2]; trans_x=0, "
       "trans_y=0; inner "
       "dimensions 8 and 4 differ [TD1207]"},
      {1208, "the program and the data do not fit",
       "each field of the data is the value of the data variable with the same name",
       "a program for other data; another name or shape of a field",
       "run tandem data inspect JOB for the fields, and use their names and shapes in the program",
       "the program reads data variable \"x\", but the data have no such field [TD1208]"},
      {1209, "no parameter to train", "no gradient leads from the loss to a parameter",
       "the loss depends only on data; an operator without a gradient is in between",
       "run tandem graph JOB to see the inputs of the loss",
       "the loss \"loss\" depends on no parameter [TD1209]"},
      {1210, "a number that is not finite",
       "an operator got a NaN, or check_nan_inf found a NaN or an infinity and names the operator "
       "that computed it",
       "a learning rate that is too high; a logarithm or division of zero; 16-bit overflow",
       "lower optimizer.learning_rate, clip gradients (clip_norm), or scale the loss (amp)",
       "check_nan_inf: the result conv_1.out[0] of f32[8,16,10,10] is not finite [TD1210]; all "
       "inputs are finite"},
  };
}

// Errors in models that other programs have exported.
std::vector<ErrorCode> ImportErrors() {
  return {
      {1211, "a file with a model's numbers that is not allowed",
       "an ONNX model names the files with its numbers; Tandem reads only regular files in the "
       "directory of the model",
       "a path or link as the file's name; a model that was edited by hand",
       "export the model again, as one file or with its numbers in a file in the same directory",
       "external data: location is \"../secret\", expected the plain name of a file in the model's "
       "directory [TD1211]"},
      {1212, "a file with a model's numbers that does not fit",
       "the model names a position in the file at which the numbers are missing",
       "a file that was copied in part, or belongs to another export",
       "export the model again; copy MODEL.onnx and MODEL.onnx.data together",
       "external data: m.onnx.data has 10 bytes, but the tensor needs 96 bytes from byte 0 on "
       "[TD1212]"},
      {1213, "a tensor without elements",
       "the model has a size of 0, which no operator of Tandem supports",
       "a model that was exported with an empty example",
       "export the model with sizes of at least 1",
       "allowzero = 1 with the shape [-1,0,6] makes a tensor without elements [TD1213]"},
      {1214, "sizes that do not fit every batch",
       "a program supports any batch size, but the model has sizes that cannot follow the batch "
       "size",
       "a model that was exported for one batch size; a view that mixes samples",
       "export the model with a dynamic batch: torch.onnx.export(..., dynamic_shapes=...)",
       "the reshape would put numbers of two samples into one row [TD1214]"},
      {1215, "an unsupported ONNX node", "the model uses a node that Tandem does not support",
       "a layer without an operator in Tandem",
       "rewrite the layer with nodes of docs/guides/export-and-import.md",
       "node 1, Einsum \"\": operator Einsum is not supported [TD1215]"},
      {1216, "a model in training form", "batch normalisation in training form has other outputs",
       "the model was exported in training mode", "call model.eval() before torch.onnx.export",
       "the node is in training form, which is not supported [TD1216]; hint: export the model "
       "after model.eval()"},
      {1217, "an operator that ONNX does not have",
       "tandem export writes a network as ONNX, but an operator or an option of it has no "
       "counterpart there",
       "sequences with lengths; another image layout; an operator with a condition",
       "export to .safetensors, or name earlier variables with --outputs",
       "the operator cannot be exported to ONNX [TD1217]"},
      {1218, "an ONNX opset that is not supported",
       "an opset is a version of the ONNX operators, and the model uses one that is too old or too "
       "new",
       "an old model; a newer exporter", "export the model with opset_version=20",
       "the model uses opset 5, but this program reads only opsets 7 to 21 [TD1218]; hint: export "
       "the model with opset_version=20"},
  };
}

// Errors of programs that Python builds and runs.
std::vector<ErrorCode> PythonErrors() {
  return {
      {1219, "a layer or a run of Python in the wrong place",
       "a layer adds to the current program of its thread; a run needs values of all parameters "
       "and "
       "the threads of its process",
       "a layer after the with block of its program; a run before the startup program; a process "
       "that was forked after a run; a callback that runs its own program",
       "call layers inside `with tandem.program_guard(program):`; run the startup program first; "
       "use multiprocessing.get_context(\"spawn\")",
       "program \"net\": variable \"fc_0.w\" has no value in the scope [TD1219]"},
  };
}

// Errors of a step that is computed twice (verify_replay).
std::vector<ErrorCode> ReplayErrors() {
  return {
      {1220, "a result that cannot be computed again",
       "verify_replay computed the operators of a step twice, and a result had other bits the "
       "second time",
       "a faulty processor core, faulty or overheated memory, an unstable clock",
       "test the host's processor and memory; continue the job from its checkpoint on another host",
       "step 400: op #12 conv2d: verify_replay: the result conv_1.out of f32[8,16,10,10] had other "
       "bits when it was computed again; the rank has not sent it and not used it for a parameter "
       "[TD1220]"},
      {1221, "a step that cannot be computed again",
       "verify_replay needs operators whose inputs a rank has at the begin of a step, and a plan "
       "that "
       "runs them one after another on a CPU",
       "a rank that receives the inputs of all its operators during the step (divided parameters)",
       "remove verify_replay",
       "verify_replay: no operator of this rank can be computed again, because all depend on "
       "values "
       "that the rank receives in the step [TD1221]; hint: remove verify_replay"},
  };
}

// Errors of ranks that compare their parameters (param_checksums).
std::vector<ErrorCode> ParamChecksumErrors() {
  return {
      {1222, "a rank with wrong parameters",
       "after a step all ranks of a collective job have parameters with the same bits, but the "
       "checksums of their parameters differ",
       "faulty or overheated memory, a faulty processor core or network card of a rank's host",
       "test processor and memory of the named rank's host; continue the job from its checkpoint "
       "on "
       "another host",
       "step 400: param_checksums: rank 1 of 3 has wrong parameters: the checksum is 5f3a91c2 on "
       "rank 1, and 0b7d14e8 on the other 2 ranks [TD1222]"},
  };
}

// Errors in single nodes of ONNX models.
std::vector<ErrorCode> NodeErrors() {
  return {
      {7014, "an ONNX node that depends on data",
       "a program computes the same operators in every step",
       "a loop over tensors; nn.EmbeddingBag, which the exporter writes as a loop",
       "replace the loop by a Python loop of constant length, and nn.EmbeddingBag by nn.Embedding "
       "and a mean or sum",
       "node 3, Range \"\": the node makes the computation depend on data, which is not supported "
       "[TD7014]"},
      {7015, "an unsupported form of an ONNX node",
       "Tandem supports the node, but not with these attributes or inputs",
       "an image that is resized by mode=\"bicubic\"; automatic pads; windows over volumes",
       "follow the hint of the message; docs/guides/export-and-import.md lists the supported forms",
       "auto_pad = SAME_UPPER is not supported [TD7015]; hint: export the model with explicit "
       "pads"},
      {7016, "an ONNX model for one batch size",
       "the exporter computed numbers for the batch of its example and stored them",
       "torch.onnx.export without dynamic_shapes, of a model that repeats a parameter",
       "export the model with a dynamic batch: torch.onnx.export(..., dynamic_shapes=...)",
       "the model contains constants that fit only batch size 8: ... [TD7016]"},
  };
}

// Errors of `tandem serve` and of its clients.
std::vector<ErrorCode> ServingErrors() {
  return {
      {7030, "a model that cannot be served",
       "the program of the job file and the values of the checkpoint or the servers do not fit",
       "a job file of another model; a job in mode collective whose values are not on servers; "
       "running statistics of batch_norm, which servers do not have; no checkpoint yet",
       "use the job file of the training; serve such a job with --checkpoints",
       "the source of the values lacks variable \"fc_0.w\" of the model [TD7030]; hint: use the "
       "checkpoint or the servers of a job with this model"},
      {7031, "a request that does not fit the model",
       "an input or output of the request has another name, type or size than in the model",
       "an id beyond the table; the wrong number of samples; a field of another job",
       "call ModelMetadata for the inputs and outputs; send at most --batch_max samples",
       "input \"x\" is FP64 [1,2], expected FP32 [samples,2] [TD7031]"},
      {7032, "too many requests",
       "requests arrive faster than the server computes, and its queue is full",
       "a burst of requests; too few threads; slow servers of rows",
       "retry after a pause; raise --threads or start more servers; read from replicas",
       "1024 requests wait already [TD7032]; hint: retry later, or raise --threads or --queue_max"},
      {7033, "a model that is not loaded", "the server has no model or version of this name",
       "the name is that of another job; the version is older than --versions",
       "use the name of the job, and no version or one that ModelMetadata lists",
       "model \"click\" has no version \"10\", its versions are: 20, 30 [TD7033]"},
      {7034, "a missing token", "the server has --token_file, and the request lacks its token",
       "no metadata \"authorization\"; a token of another server",
       "send the metadata \"authorization: Bearer TEXT\" with the text of that file",
       "the metadata \"authorization\" is missing or wrong [TD7034]; hint: send \"Bearer \" and "
       "the "
       "text of the file that --token_file of the server names"},
  };
}

}  // namespace

std::vector<ErrorCode> JobErrors() {
  std::vector<ErrorCode> all = FlagErrors();
  for (const auto part :
       {ArgumentErrors, SettingErrors, TaskErrors, ProgramErrors, ImportErrors, PythonErrors,
        ReplayErrors, ParamChecksumErrors, NodeErrors, ServingErrors}) {
    const std::vector<ErrorCode> rows = part();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace tandem::deploy
