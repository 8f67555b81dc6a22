// Reductions: one block per row of the input (the channels of a pixel), and decision trees.

#define ROW_THREADS 256

struct ReduceArguments {
    const void* input;
    void* out;
    i32 kind;
    i32 operation;  // 0 sum, 1 greatest, 2 least
    i32 length;
    i32 inner;  // elements from one to the next along the axis
    i32 elements;
};

DEVICE i32 combined(i32 operation, i32 a, i32 b) {
    if (operation == 0) return add32(a, b);
    if (operation == 1) return a > b ? a : b;
    return a < b ? a : b;
}

// Along rows or columns: one thread per element of the result.
KERNEL(tg_reduce, ReduceArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 outer = element / p.inner;
    const i64 first = (i64)outer * p.length * p.inner + (element - outer * p.inner);
    i32 value = load(p.input, p.kind, first);
    for (i32 l = 1; l < p.length; ++l) {
        value = combined(p.operation, value, load(p.input, p.kind, first + (i64)l * p.inner));
    }
    store(p.out, p.operation == 0 ? KIND_I32 : p.kind, element, value);
}

// Along channels: one block per element of the result.
KERNEL(tg_reduce_row, ReduceArguments, ROW_THREADS) {
    __shared__ u64 shared[ROW_THREADS];
    const i32 row = (i32)blockIdx.x;
    const i64 first = (i64)row * p.length;
    u64 mine = 0;
    for (i32 c = (i32)threadIdx.x; c < p.length; c += (i32)blockDim.x) {
        const i32 value = load(p.input, p.kind, first + c);
        if (p.operation == 0) {
            mine += (u64)(i64)value;
        } else {
            const u64 key = (u64)(p.operation == 1 ? ordered(value) : ~ordered(value)) + 1;
            mine = key > mine ? key : mine;
        }
    }
    const u64 all = p.operation == 0 ? over_block(shared, mine, Sum()) : over_block(shared, mine, Greatest());
    if (threadIdx.x != 0) return;
    if (p.operation == 0) {
        ((i32*)p.out)[row] = (i32)(u32)all;
    } else {
        const u32 key = (u32)(all - 1);
        store(p.out, p.kind, row, unordered(p.operation == 1 ? key : ~key));
    }
}

struct RunningSumArguments {
    const void* input;
    i32* out;
    i32 kind;
    i32 length;
    i32 inner;  // elements from one to the next along the axis
    i32 lines;  // elements of the result by length
};

// One thread per line along the axis.
KERNEL(tg_running_sum, RunningSumArguments, 256) {
    const i32 line = thread_element();
    if (line >= p.lines) return;
    const i32 outer = line / p.inner;
    i64 at = (i64)outer * p.length * p.inner + (line - outer * p.inner);
    i32 sum = 0;
    for (i32 l = 0; l < p.length; ++l, at += p.inner) {
        sum = add32(sum, load(p.input, p.kind, at));
        p.out[at] = sum;
    }
}

struct RankArguments {
    const void* input;
    void* out;
    i32 kind;
    i32 channels;
    i32 ranks;
    i32 give_channels;
};

// The greatest elements of a row in descending order, equal ones by channel: each round takes the greatest key below
// the one before; a key is the element, then the channel in descending order.
KERNEL(tg_rank, RankArguments, ROW_THREADS) {
    __shared__ u64 shared[ROW_THREADS];
    const i64 row = (i64)blockIdx.x;
    u64 below = ~(u64)0;
    for (i32 rank = 0; rank < p.ranks; ++rank) {
        u64 mine = 0;
        for (i32 c = (i32)threadIdx.x; c < p.channels; c += (i32)blockDim.x) {
            const i32 value = load(p.input, p.kind, row * p.channels + c);
            const u64 key = ((u64)ordered(value) << 32) | (u32)~c;
            if (key < below && key > mine) mine = key;
        }
        below = over_block(shared, mine, Greatest());
        if (threadIdx.x != 0) continue;
        const i32 channel = (i32)~(u32)below;
        if (p.give_channels) ((i32*)p.out)[row * p.ranks + rank] = channel;
        else store(p.out, p.kind, row * p.ranks + rank, unordered((u32)(below >> 32)));
    }
}

struct SoftmaxArguments {
    const void* input;
    const u16* table;
    i16* out;
    i32 kind;
    i32 channels;
    i32 width;
    i32 entries;
    i32 pair;
    i32 causal;  // -1: no mask
};

DEVICE u32 exponential(const SoftmaxArguments& p, i32 distance) {
    const i64 index = rescaled((u32)p.pair, distance);
    return __ldg(p.table + (index < p.entries - 1 ? (i32)index : p.entries - 1));
}

#define SOFTMAX_KEPT 8

