"""The assignments of one sequence with links and with variables that are assigned twice, in plain Python.

`assignadd.task.chains` draws the same numbers in the same order for any number of rows at once.
"""

from __future__ import annotations

from assignadd.config import Task
from assignadd.task.evalsets import EvalSet


def chain_assignments(task: Task, evalset: EvalSet | None, n: int, operands, values, others: list[int], draws):
    """The n assignments, each a variable and a number or a letter's number as ("v", number)."""
    N, h, most = task.modulus, task.hops, task.max_assignments
    links_wanted = evalset.links if evalset else None
    twice_wanted = evalset.rebound if evalset else None

    def drawn_group(room: int, of_operand: bool) -> tuple[int, bool, int, int]:
        spare = 1 if of_operand and twice_wanted else 0
        links = draws.below(min(h, max(room - spare, 1) - 1) + 1, h + 1)
        if of_operand and links_wanted is not None:
            links = links_wanted
        twice = draws.below(2**16, 2**16) < round(task.rebinding * 2**16) and links + 2 <= room
        if of_operand and twice_wanted is not None:
            twice = twice_wanted
        early = draws.below(links + 1, h + 1)
        return links, twice, early, (links + 1 + twice if room > 0 else 0)

    n_variables = sum(operand is not None for operand in operands)
    groups, left = [], n
    for operand in operands:
        groups.append(drawn_group(0 if operand is None else n // n_variables, True))
        left -= groups[-1][3]
    for _ in range(most):
        groups.append(drawn_group(left, False))
        left -= groups[-1][3]
    assert left == 0
    order = [g for g, (*_, size) in enumerate(groups) for _ in range(size)]
    for i in range(most):
        j = i + draws.below(max(1, n - i), most - i)
        if i < n:
            order[i], order[j] = order[j], order[i]
    numbers = [draws.below(N, N) for _ in range(most)]

    # The groups' own assignments, in order; the end's variable is written where a chain has no number yet.
    chain: dict[int, list[int]] = {}  # the variables of each group so far, without the superseded assignment
    result: list[list] = []
    superseded: dict[int, int] = {}  # group: the assignment whose variable is still open
    met = dict.fromkeys(range(len(groups)), 0)
    others = list(others)
    for place, g in enumerate(order):
        links, twice, early, _ = groups[g]
        if twice and met[g] == early:
            superseded[g] = place
            result.append([None, numbers[place]])
        else:
            own = chain.setdefault(g, [])
            is_end, is_operand = len(own) == links, g < len(operands)
            variable = operands[g] if is_end and is_operand else others.pop(0)
            number = values[g] if is_operand else numbers[place]
            result.append([variable, ("v", own[-1]) if own else number])
            own.append(variable)
        met[g] += 1
    for g, place in superseded.items():
        result[place][0] = chain[g][-1]
    return result
