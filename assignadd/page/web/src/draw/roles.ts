/** Which colour a token has everywhere: that of the operand it belongs to. */

import { operandSlots, positionsOf, type Prompt, type Role } from "../model/prompt";

const FIRST: readonly Role[] = ["first", "first_value", "first_variable"];
const SECOND: readonly Role[] = ["second", "second_value", "second_variable"];

export function roleClass(prompt: Prompt, i: number): string {
  const of = (roles: readonly Role[]): boolean => roles.some((r) => positionsOf(prompt, r).includes(i));
  if (of(FIRST)) return "role-first";
  if (of(SECOND)) return "role-second";
  if (of(["pads"])) return "role-pad";
  return i >= operandSlots(prompt.task)[0] - 1 ? "role-sign" : "role-other";
}
