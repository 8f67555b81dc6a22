// Elements moved, repeated or left out: one thread per element of the result.

// `kind` stands for the width of an element only; two more of 8 and 16 bytes stand for several elements that move together.
enum { KIND_8_BYTES = 3, KIND_16_BYTES = 4 };

DEVICE void move(void* out, i64 to, const void* in, i64 from, i32 kind) {
    if (kind == KIND_16_BYTES) ((uint4*)out)[to] = ((const uint4*)in)[from];
    else if (kind == KIND_8_BYTES) ((u64*)out)[to] = ((const u64*)in)[from];
    else store(out, kind, to, load(in, kind, from));
}

#define VIEW_AXES_MAX 8

struct ViewArguments {
    const void* input;
    void* out;
    i32 kind;
    i32 elements;
    i32 offset;
    i32 axes;
    i32 sizes[VIEW_AXES_MAX];
    i32 strides[VIEW_AXES_MAX];
};

KERNEL(tg_view, ViewArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    i32 rest = element;
    i32 source = p.offset;
    for (i32 axis = p.axes - 1; axis >= 0; --axis) {
        const i32 quotient = rest / p.sizes[axis];
        source += (rest - quotient * p.sizes[axis]) * p.strides[axis];
        rest = quotient;
    }
    move(p.out, element, p.input, source, p.kind);
}

struct ConcatArguments {
    const void* input;
    void* out;
    i32 kind;
    i32 elements;
    i32 run;      // contiguous elements of the input
    i32 out_run;  // elements of the result from run to run
    i32 offset;   // where the input's run lies in the result's
};

KERNEL(tg_concat, ConcatArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 outer = element / p.run;
    move(p.out, outer * p.out_run + p.offset + (element - outer * p.run), p.input, element, p.kind);
}

struct PadArguments {
    const void* input;
    void* out;
    i32 kind;
    i32 elements;
    i32 value;
    i32 out_width;
    i32 out_channels;
    i32 height;
    i32 width;
    i32 channels;
    i32 before[3];
};

KERNEL(tg_pad, PadArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 pixel = element / p.out_channels;
    const i32 row = pixel / p.out_width;
    const i32 y = row - p.before[0];
    const i32 x = pixel - row * p.out_width - p.before[1];
    const i32 c = element - pixel * p.out_channels - p.before[2];
    const bool inside = y >= 0 && y < p.height && x >= 0 && x < p.width && c >= 0 && c < p.channels;
    const i32 value = inside ? load(p.input, p.kind, (y * p.width + x) * p.channels + c) : p.value;
    store(p.out, p.kind, element, value);
}

struct GatherArguments {
    const void* input;
    const u32* indices;
    void* out;
    i32 kind;
    i32 elements;
    i32 inner;   // elements of a slice that are contiguous
    i32 length;  // slices of the result
    i32 input_length;
};

KERNEL(tg_gather, GatherArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 slice = element / p.inner;
    const i32 outer = slice / p.length;
    const i32 index = (i32)p.indices[slice - outer * p.length];
    const i32 source = (outer * p.input_length + index) * p.inner + (element - slice * p.inner);
    move(p.out, element, p.input, source, p.kind);
}
