/** Adding an intervention, if the network accepts it. */

import { refusal } from "../interventions/refusal";
import { toJson, type Intervention } from "../interventions/specification";
import { describe } from "../interventions/words";
import { announcement, entry, index, intervene, refused, view } from "./store";

export function addIntervention(one: Intervention): void {
  const list = view.value.interventions;
  const isThere = list.some((other) => toJson([other]) === toJson([one]));
  const why = isThere ? "this intervention is in the list already" : refusal(one, entry.value, index.value.models);
  if (why === null) intervene([...list, one]);
  refused.value = why && `Not added (${describe(one)}): ${why}.`;
  announcement.value = refused.value ?? `Added: ${describe(one)}`;
}

/** Whether an intervention is in the list. */
export function isActive(one: Intervention): boolean {
  return view.value.interventions.some((other) => toJson([other]) === toJson([one]));
}

/** Adds it, or takes it back if it is there. */
export function toggleIntervention(one: Intervention): void {
  if (isActive(one)) intervene(view.value.interventions.filter((other) => toJson([other]) !== toJson([one])));
  else addIntervention(one);
}
