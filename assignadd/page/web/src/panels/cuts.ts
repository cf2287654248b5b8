/** An edge of one prompt as a cut, its ends named by their roles where they have one. */

import type { Cut } from "../interventions/specification";
import { positionsOf, SINGLE_ROLES, type Place, type Prompt } from "../model/prompt";

export function cutOf(prompt: Prompt, { layer, query, key }: { layer: 1 | 2; query: number; key: number }): Cut {
  return { action: "cut", layer, query: placeAt(prompt, query), key: placeAt(prompt, key) };
}

function placeAt(prompt: Prompt, position: number): Place {
  return SINGLE_ROLES.find((role) => positionsOf(prompt, role).includes(position)) ?? position;
}
