"""`make sabotage`: the tests can fail. Each small patch breaks one thing, and the named test has to notice it.

    python -m tests.sabotage                 every patch
    python -m tests.sabotage --only lock     one of them
    python -m tests.sabotage --write         and put the numbers into docs/reliability.md

Patches are applied to a copy of the tree, one at a time. The named test has to pass before, and to fail with the patch.
A patch that survives is a missing test; one whose text is no longer in its file is out of date; both make the command
fail.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.chaos.__main__ import PROMISES
from tests.chaos.page import SABOTAGE, here, write_row

ROOT = Path(__file__).parents[1]


class Patch(NamedTuple):
    name: str
    file: str
    """Below assignadd/."""
    text: str
    broken: str
    test: str
    """What pytest is given, below tests/."""


PATCHES = (
    Patch("bans", "task/evalsets.py", " if n_banned in (None, count_banned(task, *choice))", "",
          "task/test_operands.py"),
    Patch("split", "task/splits.py", "(stable=True)[: task.n_seen]", "(stable=True)[: task.n_seen - 1]",
          "task/test_splits.py"),
    Patch("answer", "task/arithmetic.py", "return (first + second) % N", "return (first + second + 1) % N",
          "task/test_sampler.py"),
    Patch("randomness", "task/randomness.py", "(k0 + WEYL[0]) & MASK", "k0", "task/test_randomness.py"),
    Patch("backward", "model/table.py", "g_embeddings[..., self.equals :: C - 1 - self.equals, :] += g_constant",
          "pass", "model/test_table.py -k equals_reference"),
    Patch("scores-backward", "model/table.py", "self._scaled(g_scores_1.mT, tables.queries_1)",
          "self._scaled(g_scores_1, tables.queries_1)", "model/test_table.py -k equals_reference"),
    Patch("read-out", "model/table.py", "product(g_read_out, w.U.mT, out=grads.W_out)",
          "product(g_read_out, -w.U.mT, out=grads.W_out)", "model/test_table.py -k equals_reference"),
    Patch("one-model", "model/kernels/numba_step.py", "        add(g_outputs_1, g_equal_rows[:C], g_outputs_1)\n", "",
          "model/test_cpu_step.py -k autograd"),
    Patch("positions", "model/kernels/numba_step.py", "copy(outputs_2[C - T : C], tables.positions[:T])",
          "copy(outputs_2[2 * C - T :], tables.positions[:T])", "model/test_cpu_step.py -k autograd"),
    Patch("several-heads", "model/kernels/numba_heads.py", "gemm(scale, g_queries_2, tables.Q2_T, 1, g_resid)",
          "pass", "model/test_cpu_step.py -k hundred"),
    Patch("outputs-of-heads", "model/kernels/numba_heads.py", "gemm(1, read_1.T, g_resid, beta, sums.equal_rows)",
          "pass", "model/test_cpu_step.py -k hundred"),
    Patch("rows-of-positions", "model/kernels/numba_heads_functions.py",
          "write_numbers_from(numbers_from(of_position, i) + numbers, of_position, i)", "pass",
          "model/test_kernels.py -k rows_of_positions"),
    Patch("rows-of-tokens", "model/kernels/numba_vectors.py", "vector_at(rows + tokens[k] * width, x))\n        write",
          "vector_at(rows + k * width, x))\n        write", "model/test_vectors.py"),
    Patch("product", "model/kernels/blas.py", "gemm(1, a, b, 1, out)", "gemm(1, a, b, 0, out)", "model/test_blas.py"),
    Patch("own-thread", "model/kernels/blas.py", "kind() == OPENMP", "kind() >= 0", "model/test_blas.py -k one_thread"),
    Patch("gate", "model/kernels/numba_functions.py", "if row[i] <= 0 else", "if row[i] < 0 else",
          "model/test_cpu_step.py -k autograd"),
    Patch("shares", "model/kernels/numba_step.py", "total[j] += other[j]", "total[j] += 0 * other[j]",
          "model/test_cpu_step.py -k autograd"),
    Patch("keys-after", "model/cpu_arrays.py", "torch.zeros(shape)", "torch.ones(shape)",
          "model/test_cpu_step.py -k autograd"),
    Patch("chunks", "model/kernels/numba_step.py", "0 if start == first else 1", "1 if start == last else 0",
          "model/test_cpu_step.py -k autograd"),
    Patch("steps", "model/kernels/numba_step.py", "if diverged_at[0] >= 0:", "if diverged_at[0] >= 100:",
          "training/test_step.py -k diverge"),
    Patch("next-batch", "model/kernels/numba_step.py", "batches.tokens[step * B : step * B + B]", "batches.tokens[:B]",
          "training/test_step.py -k drawing_ahead"),
    Patch("loss", "model/kernels/numba_functions.py", "scale = np.float32(one_over_batch / total)",
          "scale = one_over_batch",
          "model/test_cpu_step.py -k autograd"),
    Patch("certain", "model/kernels/numba_functions.py", "np.float64(row[label]), 0.0",
          "np.float64(row[label]), np.float32(0)", "model/test_kernels.py -k certain"),
    Patch("double-loss", "model/kernels/numba_functions.py", "        if in_double:",
          "        if in_double and batch < 0:", "model/test_cpu_step.py -k double_precision_keeps"),
    Patch("exponential", "model/kernels/numba_functions.py", "- k * LOG_2[1]", "", "model/test_kernels.py"),
    Patch("evaluation", "model/kernels/numba_step.py",
          "    write_tables(thread, model)\n    for start", "    for start",
          "model/test_forward.py"),
    Patch("memory", "training/trainer.py", "    _keep_freed_memory()\n", "",
          "training/test_trainer.py -k memory_that_was_freed"),
    Patch("threads", "model/kernels/blas.py", "== thread.n_threads - 1:\n        _atomic", ">= 0:\n        _atomic",
          "model/test_blas.py"),
    Patch("decay", "model/kernels/numba_step.py", "decay * weights[i] +", "",
          "training/test_trainer.py -k first_steps"),
    Patch("decay-tensors", "model/kernels/tensor.py", "weight_decay=optim.weight_decay",
          "weight_decay=0.0",
          "model/test_kernels.py"),
    Patch("correction", "model/kernels/numba_step.py", "1 - beta2**count", "1 - beta2 ** (count + 1)",
          "model/test_kernels.py"),
    Patch("causal", "model/transformer.py", "scores.masked_fill(future, -math.inf)", "scores",
          "model/test_transformer.py"),
    Patch("causal-kernel", "model/kernels/tensor.py", "of_pairs.masked_fill_(self._future, -torch.inf)", "of_pairs",
          "model/test_table.py -k equals_reference tests/model/test_kernels.py"),
    Patch("diverged", "model/kernels/numba_step.py", "P > 0 and not np.isfinite(loss[0])",
          "P < 0", "training/test_step.py -k diverge"),
    Patch("diverged-tensors", "model/kernels/tensor.py", "if is_alive[i] and not is_finite[i]:",
          "if False:", "model/test_kernels.py"),
    Patch("resume", "training/loop.py", "    trainer.load_state(state)\n    return run.metrics()",
          "    set_start(trainer)\n    return run.metrics()", "training/test_loop.py -k signal"),
    Patch("failed-save", "training/loop.py", "if not self._failed:", "if True:",
          "training/test_loop.py -k that_fails"),
    Patch("checked-save", "training/loop.py", "        commits.check()\n", "",
          "training/test_loop.py -k that_fails"),
    Patch("saved-rows", "training/loop.py", "rows=rows, finished", "rows=[], finished",
          "training/test_loop.py -k what_the_schedule_says"),
    Patch("late-save", "training/trainer.py", "return concatenate([group.stack for group in self.groups]).to(\"cpu\")",
          "return self.groups[0].stack", "training/test_loop.py -k slow_save"),
    Patch("probe-split", "measures/probes.py", 'if split == "pair":', 'if split != "pair":', "measures/test_probes.py"),
    Patch("identity", "measures/scores.py", "copied @ QK(stack, 2) @ copied.mT", "copied @ QK(stack, 1) @ copied.mT",
          "measures/test_scores.py"),
    Patch("previous", "measures/scores.py", "is_compared = j <= i", "is_compared = j >= 0", "measures/test_scores.py"),
    Patch("interval", "stats.py", "Z_95 * math.sqrt(p * (1 - p) / n", "math.sqrt(p * (1 - p) / n",
          "test_stats.py"),
    Patch("mean", "stats.py", "for value in values) / (n - 1))", "for value in values) / n)", "test_stats.py"),
    Patch("student", "stats.py", "stdtrit(n - 1, 0.975)", "stdtrit(n, 0.975)", "test_stats.py"),
    Patch("verdict", "stats.py", "decided(measured.low >= self.threshold",
          "decided(measured.high >= self.threshold", "test_stats.py"),
    Patch("onset", "dynamics/curves.py", "above[i : ends[i] + 1].all()", "above[i]", "dynamics/test_curves.py"),
    Patch("visible", "dynamics/curves.py", "if gain > 0 and gain >= VISIBLE", "if gain > 0 or gain >= VISIBLE",
          "dynamics/test_curves.py -k scatter"),
    Patch("recovery", "dynamics/curves.py", "max(levels[: first + 1])", "levels[first]",
          "dynamics/test_curves.py -k recovery"),
    Patch("binds", "dynamics/phases.py",
          "return bool(np.median(self.accuracy[BINDING_SET][is_at_end]) >= BINDING_THRESHOLD)",
          "return True", "test_binding.py -k curves"),
    Patch("if-binding", "ledger/claim.py", " if not claim.if_binding or binds(network)]", "]",
          "ledger/test_claim.py -k binding"),
    Patch("parts-add-up", "ledger/claim.py", "    if len(counts) <= 1:\n", "    if counts[HOLDS]:\n",
          "ledger/test_claim.py"),
    Patch("fresh-exams", "model/accuracy.py", "back * (len(EvalSteps.END_EXAMS) // END_EVALUATIONS) + first", "first",
          "measures/test_accuracies.py -k sequences_of_its_own"),
    Patch("end-columns", "sweeps/final_tests.py", "len(end) - 1 - end.index(step)", "end.index(step)",
          "sweeps/test_end_exams.py"),
    Patch("units", "study/table.py", "for value in np.unique(units)", "for value in units",
          "study/test_study.py -k units"),
    Patch("seal", "runs/manifest.py", "if manifest.sealed() != data:", "if False:", "runs/test_damage.py -k flipped"),
    Patch("hash", "runs/manifest.py", "if hashlib.sha256(data).hexdigest() != self.sha256:", "if False:",
          "runs/test_damage.py -k flipped"),
    Patch("table-seal", "runs/encoding.py", ".hexdigest().encode() != seal[1]:", ".hexdigest() is None:",
          "runs/test_tables.py"),
    Patch("lock", "runs/atomic.py", "return lock_descriptor(fd, blocking=False)", "return True",
          "runs/test_lock.py"),
    Patch("sync", "runs/atomic.py", "            os.fsync(fd)\n            if RENAMES",
          "            if RENAMES",
          "runs/test_faults.py -k synced"),
    Patch("append", "runs/atomic.py", "            os.ftruncate(fd, committed)\n            os.lseek",
          "            os.lseek", "runs/test_damage.py -k never_committed"),
    Patch("link", "runs/files.py", "    if path.is_symlink():\n", "    if False:\n",
          "runs/test_destination.py"),
    Patch("run-link", "runs/writer.py", "    if path.is_symlink():", "    if False:",
          "runs/test_destination.py"),
    Patch("sweep-folder", "sweeps/engine.py", '    claim_folder(out, "sweep")\n', "",
          "cli/test_destinations.py -k sweep"),
    Patch("foreign", "runs/files.py", "in (None, \"run\")]", "== 0]",
          "runs/test_destination.py"),
    Patch("pickle", "runs/transformer_lens.py", "weights_only=True", "weights_only=False",
          "runs/test_transformer_lens.py -k code"),
    Patch("biases", "runs/transformer_lens.py", "if tensor.count_nonzero() and", "if False and",
          "runs/test_transformer_lens.py"),
    Patch("keys", "runs/config_json.py", "if key in values:", "if False:", "runs/test_config_json.py"),
    Patch("no-locks", "runs/atomic.py", " and not _python_has_locks():", ":",
          "runs/test_lock.py -k without_locks"),
    Patch("cell-once", "sweeps/results.py", "recorded.pop(member)", "recorded.pop(members[0], [])",
          "sweeps/test_local.py -k in_parts"),
    Patch("leftover-of-others", "runs/atomic.py", "if not temporary.exists():", "if False:",
          "sweeps/test_shared.py -k leftover"),
    Patch("member", "config/__init__.py", "with_settings(base, filled_in | dict(self.settings))",
          "with_settings(base, filled_in)", "config/test_config.py"),
    Patch("study-rows", "study/table.py", '"diverged": diverged,', '"diverged": False,',
          "study/test_study.py -k row"),
    Patch("hub-hash", "runs/hub.py", "if problem := file.problem(data):", "if problem := None:",
          "report/test_hub.py -k trusted"),
    Patch("hub-size", "runs/hub.py", "if len(data) > most:", "if False:", "report/test_hub.py -k trusted"),
    Patch("hub-links", "runs/files.py", "if target.is_relative_to(", "if target.exists() or target.is_relative_to(",
          "report/test_hub.py -k links"),
    Patch("hub-stale", "report/hub_folder.py", "not in listed:", "in ():", "report/test_hub.py -k replaces"),
    Patch("strict", "interventions/specification.py",
          "msgspec.convert(value, value_type)",
          "msgspec.convert(value, value_type, strict=False)",
          "interventions/test_specification.py"),
    Patch("unsound", "runs/folder.py", "if diverged_at is not None and diverged_at <= step:", "if False:",
          "cli/test_diverged.py -k one_model"),
    Patch("cells", "sweeps/plan.py", "if len(set(self.cells)) < len(self.cells):", "if False:",
          "sweeps/test_settings.py -k hostile"),
    Patch("policy", "page/built/index.html", "default-src 'none'; ", "", "page/test_page.py -k policy"),
    Patch("resampled-rows", "interventions/apply.py", "in_the_pass, first_row=i * CHUNK)", "in_the_pass)",
          "interventions/test_apply.py -k in_parts"),
    Patch("wilson", "stats.py", "centre = p + z2 / (2 * n)", "centre = p + z2 / n", "test_stats.py"),
    Patch("median", "stats.py", "while missed_by_next <= 0.05:", "while missed_by_next <= 0.1:", "test_stats.py"),
    Patch("paired", "stats.py", "a.astype(float) - b, (1.0, -1.0))", "a.astype(float) - b, (1.0, 1.0))",
          "test_stats.py"),
    Patch("newcombe", "stats.py", "math.hypot(self.value - self.low, other.high - other.value)",
          "math.hypot(self.value - self.low, other.value - other.low)", "test_stats.py"),
    Patch("evaluations", "stats.py", "low = min(over_evaluations.low, over_sequences.low)",
          "low = over_evaluations.low", "test_stats.py"),
    Patch("ratio", "stats.py", "(a - ratio * b).std() / abs(b.mean())", "a.std() / abs(b.mean())", "test_stats.py"),
    Patch("at-most", "stats.py", "measured.high <= self.threshold, measured.low > self.threshold",
          "measured.low <= self.threshold, measured.low > self.threshold", "test_stats.py"),
    Patch("lapse", "stats.py", "(1 - lapse) / (1 + np.exp(exponent))", "1 / (1 + np.exp(exponent))", "test_stats.py"),
    Patch("three-settings", "stats.py", "n_rising < 3:", "n_rising <= 3:", "test_stats.py"),
    Patch("rise", "stats.py", "counted = succeeded[:n_rising], counted[:n_rising]", "counted = succeeded, counted",
          "test_stats.py"),
    Patch("no-answer", "training/gradient.py", "ignore_index=-1", "ignore_index=-2",
          "training/test_step.py -k mean_over_the_answers"),
    Patch("whole-rows", "runs/folder.py", "if not _is_whole(checked, len(self.members)) or", "if",
          "runs/test_forged.py -k twice"),
    Patch("most-models", "runs/config_json.py", "not 1 <= len(models) <= MOST_MODELS", "not 1 <= len(models)",
          "runs/test_config_json.py -k most_models"),
    Patch("numbers-alone", "runs/encoding.py", "not all(kind.is_numeric() for kind in schema.dtypes())", "False",
          "runs/test_tables.py"),
    Patch("finite-answer", "cli/ask.py", "if not answer_logits.isfinite().all():", "if False:",
          "runs/test_forged.py -k 3e"),
    Patch("layer-numbers", "runs/transformer_lens.py", "(0|[1-9][0-9]*)", "([0-9]+)",
          "runs/test_lens_bridge.py -k cannot_hold"),
    Patch("zip-bomb", "runs/transformer_lens.py", "if size > len(data):", "if False:",
          "runs/test_transformer_lens.py -k all_memory"),
    Patch("figure-link", "study/files.py", "    claim_file(file, lambda data", "    str(lambda data",
          "study/test_command.py -k writes_nothing"),
    Patch("bytecode", "user_file.py", "sys.dont_write_bytecode = True ", "sys.dont_write_bytecode = False ",
          "study/test_command.py -k writes_nothing"),
    Patch("other-files", "runs/manifest.py", "if folder not in (CHECKPOINTS, STATES) or file.step is None or", "if",
          "runs/test_manifest.py -k other_files"),
    Patch("beyond-step", "runs/manifest.py", "if file.step > manifest.step or", "if",
          "runs/test_manifest.py -k contradicts"),
    Patch("regular", "runs/files.py", "if not stat.S_ISREG(status.st_mode):", "if False:",
          "cli/test_unbounded.py"),
    Patch("size", "runs/files.py", "if size > most:", "if False:", "cli/test_unbounded.py"),
    Patch("same-settings", "runs/writer.py", "if difference := first_difference((run.config, run.members), settings):",
          "if difference := None:", "runs/test_folder.py"),
    Patch("same-split", "runs/writer.py", "if not torch.equal(run.seen, seen.cpu()):", "if False:",
          "runs/test_folder.py"),
    Patch("weights-fit", "runs/encoding.py", "if stored.get(name) != expected.get(name):", "if False:",
          "runs/test_manifest.py -k another_model"),
    Patch("infinities", "runs/config_json.py", "parse_constant=refuse_constant)", "parse_constant=float)",
          "runs/test_config_json.py"),
    Patch("later-keys", "interventions/apply.py", "expand(-1, 1, n_keys, -1).tril()", "expand(-1, 1, n_keys, -1)",
          "interventions/test_apply.py"),
    Patch("no-keys", "interventions/apply.py", "lambda pattern: pattern.nan_to_num(0.0)", "lambda pattern: pattern",
          "interventions/test_apply.py -k without_keys"),
    Patch("swapped-layer", "training/schedule.py", "int(layer) - 1", "int(layer)",
          "interventions/test_apply.py -k swap"),
    Patch("numerals", "interventions/specification.py", 'NUMERAL = "0|[1-9]', 'NUMERAL = "[0-9]+|[1-9]',
          "interventions/test_specification.py"),
    Patch("not-finite", "runs/folder.py", "elif not is_finite[i]:", "elif False:", "runs/test_folder.py -k not_finite"),
    Patch("encoding", "cli/__init__.py", 'errors="backslashreplace"', 'errors="strict"',
          "cli/test_faults.py -k encoding"),
    Patch("matplotlibrc", "figure/style.py", 'plt.style.context(["default", STYLE])', "plt.rc_context(STYLE)",
          "figure/test_style.py"),
    Patch("page", "page/built/app.js", "Math.exp(e[s]-t)", "Math.exp(t-e[s])", "page/test_page.py -k typing"),
    Patch("one-interval", "ledger/claim.py", "numbers[0].value, numbers[0].low, numbers[0].high",
          "numbers[0].value, numbers[0].value, numbers[0].value", "ledger/test_claim.py -k single_network"),
    Patch("failed-measure", "ledger/claim.py", "Line(verdict=BROKEN,", "Line(verdict=UNTESTABLE,",
          "ledger/test_claim.py -k error_of_a_measure"),
    Patch("some-not-defined", "ledger/claim.py", "if not numbers and undefined:", "if undefined:",
          "ledger/test_claim.py -k left_out"),
    Patch("another-task", "ledger/claim.py", "rule.verdict(number) if populations.as_in_the_paper else UNTESTABLE",
          "rule.verdict(number)", "ledger/test_claim.py -k another_task"),
    Patch("few-seeds", "ledger/claim.py", "if verdict == HOLDS and n < SEEDS_FOR_ALL:", "if False:",
          "ledger/test_claim.py -k thirty_five"),
    Patch("open-seeds", "ledger/claim.py", "wilson(verdicts[HOLDS] + verdicts[UNDECIDED], n)",
          "wilson(verdicts[HOLDS], n)", "ledger/test_claim.py -k undecided_seed"),
    Patch("seeds-alone", "ledger/claim.py", 'number.n if number.unit == "seeds" else 0', "number.n",
          "ledger/test_claim.py -k population_is_judged"),
    Patch("own-donor", "interventions/apply.py", "donors(swap, index)", "donors(swap, 0)",
          "interventions/test_apply.py -k own_donor"),
    Patch("donor-step", "interventions/apply.py", "step if swap.step is None else swap.step", "step",
          "interventions/test_apply.py -k donors_are"),
    Patch("later-key", "interventions/apply.py", "_edges(intervention, positions).tril()",
          "_edges(intervention, positions)", "interventions/test_apply.py -k acts_where"),
    Patch("components", "interventions/apply.py", "activation + value - components", "activation + value",
          "interventions/test_apply.py -k frequencies"),
    Patch("steps-of-models", "task/sampler.py", "if one_for_all_models and self._compiled", "if self._compiled",
          "task/test_numba_sampler.py -k other_shapes"),
    Patch("compiled-chains", "task/numba_sampler.py", "links + TWO <= available", "links + ONE <= available",
          "task/test_chains.py -k any_task"),
    Patch("empty-groups", "task/numba_sampler.py", "if new_words[draw_order - ONE]:", "if False:",
          "task/test_chains.py -k any_task"),
    Patch("kind", "task/sampler.py", "unsqueeze(-1) >= self.thresholds", "unsqueeze(-1) > self.thresholds",
          "task/test_numba_sampler.py -k next_kind"),
    Patch("assigned-twice", "task/numba_sampler.py", "drawn < chains.rebinding", "drawn <= chains.rebinding",
          "task/test_numba_sampler.py -k without_rebinding"),
    Patch("zero-dimensional", "task/sampler.py", "or step.dim() == 0 or", "or", "task/test_numba_sampler.py -k forms"),
    Patch("padding-first", "task/sampler.py", "gap = torch.zeros_like(gap)", "pass",
          "task/test_chains.py -k any_task"),
    Patch("inherited-lock", "runs/writer.py", "    _locked_descriptors.clear()\n", "",
          "runs/test_lock.py -k later_file"),
    Patch("leftovers", "runs/writer.py", "            atomic.discard_leftovers(path)\n", "",
          "runs/test_damage.py -k what_a_kill_left"),
    Patch("state-at-most", "runs/folder.py", "step <= at_most]", "step < at_most]", "runs/test_folder.py -k states"),
    Patch("frozen-from", "training/schedule.py", "(self._from < count)", "(self._from <= count)",
          "training/test_schedule.py -k written_out"),
    Patch("warm-up", "training/schedule.py", "((step + 1) / self._warmup)", "(step / self._warmup)",
          "training/test_schedule.py -k written_out"),
    Patch("literals-later", "training/schedule.py", "LiteralsLater(always, at_first, literals_from)",
          "LiteralsLater(at_first, always, literals_from)", "training/test_schedule.py -k written_out"),
    Patch("no-own-file", "runs/folder.py", "if trained_with is None:", "if False:", "test_own_tasks.py -k without_one"),
    Patch("most-of-models", "runs/folder.py", "return len(self.members) * bytes_per_model", "return bytes_per_model",
          "runs/test_forged.py -k large_run"),
    Patch("most-of-metrics", "runs/folder.py", "if name == METRICS:\n            return",
          "if False:\n            return", "runs/test_forged.py -k many_rows"),
    Patch("most-replaced", "runs/files.py", "path.name, most=MOST_REPLACED", "path.name",
          "runs/test_destination.py -k own_kind"),
    Patch("negative-place", "interventions/specification.py", "_FROM_1 = Annotated[int, Meta(ge=0)]",
          "_FROM_1 = Annotated[int, Meta(ge=-1)]", "interventions/test_specification.py -k name_the_field"),
    Patch("seed-of-swap", "interventions/specification.py", "and intervention.seed is None and", "and",
          "interventions/test_specification.py -k same_interventions"),
)  # fmt: skip


def copied(folder: Path) -> Path:
    """A copy of what the tests need; one for all patches, so that compiled kernels are found again."""
    for name in ("assignadd", "tests", "examples", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def tested(test: str, copy: Path) -> tuple[int, str]:
    """The exit code of pytest, and the last of what it said."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *f"tests/{test}".split()]
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout[-200:]


