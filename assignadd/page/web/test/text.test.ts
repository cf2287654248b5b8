import { expect, test } from "vitest";
import { parse, ParseError, render, renderTokens } from "../src/model/text";
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
