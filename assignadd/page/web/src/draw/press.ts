/** What makes a part of a figure a button, for pointer, keyboard and reader; a part without text, whose name is its label. */

export function pressable(label: string, onPress: (byKeyboard: boolean) => void) {
  return {
    // In SVG the attribute is spelt in lower case.
    tabindex: 0,
    role: "button" as const,
    "aria-label": label,
    onClick: () => onPress(false),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onPress(true);
    },
  };
}
