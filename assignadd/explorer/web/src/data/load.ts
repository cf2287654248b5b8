/** Scripts that hand over data: a page opened from disk may load scripts, and nothing else. */

import type { Index, ModelData } from "./types";

interface Receiver {
  index(data: Index): void;
  model(key: string, data: ModelData): void;
  weights(key: string, step: number, base64: string): void;
}

declare global {
  // The data files call these.
  var assignadd: Receiver;
}

const waiting = new Map<string, (data: unknown) => void>();

/** Sets the page up to receive data; resolves with the index, which the page itself loads. */
export function receive(): Promise<Index> {
  return new Promise((resolve) => {
    globalThis.assignadd = {
      index: resolve,
      model: (key, data) => waiting.get(`${key}.js`)?.(data),
      weights: (key, step, base64) => waiting.get(weightsFile(key, step))?.(base64),
    };
  });
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