KERNEL(tg_softmax, SoftmaxArguments, ROW_THREADS) {
    __shared__ u64 shared[ROW_THREADS];
    const i32 pixel = (i32)blockIdx.x;
    const i64 first = (i64)pixel * p.channels;
    i32 part = p.channels;
    if (p.causal >= 0) {
        const i32 reach = pixel % p.width + p.causal + 1;
        part = reach < part ? reach : part;
    }
    // A thread keeps its first elements, and reads the others of a long row again.
    i32 kept[SOFTMAX_KEPT];
    const i32 start = (i32)threadIdx.x;
    const i32 step = (i32)blockDim.x;
    u64 mine = 0;
#pragma unroll
    for (i32 i = 0; i < SOFTMAX_KEPT; ++i) {
        const i32 c = start + i * step;
        if (c >= part) continue;
        kept[i] = load(p.input, p.kind, first + c);
        const u64 key = ordered(kept[i]);
        mine = key > mine ? key : mine;
    }
    for (i32 c = start + SOFTMAX_KEPT * step; c < part; c += step) {
        const u64 key = ordered(load(p.input, p.kind, first + c));
        mine = key > mine ? key : mine;
    }
    const i32 greatest = unordered((u32)over_block(shared, mine, Greatest()));
    mine = 0;
#pragma unroll
    for (i32 i = 0; i < SOFTMAX_KEPT; ++i) {
        if (start + i * step >= part) continue;
        kept[i] = (i32)exponential(p, greatest - kept[i]);
        mine += (u32)kept[i];
    }
    for (i32 c = start + SOFTMAX_KEPT * step; c < part; c += step) {
        mine += exponential(p, greatest - load(p.input, p.kind, first + c));
    }
    // At most 2^30, so that 32,767^2 + sum / 2 fits 32 bits.
    const u32 sum = (u32)over_block(shared, mine, Sum());
#pragma unroll
    for (i32 i = 0; i < SOFTMAX_KEPT; ++i) {
        const i32 c = start + i * step;
        if (c >= p.channels) continue;
        p.out[first + c] = (i16)(c < part ? ((u32)kept[i] * 32767u + sum / 2) / sum : 0);
    }
    for (i32 c = start + SOFTMAX_KEPT * step; c < p.channels; c += step) {
        u32 value = 0;
        if (c < part) value = (exponential(p, greatest - load(p.input, p.kind, first + c)) * 32767u + sum / 2) / sum;
        p.out[first + c] = (i16)value;
    }
}

struct NormArguments {
    const void* input;
    i16* out;
    i32 kind;
    i32 channels;
    i32 centred;
    i32 precision;
    i32 fraction;
    u32 epsilon_low;
    u32 epsilon_high;
};

// The least r with r^2 > v, for v < 2^62.
DEVICE i64 root_above(u64 v) {
    u64 root = 0;
    for (i32 bit = 30; bit >= 0; --bit) {
        const u64 next = root | ((u64)1 << bit);
        if (next * next <= v) root = next;
    }
    return (i64)root + 1;
}

// floor(a / b) for b > 0.
DEVICE i64 floor_divided(i64 a, i64 b) {
    const i64 quotient = a / b;
    return quotient * b > a ? quotient - 1 : quotient;
}

KERNEL(tg_norm, NormArguments, ROW_THREADS) {
    __shared__ u64 shared[ROW_THREADS];
    const i64 first = (i64)blockIdx.x * p.channels;
    u64 mine = 0;
    u64 my_squares = 0;
    for (i32 c = (i32)threadIdx.x; c < p.channels; c += (i32)blockDim.x) {
        const i64 x = load(p.input, p.kind, first + c);
        mine += (u64)x;
        my_squares += (u64)(x * x);
    }
    const i64 total = (i64)over_block(shared, mine, Sum());
    const i64 squares = (i64)over_block(shared, my_squares, Sum());
    const i64 n = p.channels;
    const i64 sum = p.centred ? total : 0;
    const u64 epsilon = (u64)p.epsilon_high << 32 | p.epsilon_low;
    const u64 variance = (u64)(n * squares - sum * sum) + epsilon;
    const i64 root = root_above(variance << (2 * p.precision));
    const i64 unit = (i64)1 << (p.precision + p.fraction);
    for (i32 c = (i32)threadIdx.x; c < p.channels; c += (i32)blockDim.x) {
        const i64 centred = n * load(p.input, p.kind, first + c) - sum;
        p.out[first + c] = (i16)floor_divided(centred * unit + root / 2, root);
    }
}

// A child is a branch, or a leaf if the highest bit is set.
struct Branch {
    u16 feature;
    i16 threshold;
    u32 below;
    u32 above;
};
#define LEAF 0x80000000u

struct LeafArguments {
    const void* input;
    const Branch* branches;
    const u32* roots;
    i32* leaf_of;
    i32 kind;
    i32 trees;
};

// The leaf of each tree that the input falls into: one thread per tree.
KERNEL(tg_tree_leaves, LeafArguments, 256) {
    const i32 tree = thread_element();
    if (tree >= p.trees) return;
    u32 at = p.roots[tree];
    while (!(at & LEAF)) {
        const Branch branch = p.branches[at];
        at = load(p.input, p.kind, branch.feature) <= branch.threshold ? branch.below : branch.above;
    }
    p.leaf_of[tree] = (i32)(at & ~LEAF);
}

struct TreeSumArguments {
    const i32* leaf_of;
    const i32* leaves;
    const i32* bias;
    i32* out;
    i32 trees;
    i32 outputs;
};

// The sum over trees: one block per output.
KERNEL(tg_tree_sums, TreeSumArguments, ROW_THREADS) {
    __shared__ u64 shared[ROW_THREADS];
    const i32 output = (i32)blockIdx.x;
    u64 mine = 0;
    for (i32 tree = (i32)threadIdx.x; tree < p.trees; tree += (i32)blockDim.x) {
        mine += (u64)(i64)p.leaves[(i64)p.leaf_of[tree] * p.outputs + output];
    }
    const u64 sum = over_block(shared, mine, Sum());
    if (threadIdx.x == 0) p.out[output] = add32((i32)(u32)sum, p.bias[output]);
}