tested_unpatched = functools.cache(tested)


def survives(patch: Patch, copy: Path) -> str | None:
    """What is wrong with the tests: the patch survives, or no longer fits; None where it is noticed."""
    file = copy / "assignadd" / patch.file
    whole = file.read_text()
    if whole.count(patch.text) != 1:
        return f"its text is not once in {patch.file}"
    if (before := tested_unpatched(patch.test, copy))[0] != 0:
        return f"{patch.test} ends with {before[0]} without the patch: {before[1]}"
    try:
        file.write_text(whole.replace(patch.text, patch.broken))
        code, said = tested(patch.test, copy)
    finally:
        file.write_text(whole)
        later = time.time() + 1 + file.stat().st_mtime % 1000  # another time than the patch's, for cached bytecode
        os.utime(file, (later, later))
    # 1 is a failed test; 2 and more are errors of collection or usage, which prove nothing.
    return None if code == 1 else f"{patch.test} ended with {code}: {said}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage")
    parser.add_argument("--only", choices=[p.name for p in PATCHES], action="append")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    args, made_by = parser.parse_args(), here()
    tried, survivors = [p for p in PATCHES if args.only is None or p.name in args.only], {}
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder:
        copy = copied(Path(folder))
        for patch in tried:
            if (problem := survives(patch, copy)) is not None:
                survivors[patch.name] = problem
            print(f"{patch.name:<16} {survivors.get(patch.name, 'noticed')}", flush=True)
    print(f"{len(tried) - len(survivors)} of {len(tried)} patches noticed; survivors: {', '.join(survivors) or 'none'}")
    if args.write:
        row = f"| {len(tried)} (`{SABOTAGE}`) | {len(tried) - len(survivors)} | {len(PATCHES)} | {made_by} |"
        write_row(SABOTAGE, row, PROMISES)
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
