/** The circuit as a picture: tokens, both attention layers, the MLP, the answer. Edges are as wide as their effect. */

import { positionsOf, type Prompt } from "../model/prompt";
import { argmax, row } from "../model/matrix";
import { isVariable, tokenName } from "../model/task";
import type { Part } from "../model/waves";
import type { Weighed } from "../state/routes";
import type { Answer, Snapshot } from "../state/snapshot";
import { hovered } from "../state/store";
import type { Node } from "../state/view";
import { Clock } from "./Clock";
import { fixed, percent } from "./format";
import { pressable } from "./press";
import { roleClass } from "./roles";
import { Waves } from "./Waves";

interface Props {
  readonly width: number;
  readonly snapshot: Snapshot;
  readonly before: Answer | undefined;
  readonly routes: readonly Weighed[];
  readonly parts: readonly Part[];
  readonly node: Node;
  readonly chosen: Weighed | null;
  /** How far the computation is shown, from 0 (the tokens) to 5 (the answer), for those who step through it; else null. */
  readonly reached: number | null;
  readonly onNode: (node: Node) => void;
  readonly onRoute: (route: Weighed, byKeyboard: boolean) => void;
  readonly onOver: (route: Weighed | null) => void;
}

/** From which width on MLP and answer stand to the right of the tokens. */
const WIDE = 860;
const WIDEST_EDGE = 11;
/** From which width on a box has what was read in one line, and the height of a line in narrower ones. */
const ROOMY = 26;
const LINE = 11;

