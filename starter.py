#!/usr/bin/env python3
"""Repair three functions, and this file trains, encodes and reports with them.

    python3 -B test_tokenizer.py -v                      # the first wrong output, with a hint
    python3 -B starter.py --output my-report.json        # a report, once all three are right

Each function below runs, looks plausible, and is wrong in one way. The docstring is the contract. Repair
`pair_counts` first, then `merge_pair`, then `apply_merges`; before you change anything, predict on paper what
the worked example gives. While the checks run, nothing that you print is shown: call a function yourself with
`python3 -B -c "import starter; print(starter.pair_counts([[97, 98, 97, 98]]))"`.
"""

import sys

import tokenizer


def pair_counts(documents):
    """Count every adjacent pair of ids inside each document.

    `documents` is a list of lists of ids; return a dict from (left, right) to how often the pair occurs.
    Overlaps count: `[97, 97, 97, 97]` holds (97, 97) three times. No pair spans two documents.

    Worked example, `abab`:  pair_counts([[97, 98, 97, 98]]) == {(97, 98): 2, (98, 97): 1}
    """
    counts = {}
    for ids in documents:
        i = 0
        while i + 1 < len(ids):
            pair = (ids[i], ids[i + 1])
            counts[pair] = counts.get(pair, 0) + 1
            if i + 2 < len(ids) and ids[i + 2] == ids[i + 1] == ids[i]:
                i += 2
            else:
                i += 1
    return counts


def merge_pair(ids, pair, new_id):
    """Return a new list in which every occurrence of `pair` in `ids` is replaced by `new_id`.

    Go left to right, without overlap: what was replaced is used up. `[97, 97, 97, 97]` gives two new ids and
    `[97, 97, 97]` gives `[new_id, 97]`. `ids` itself is not changed.

    Worked example, `abab`:  merge_pair([97, 98, 97, 98], (97, 98), 258) == [258, 258]
    """
    merged = []
    for i in range(len(ids)):
        if (ids[i], *ids[i + 1 : i + 2]) == pair:
            merged.append(new_id)
        elif i == 0 or (ids[i - 1], ids[i]) != pair:
            merged.append(ids[i])
    return merged


def apply_merges(ids, merges):
    """Return `ids` after each frozen rule of `merges`, in turn, in the order of the list (rank order).

    A rule is ((left, right), new_id). Nothing is counted: the rules and their order were learned before.

    Worked example, `abc`:  apply_merges([97, 98, 99], [((98, 99), 258), ((97, 258), 259)]) == [259]
    """
    ids = list(ids)
    rules = dict(merges)
    while True:
        counts = {pair: count for pair, count in pair_counts([ids]).items() if pair in rules}
        if not counts:
            return ids
        pair = max(counts, key=counts.get)
        ids = merge_pair(ids, pair, rules[pair])


if __name__ == "__main__":
    core = tokenizer.Core(pair_counts, merge_pair, apply_merges)
    sys.exit(tokenizer.main(core=core, starter=__file__))
