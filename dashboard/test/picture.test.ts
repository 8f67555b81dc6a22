import assert from "node:assert/strict";
import { test } from "node:test";
import { isInk, square, values } from "../src/picture.ts";

test("a model takes a square picture, in colour if that fits", () => {
  assert.deepEqual(square(784), { side: 28, channels: 1 });
  assert.deepEqual(square(3 * 32 * 32), { side: 32, channels: 3 });
  assert.equal(square(10), undefined);
});

test("pixels are values of 0 to 1, channels first, and what is transparent is paper", () => {
  const pixels = new Uint8ClampedArray([255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 9, 9, 9, 0]);
  assert.deepEqual(values(pixels, { side: 2, channels: 3 }, false), [1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
  assert.deepEqual(values(pixels, { side: 2, channels: 1 }, false), [0.3333, 0.3333, 0.3333, 1]);
  assert.deepEqual(values(pixels, { side: 2, channels: 1 }, true), [0.6667, 0.6667, 0.6667, 0]);
});

test("ink on paper has a light border", () => {
  const dark = [0, 0, 0, 0, 1, 0, 0, 0, 0];
  assert.equal(isInk(dark, 3), false);
  assert.equal(isInk(dark.map((value) => 1 - value), 3), true);
});
