"""The parts of a sync step that a trainer has pushed. A step needs all parts of every trainer."""


class StepParts:
    """The pushed parts of the newest step."""

    def __init__(self, blocks, tables, placement):
        self._blocks, self._tables, self._placement = blocks, tables, placement
        self._names = {block.variable for block in blocks}.union(tables)
        self.forget()

    def forget(self):
        self._step, self._pushed = None, set()

    def add(self, step, names):
        self._pushed = self._with_more(step, names)
        self._step = step

    def check_pull(self, params, version):
        """Raises ValueError if a pull of this version would wait for a push of this trainer."""
        if self._step is not None and version > self._step:
            self.check(self._step, (), params)

    def check(self, step, names, params):
        """Raises ValueError if a step with `names` is incomplete on the servers of `params`."""
        absent = self._names - self._with_more(step, names)
        if not absent:
            return
        servers = {self._owner(block) for block in self._blocks if block.variable in params}
        lacking = {block.variable for block in self._blocks if self._owner(block) in servers}
        if any(self._placement.owns_rows(i) for i in servers):
            lacking.update(self._tables)
        lacking &= absent
        if lacking:
            names = ", ".join(f'"{name}"' for name in sorted(lacking))
            raise ValueError(
                "step %d of sync mode is incomplete: no gradient of %s was pushed [TD4026]; hint: "
                "push all configured variables and tables, with zeros or no rows where there is no "
                "gradient"
                % (step, names))

    def _with_more(self, step, names):
        return set(names) | (self._pushed if step == self._step else set())

    def _owner(self, block):
        return self._placement.slice_owner(block.variable, block.offset)
