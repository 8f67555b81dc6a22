// Pictures as inputs of models: decoded and resized in the page.

/** A square picture that a model takes. */
export type Square = { side: number; channels: number };

/** The square of so many values: three channels if that is a square, else one; nothing if neither is. */
export function square(values: number): Square | undefined {
  for (const channels of [3, 1]) {
    const side = Math.sqrt(values / channels);
    if (values % channels === 0 && Number.isInteger(side)) return { side, channels };
  }
  return undefined;
}

/** Values of 0 to 1 of pixels in RGBA, channels first; `inverted` turns light and dark around. */
export function values(data: Uint8ClampedArray, { channels }: Square, inverted: boolean): number[] {
  const pixels = Array.from({ length: data.length / 4 }, (_, at) => [0, 1, 2].map((channel) => {
    // What is transparent is white, as on paper.
    const alpha = (data[4 * at + 3] ?? 255) / 255;
    const value = ((data[4 * at + channel] ?? 0) / 255) * alpha + 1 - alpha;
    return inverted ? 1 - value : value;
  }));
  const rounded = (value: number) => Number(value.toFixed(4));
  if (channels === 1) return pixels.map((rgb) => rounded(rgb.reduce((sum, value) => sum + value, 0) / 3));
  return [0, 1, 2].flatMap((channel) => pixels.map((rgb) => rounded(rgb[channel] ?? 0)));
}

/** Whether the border of a picture with one channel is lighter than its middle: ink on paper, where models of digits know light on dark. */
export function isInk(all: number[], side: number): boolean {
  const border = all.filter((_, at) => at < side || at >= side * (side - 1) || at % side === 0 || at % side === side - 1);
  return border.reduce((sum, value) => sum + value, 0) / border.length > 0.5;
}

/** The pixels of a picture, as large as the model takes them. */
export async function resized(picture: CanvasImageSource & { width: number; height: number }, side: number): Promise<Uint8ClampedArray> {
  // In halves down to the size: one step would skip most pixels of a large picture.
  let source: CanvasImageSource = picture;
  let size = Math.min(1024, Math.max(side, Math.max(picture.width, picture.height)));
  let data: Uint8ClampedArray | undefined;
  for (;;) {
    const canvas = new OffscreenCanvas(size, size);
    const context = canvas.getContext("2d");
    if (!context) throw new SyntaxError("this browser reads no pictures");
    context.imageSmoothingQuality = "high";
    context.drawImage(source, 0, 0, size, size);
    if (size === side) data = context.getImageData(0, 0, side, side).data;
    if (data) return data;
    source = canvas;
    size = Math.max(side, Math.ceil(size / 2));
  }
}

/** Draws values of 0 to 1 on a canvas of their size. */
export function draw(canvas: HTMLCanvasElement, all: number[], { side, channels }: Square) {
  canvas.width = side;
  canvas.height = side;
  const context = canvas.getContext("2d");
  if (!context) return;
  const image = context.createImageData(side, side);
  for (let at = 0; at < side * side; at++) {
    for (let channel = 0; channel < 3; channel++) image.data[4 * at + channel] = 255 * (all[(channels === 3 ? channel * side * side : 0) + at] ?? 0);
    image.data[4 * at + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
