"""All checkers, in the order in which a report names their findings."""

import checkers
import row_checkers

CHECKERS = (checkers.check_doubled, checkers.check_replies, checkers.check_wrong,
            checkers.check_sets, checkers.check_torn, checkers.check_versions,
            checkers.check_pulled_versions, checkers.check_steps,
            checkers.check_acknowledged_steps, checkers.check_deadlines, checkers.check_errors,
            checkers.check_full_disk, row_checkers.check_rows_return,
            row_checkers.check_rows_stay, row_checkers.check_followers,
            row_checkers.check_tombstones, row_checkers.check_snapshots)


def check(recorded):
    """All violations of a history."""
    return [violation for checker in CHECKERS for violation in checker(recorded)]
