#include <cstdio>

#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

constexpr char kCompletionUsage[] =
    "tandem completion bash|zsh: prints a script that completes commands, flags and files in a "
    "shell\n  bash: eval \"$(tandem completion bash)\"      zsh: eval \"$(tandem completion "
    "zsh)\"\n";

// A completion script for bash. At completion time the script reads the flags from the help text,
// so the flags are never outdated. bash splits words at "=", but no name of a flag contains "=".
constexpr char kScript[] = R"(_tandem() {
  local current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} help=()
  COMPREPLY=()
  case $program in
    *tandemrun | *tandem-pserver | *tandem-trainer) help=("$program" --help) ;;
    *)
      if ((COMP_CWORD == 1)) && [[ $current != -* ]]; then
        COMPREPLY=($(compgen -W "$_tandem_commands" -- "$current"))
        return
      fi
      help=("$program" "${COMP_WORDS[1]}" --help) ;;
  esac
  if [[ ${COMP_WORDS[1]} == explain && $current == [Tt]* ]]; then
    COMPREPLY=($(compgen -W "$_tandem_errors" -- "${current^^}"))
    return
  fi
  [[ $current == -* ]] || return
  local flags=$("${help[@]}" 2>/dev/null | sed -n 's/^  \(--[a-z_0-9]*=\{0,1\}\).*/\1/p')
  COMPREPLY=($(compgen -W "$flags" -- "$current"))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o default -F _tandem tandem tandemrun tandem-pserver tandem-trainer
)";

}  // namespace

int RunCompletion(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain("completion", kCompletionUsage, {}, args, &parsed, &exit_code))
    return exit_code;
  const std::string shell = parsed.positional.empty() ? "" : parsed.positional[0];
  if (shell != "bash" && shell != "zsh") {
    return Fail("completion",
                InvalidArgument("unknown shell \"%s\", expected bash or zsh [TD1006]%s", shell,
                                HintText(shell, {"bash", "zsh"})));
  }
  if (const Status status = TakesAtMost(1, parsed); !status.ok()) return Fail("completion", status);
  std::string commands;
  for (const Command& command : Commands()) {
    commands += (commands.empty() ? "" : " ") + std::string(command.name);
  }
  std::string errors;
  for (const ErrorCode& code : ErrorCodes()) {
    errors += (errors.empty() ? "" : " ") + NameOf(code);
  }
  if (shell == "zsh") std::puts("autoload -U +X bashcompinit && bashcompinit");
  std::printf("_tandem_commands=\"%s\"\n_tandem_errors=\"%s\"\n%s", commands.c_str(),
              errors.c_str(), kScript);
  return kExitOk;
}

}  // namespace tandem::deploy
