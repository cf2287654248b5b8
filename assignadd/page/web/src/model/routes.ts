/** The attention edges through which a prompt's answer can be computed, and what cutting each one changes. */

import { forward, type Edits, type Trace } from "./forward";
import { edgeHolds, expectedEdges, positionsOf } from "./prompt";
import type { Weights } from "./weights";

export interface Route {
  readonly layer: 1 | 2;
  readonly query: number;
  readonly key: number;
  readonly weight: number;
  /** Why the paper's circuit needs it; null where it does not. */
  readonly why: string | null;
  /** Whether it is among its query's heaviest, for edges that the circuit needs. */
  readonly holds: boolean;
}

/** Lighter edges that the circuit does not need are left out. */
const LEAST = 0.1;

/** The edges that the circuit needs, and the heavy ones beside them, of the queries that matter for the answer. */
export function routesOf({ prompt, patterns }: Trace): Route[] {
  const T = prompt.task.length;
  const expected = expectedEdges(prompt);
  const last = positionsOf(prompt, "equals");
  const queries = [[...positionsOf(prompt, "assigned"), ...last], last] as const;
  return ([1, 2] as const).flatMap((layer) =>
    queries[layer - 1].flatMap((query) =>
      Array.from({ length: query + 1 }, (_, key): Route => {
        const edge = expected.find((e) => e.layer === layer && e.query === query && e.key === key);
        const pattern = patterns[layer - 1].data;
        return { layer, query, key, weight: pattern[query * T + key], why: edge?.why ?? null, holds: edge !== undefined && edgeHolds(pattern, T, expected, edge) };
      }).filter((r) => r.why !== null || r.weight >= LEAST),
    ),
  );
}

/** The right answer's logit less the best other one. */
export function marginOf(logits: Float32Array, truth: number): number {
  let best = -Infinity;
  for (let i = 0; i < logits.length; i++) if (i !== truth && logits[i] > best) best = logits[i];
  return logits[truth] - best;
}

/** How much the margin falls when an edge alone is cut, for each edge. */
export function effectsOf(w: Weights, trace: Trace, edits: Edits | undefined, routes: readonly Route[]): number[] {
  const { prompt } = trace;
  const margin = marginOf(trace.logits, prompt.answer);
  return routes.map((route) => margin - marginOf(forward(w, prompt, { edits: withCut(edits, route) }).logits, prompt.answer));
}

function withCut(edits: Edits | undefined, { layer, query, key }: Route): Edits {
  return {
    touches: (hook) => edits?.touches(hook) ?? false,
    scores: (at, rows, first, prompt) => {
      edits?.scores(at, rows, first, prompt);
      if (at === layer && query >= first) rows.data[(query - first) * rows.cols + key] = -Infinity;
    },
    at: (...rest) => edits?.at(...rest),
  };
}
