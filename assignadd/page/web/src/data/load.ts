/** Scripts that hand over data: a page opened from disk may load scripts, and nothing else. */

import { asked } from "../model/padding";
import { decodeTask, type TaskFile } from "./decode";
import type { Index, ModelData, ModelEntry, Telling } from "./types";

/** The index as its file has it: models name their task by its number, and prompts may be lists of tokens. */
type IndexFile = Omit<Index, "models"> & {
  readonly tasks: readonly TaskFile[];
  readonly models: readonly (Omit<ModelEntry, "task" | "telling"> & { readonly task: number; readonly telling: Readonly<Record<Telling, string | null>> })[];
};

interface Receiver {
  index(data: IndexFile): void;
  model(key: string, data: ModelData): void;
  weights(key: string, step: number, base64: string): void;
}

declare global {
  // The data files call these.
  var assignadd: Receiver;
}

const waiting = new Map<string, (data: unknown) => void>();

/** What the data files look like; those of another format were written for another page. */
const FORMAT = 3;

/** Sets the page up to receive data; resolves with the index, which the page itself loads, or null if it is not this page's. */
export function receive(): Promise<Index | null> {
  return new Promise((resolve) => {
    globalThis.assignadd = {
      index: (file) => resolve(file.format === FORMAT && file.models.length ? withTasks(file) : null),
      model: (key, data) => waiting.get(`${key}.js`)?.(data),
      weights: (key, step, base64) => waiting.get(weightsFile(key, step))?.(base64),
    };
  });
}

function withTasks({ tasks, models, ...rest }: IndexFile): Index {
  const decoded = tasks.map(decodeTask);
  return {
    ...rest,
    models: models.map((m) => {
      const task = decoded[m.task];
      const prompt = (text: string | null) => (text === null ? null : asked(text, task));
      return { ...m, task, telling: { first: prompt(m.telling.first), second: prompt(m.telling.second), end: prompt(m.telling.end) } };
    }),
  };
}

export function loadModel(key: string): Promise<ModelData> {
  return load(`${key}.js`) as Promise<ModelData>;
}

export function loadWeights(key: string, step: number): Promise<string> {
  return load(weightsFile(key, step)) as Promise<string>;
}

function weightsFile(key: string, step: number): string {
  return `${key}/${String(step).padStart(8, "0")}.js`;
}

function load(file: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const finish = (): void => {
      waiting.delete(file);
      script.remove();
    };
    waiting.set(file, (data) => {
      finish();
      resolve(data);
    });
    script.onerror = () => {
      finish();
      reject(new Error(`data/${file} could not be loaded`));
    };
    script.src = `data/${file}`;
    document.head.append(script);
  });
}
