"""Makes a combination with a finding smaller: leaves out settings while the finding stays."""

import promises


def _smaller(one):
    """Combinations with one thing less."""
    names = [name for name in promises.settings_of(one)
             if name not in ("global_batch_size", "batch_size")]
    if len(names) > 3:
        yield promises.without(one, set(names[::2]))
        yield promises.without(one, set(names[1::2]))
    for name in names:
        yield promises.without(one, {name})
    for name in one.optimizer:
        if name not in ("type", "learning_rate"):
            yield one.copy(optimizer={k: v for k, v in one.optimizer.items() if k != name})
    if one.as_flags:
        yield one.copy(as_flags=False)
    if one.servers > 1:
        yield one.copy(servers=1)
    if one.ranks > 1:
        yield one.copy(ranks=one.ranks - 1)
    if one.optimizer.get("type") != '"sgd"':
        yield one.copy(optimizer={"type": '"sgd"', "learning_rate": "0.01"})
    for model in ("softmax", "deepfm"):
        if one.model != model and (model != "softmax" or one.mode != "hybrid"):
            arguments = one.arguments if model == "deepfm" and one.model == "wide_deep" else {}
            yield one.copy(model=model, arguments=arguments)


def minimise(one, still, attempts=60):
    """The smallest combination found for which still(combination) is true."""
    tried = set()
    while attempts > 0:
        for other in _smaller(one):
            text = other.to_json()
            if text in tried:
                continue
            tried.add(text)
            attempts -= 1
            if still(other):
                one = other
                break
            if attempts <= 0:
                return one
        else:
            return one
    return one
