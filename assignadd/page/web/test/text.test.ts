import { expect, test } from "vitest";
import { asked, paddingOf } from "../src/model/padding";
import { parse, ParseError, render, renderTokens, withAssignment } from "../src/model/text";
import { numbers } from "./numbers";

const { task } = numbers;

test.each(numbers.texts.map((t) => [t.text, t] as const))("%j reads as in the package", (text, wanted) => {
  try {
    const tokens = parse(text, task);
    expect(tokens).toEqual(wanted.tokens);
    expect(render(tokens, task)).toBe(wanted.text_form);
    expect(renderTokens(tokens, task)).toBe(wanted.token_form);
    expect(parse(wanted.token_form ?? "", task)).toEqual(tokens);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    expect({ column: error.column, expected: error.expected }).toEqual({ column: wanted.column, expected: wanted.expected });
  }
});

test.each(Object.entries(numbers.bare))("%j alone reads as in the package", (text, wanted) => {
  expect(withAssignment(text, task)).toBe(wanted);
});

test("a list of tokens in the text form is the same prompt, PADs and all", () => {
  for (const tokens of numbers.prompts) {
    const { text, padding } = asked(renderTokens(tokens, task), task);
    expect(text).toBe(render(tokens, task));
    expect(parse(text, task, paddingOf(padding))).toEqual(tokens);
  }
  for (const text of ["c=1, c+2=?", "c 1 . +", "", "17+19=?"]) expect(asked(text, task)).toEqual({ text, padding: 0 });
});