export function CircuitFigure(p: Props) {
  const { width, snapshot, routes } = p;
  const { prompt } = snapshot.trace;
  const T = prompt.task.length;
  const wide = width >= WIDE;
  const gutter = wide ? 66 : 0;
  const side = wide ? 452 : 0;
  const step = (width - gutter - side) / T;
  const box = Math.min(34, step - 3);
  const band = wide ? 86 : 74;
  const top = wide ? 22 : 20;
  const tall = (i: number): number => (box >= ROOMY ? box : box + LINE * (i === T - 1 ? 2 : 1));
  const rows = [top, top + box + band, top + box + tall(T - 1) + 2 * band] as const;
  const x = (i: number): number => gutter + (i + 0.5) * step;
  const foot = rows[2] + tall(T - 1);
  const height = wide ? foot + 8 : foot + 260;
  const mlp = wide ? { x: width - side + 34, y: 34, w: 150, h: foot - 34 } : { x: 0, y: foot + 36, w: width * 0.42, h: 196 };
  const clock = wide ? { x: width - 250, y: (height - 250) / 2, size: 250 } : { x: width * 0.46, y: foot + 34, size: Math.min(210, width * 0.54) };
  const out = { x: x(T - 1) + box / 2, y: rows[2] + tall(T - 1) / 2 };
  const readers = [...new Set([...positionsOf(prompt, "assigned"), ...prompt.valuePositions])];
  const largest = Math.max(1, ...routes.map((r) => r.effect));
  const since = (stage: number): string => (p.reached === null || stage < p.reached ? "" : stage === p.reached ? "arrives" : "later");
  const chosen = (layer: 1 | 2, query: number): boolean => typeof p.node !== "string" && p.node.layer === layer && p.node.query === query;
  return (
    <svg class="figure circuit" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="The circuit on this prompt: tokens, two attention layers, MLP, answer">
      {(["Tokens", "Layer 1", "Layer 2"] as const).map((name, i) => (
        <text key={name} x={0} y={wide ? rows[i] + box / 2 : rows[i] - 8} class="tick start strong">{name}</text>
      ))}
      {wide && <text x={0} y={rows[1] + box / 2 + 14} class="tick start">what is copied</text>}
      {wide && <text x={0} y={rows[2] + box / 2 + 14} class="tick start">what is fetched</text>}
      {[...readers, T - 1].map((i) => <line key={i} x1={x(i)} x2={x(i)} y1={rows[0] + box} y2={rows[1]} class={`residual ${since(i === T - 1 ? 2 : 1)}`} />)}
      <line x1={x(T - 1)} x2={x(T - 1)} y1={rows[1] + tall(T - 1)} y2={rows[2]} class={`residual ${since(3)}`} />
      <path d={wide ? `M${out.x},${out.y} H${mlp.x}` : `M${x(T - 1)},${foot} V${foot + 18} H${mlp.w / 2} V${mlp.y}`} class={`residual ${since(4)}`} />
      <path d={`M${mlp.x + mlp.w},${mlp.y + mlp.h / 2} H${clock.x + 6}`} class={`residual ${since(5)}`} />
      {[...routes].sort((a, b) => a.effect - b.effect).map((r) => {
        const [y1, y2] = [rows[r.layer - 1] + (r.layer === 1 ? box : tall(r.key)), rows[r.layer]];
        return <Edge key={`${r.layer},${r.query},${r.key}`} route={r} since={since(r.layer === 2 ? 3 : r.query === T - 1 ? 2 : 1)} x1={x(r.key)} x2={x(r.query)} y1={y1} y2={y2} largest={largest} {...p} />;
      })}
      {prompt.tokens.map((_, i) => <Token key={i} prompt={prompt} i={i} x={x(i)} y={rows[0]} box={box} />)}
      {readers.map((i) => (
        <Holder key={i} since={since(1)} prompt={prompt} i={i} x={x(i)} y={rows[1]} box={box} tall={tall(i)} pressed={chosen(1, i)} words={heldBy(snapshot, i)} label={`Layer 1 at ${tokenName(prompt.task, prompt.tokens[i])}: attends most to ${heldBy(snapshot, i)[1]}`} onPress={() => p.onNode({ layer: 1, query: i })} />
      ))}
      <Holder since={since(2)} prompt={prompt} i={T - 1} x={x(T - 1)} y={rows[1]} box={box} tall={tall(T - 1)} pressed={chosen(1, T - 1)} words={["=", ...topTwo(snapshot, 1)]} label={`Layer 1 at =: attends most to ${topTwo(snapshot, 1).join(" and ")}`} onPress={() => p.onNode({ layer: 1, query: T - 1 })} />
      <Holder since={since(3)} prompt={prompt} i={T - 1} x={x(T - 1)} y={rows[2]} box={box} tall={tall(T - 1)} pressed={chosen(2, T - 1)} words={["=", ...topTwo(snapshot, 2)]} label={`Layer 2 at =: attends most to ${topTwo(snapshot, 2).join(" and ")}`} onPress={() => p.onNode({ layer: 2, query: T - 1 })} />
      <g class={`node ${p.node === "mlp" ? "pressed" : ""} ${since(4)}`}>
        <rect x={mlp.x} y={mlp.y} width={mlp.w} height={mlp.h} rx={8} />
        <text x={mlp.x + 8} y={mlp.y - 9} class="tick start strong">MLP: waves add up</text>
        <Waves x={mlp.x + 8} y={mlp.y + 4} width={mlp.w - 16} height={mlp.h - 8} parts={p.parts} answer={snapshot.answer} />
        <rect x={mlp.x} y={mlp.y} width={mlp.w} height={mlp.h} class="press" aria-pressed={p.node === "mlp"} {...pressable("MLP: the neurons' waves on this prompt", () => p.onNode("mlp"))} />
      </g>
      <g class={`node ${p.node === "answer" ? "pressed" : ""} ${since(5)}`}>
        <circle cx={clock.x + clock.size / 2} cy={clock.y + clock.size / 2} r={clock.size / 2 - 1} class="halo" />
        <Clock {...clock} prompt={prompt} answer={snapshot.answer} ghost={p.before} />
        <circle cx={clock.x + clock.size / 2} cy={clock.y + clock.size / 2} r={clock.size / 2 - 1} class="press" aria-pressed={p.node === "answer"} {...pressable(`Answer ${snapshot.answer.prediction} with probability ${percent(snapshot.answer.probabilities[snapshot.answer.prediction])}`, () => p.onNode("answer"))} />
      </g>
    </svg>
  );
}

interface EdgeProps extends Props {
  readonly route: Weighed;
  /** "later" while the computation is shown up to an earlier point, "arrives" where it is new. */
  readonly since: string;
  readonly x1: number;
  readonly x2: number;
  readonly y1: number;
  readonly y2: number;
  readonly largest: number;
}

