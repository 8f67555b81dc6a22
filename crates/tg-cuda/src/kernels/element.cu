// Element by element: one thread per element.

struct RequantiseArguments {
    const void* input;
    Finish finish;
    i32 kind;
    i32 channels;
    i32 elements;
};

KERNEL(tg_requantise, RequantiseArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    finish(p.finish, element % p.channels, element, load(p.input, p.kind, element));
}

#define TERMS_MAX 8

struct AddArguments {
    const void* inputs[TERMS_MAX];
    i32* out;
    i32 kinds[TERMS_MAX];
    i32 multipliers[TERMS_MAX];
    i32 terms;
    i32 bias;
    i32 elements;
};

KERNEL(tg_add, AddArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    i32 sum = p.bias;
    for (i32 t = 0; t < p.terms; ++t) {
        sum = add32(sum, mul32(p.multipliers[t], load(p.inputs[t], p.kinds[t], element)));
    }
    p.out[element] = sum;
}

// What tg_pairwise computes, as the planner numbers it.
enum { PAIR_MUL, PAIR_GREATER_OF, PAIR_LESSER_OF, PAIR_EQUAL, PAIR_GREATER, PAIR_GREATER_OR_EQUAL, PAIR_SELECT };

struct PairwiseArguments {
    const i8* condition;
    const void* first;
    const void* second;
    void* out;
    i32 operation;
    i32 first_kind;
    i32 second_kind;
    i32 out_kind;
    i32 elements;
};

KERNEL(tg_pairwise, PairwiseArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 a = load(p.first, p.first_kind, element);
    const i32 b = load(p.second, p.second_kind, element);
    i32 value = 0;
    switch (p.operation) {
        case PAIR_MUL: value = mul32(a, b); break;
        case PAIR_GREATER_OF: value = a > b ? a : b; break;
        case PAIR_LESSER_OF: value = a < b ? a : b; break;
        case PAIR_EQUAL: value = a == b; break;
        case PAIR_GREATER: value = a > b; break;
        case PAIR_GREATER_OR_EQUAL: value = a >= b; break;
        default: value = p.condition[element] != 0 ? a : b;
    }
    store(p.out, p.out_kind, element, value);
}

struct EmbedArguments {
    const void* input;
    const i8* weights;
    i8* out;
    i32 kind;
    i32 rows;
    i32 channels;
    i32 elements;
};

KERNEL(tg_embed, EmbedArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 pixel = element / p.channels;
    const i32 index = load(p.input, p.kind, pixel);
    const i32 row = index < 0 ? 0 : index >= p.rows ? p.rows - 1 : index;
    p.out[element] = p.weights[(i64)row * p.channels + (element - pixel * p.channels)];
}

struct PoolArguments {
    const void* input;
    void* out;
    i32 kind;
    i32 is_sum;
    i32 out_width;
    i32 elements;
    Window window;
};

KERNEL(tg_pool, PoolArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 pixel = element / p.window.channels;
    const i32 channel = element - pixel * p.window.channels;
    const i32 y = pixel / p.out_width;
    const i32 y0 = y * p.window.stride_y - p.window.top;
    const i32 x0 = (pixel - y * p.out_width) * p.window.stride_x - p.window.left;
    i32 sum = 0;
    i32 greatest = -32768;
    for (i32 i = 0; i < p.window.kernel_y; ++i) {
        for (i32 j = 0; j < p.window.kernel_x; ++j) {
            const i32 source = source_pixel(p.window, y0, x0, i, j);
            if (source < 0) continue;
            const i32 value = load(p.input, p.kind, source * p.window.channels + channel);
            sum += value;
            greatest = value > greatest ? value : greatest;
        }
    }
    if (p.is_sum) ((i32*)p.out)[element] = sum;
    else store(p.out, p.kind, element, greatest);
}
