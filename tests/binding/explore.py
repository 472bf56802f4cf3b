"""Which arguments to try: every value alone, then longer lists that begin with what got the function furthest.

A call's outcome is its exception's class and text without numbers. An argument whose outcome is new is worth keeping before another: so a
function that wants (str, dict, int) is reached in a few hundred calls. Deterministic for a seed, as long as the function is."""
import random
import re

from values import VALUES

FACTORY = dict(VALUES)
NAMES = [name for name, _ in VALUES]
KEYWORDS = ("x", "self", "input", "out", "dtype", "dim", "size", "other", "args", "kwargs", "name", "requires_grad", "device", "not an identifier")
WIDEST = 6              # prefixes kept a length
LONGEST = 5


def outcome_of(error):
    """What a call did, as far as it matters for the search."""
    if error is None:
        return "returned"
    try:
        text = str(error)[:160]
    except Exception:
        text = "?"
    return f"{type(error).__name__}: {re.sub(r'[0-9]+|0x[0-9a-f]+', '#', text)}"


def cases(rng, budget, run):
    """Calls run(args, kwargs) with lists of names of values; run gives the outcome."""
    seen, kept = {run((), {})}, [()]
    budget -= 1
    for length in range(1, LONGEST + 1):
        share = budget if length == LONGEST else budget // 2 + 1
        tries = [(*prefix, name) for prefix in kept for name in NAMES]
        if len(tries) > share:
            tries = rng.sample(tries, max(share, 0))
        fresh = []
        for args in tries:
            outcome = run(args, {})
            if outcome not in seen:
                seen.add(outcome)
                fresh.append(args)
        budget -= len(tries)
        # What Python says of wrong counts is the same for every value: longer lists of anything still have to be tried.
        kept = rng.sample(fresh, min(len(fresh), WIDEST)) or [(*prefix, rng.choice(NAMES)) for prefix in kept[:2]]
        if budget <= 0:
            break
    for _ in range(min(8, max(2, budget // 10))):
        args = tuple(rng.choice(NAMES) for _ in range(rng.randrange(3)))
        run(args, {rng.choice(KEYWORDS): rng.choice(NAMES) for _ in range(rng.randrange(1, 4))})
    run(tuple(rng.choice(NAMES) for _ in range(40)), {})


def values(names):
    return [FACTORY[name]() for name in names]


def seeded(seed, name):
    return random.Random(f"{seed} {name}")