/** From the key down to the query that attends to it. */
function Edge({ route, since, x1, x2, y1, y2, largest, snapshot, chosen, onRoute, onOver }: EdgeProps) {
  const { prompt } = snapshot.trace;
  const bend = (y2 - y1) * 0.62;
  const d = `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`;
  const isChosen = chosen?.layer === route.layer && chosen.query === route.query && chosen.key === route.key;
  const name = (i: number): string => tokenName(prompt.task, prompt.tokens[i]).replace(".", "PAD");
  const said = `Layer ${route.layer}: ${name(route.query)} at ${route.query} attends to ${name(route.key)} at ${route.key}; weight ${fixed(route.weight, 3)}, effect ${fixed(route.effect, 1)} logits`;
  // At a quarter of the way from the query, where edges into one query are still apart.
  const [vx, vy] = [x1 + (x2 - x1) * 0.84, y1 + (y2 - y1) * 0.75];
  return (
    <g
      class={`edge ${route.why ? roleClass(prompt, route.key) : "stray"} ${isChosen ? "over" : ""} ${since}`}
      data-edge={`${route.layer},${route.query},${route.key}`}
      data-weight={route.weight}
      data-effect={route.effect}
      aria-pressed={isChosen}
      onPointerEnter={() => onOver(route)}
      onPointerLeave={() => onOver(null)}
      onFocus={() => onOver(route)}
      onBlur={() => onOver(null)}
      {...pressable(said, (byKeyboard) => onRoute(route, byKeyboard))}
    >
      <path d={d} class="hit" />
      <path d={d} class="line" style={{ strokeWidth: `${1.2 + WIDEST_EDGE * Math.max(0, route.effect / largest)}px` }} />
      {route.why && <text x={vx} y={vy} class={`verdict ${route.holds ? "holds" : "fails"}`} data-layer={route.layer} data-query={route.query} data-key={route.key}>{route.holds ? "✓" : "✗"}</text>}
    </g>
  );
}

function Token({ prompt, i, x, y, box }: { prompt: Prompt; i: number; x: number; y: number; box: number }) {
  const token = prompt.tokens[i];
  const name = tokenName(prompt.task, token);
  return (
    <g class={`token ${roleClass(prompt, i)} ${hovered.value === name ? "linked" : ""}`} transform={`translate(${x - box / 2},${y})`} onPointerEnter={() => (hovered.value = isVariable(prompt.task, token) ? name : null)} onPointerLeave={() => (hovered.value = null)}>
      <rect width={box} height={box} rx={5} />
      <text x={box / 2} y={box / 2} style={{ fontSize: `${Math.min(15, box * 0.52)}px` }}>{name}</text>
    </g>
  );
}

/** A box can be hit in this width at least, in pixels. */
const TARGET = 24;

interface HolderProps {
  readonly since: string;
  readonly prompt: Prompt;
  readonly i: number;
  readonly x: number;
  readonly y: number;
  readonly box: number;
  readonly tall: number;
  readonly pressed: boolean;
  /** The token, and what it attends to most. */
  readonly words: readonly string[];
  readonly label: string;
  readonly onPress: () => void;
}

/** A position after a layer: its token, and with it what it has read, in a narrow box a word in each line. */
function Holder({ since, prompt, i, x, y, box, tall, pressed, words, label, onPress }: HolderProps) {
  const roomy = box >= ROOMY;
  const [own, ...read] = words;
  const lines = roomy ? [read.join(" ")] : read;
  const size = roomy ? Math.min(11, (1.4 * box) / Math.max(2.6, lines[0].length)) : 9;
  return (
    <g class={`node token ${roleClass(prompt, i)} ${pressed ? "pressed" : ""} ${since}`} transform={`translate(${x - box / 2},${y})`}>
      <rect width={box} height={tall} rx={5} />
      <text x={box / 2} y={box * (roomy ? 0.34 : 0.5)} style={{ fontSize: `${Math.min(13, box * (roomy ? 0.44 : 0.52))}px` }}>{own}</text>
      {lines.map((line, j) => (
        <text key={j} x={box / 2} y={roomy ? box * 0.75 : box + LINE * (j + 0.35)} class="held" style={{ fontSize: `${size}px` }}>{line}</text>
      ))}
      <rect x={Math.min(0, (box - TARGET) / 2)} width={Math.max(box, TARGET)} height={Math.max(tall, TARGET)} class="press" aria-pressed={pressed} {...pressable(label, onPress)} />
    </g>
  );
}

/** A number, and the token that it attends to most in layer 1. */
function heldBy({ trace }: Snapshot, i: number): [string, string] {
  const { task, tokens } = trace.prompt;
  const from = argmax(row(trace.patterns[0], i).subarray(0, i + 1));
  return [tokenName(task, tokens[i]), tokenName(task, tokens[from])];
}

/** The two tokens that `=` attends to most in a layer, in their order. */
function topTwo({ trace }: Snapshot, layer: 1 | 2): string[] {
  const { task, tokens } = trace.prompt;
  const weights = row(trace.patterns[layer - 1], trace.patterns[layer - 1].rows - 1);
  const top = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 2);
  return top.sort((a, b) => a - b).map((i) => tokenName(task, tokens[i]));
}
