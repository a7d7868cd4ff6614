#include "deploy/launch/process/failure.h"

namespace tandem::deploy {

bool IsConsequence(const ExitState& exit) {
  return exit.signal == 0 && (exit.code == kExitLostPeer || exit.code == kExitUnavailable);
}

}  // namespace tandem::deploy
