// What every kernel shares. Integers only: no kernel has a float instruction, so that every device gives the bits of
// the scalar semantics. Tensors are at most 2^26 elements, so that element indices fit 32 bits.
//
// The same text is compiled by NVRTC for a device and, in tests, by a C++ compiler behind emulator.h.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifndef TG_EMULATED
#define DEVICE static __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__
#define KERNEL(name, Arguments, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const Arguments p)
#endif

// Element types, as the planner numbers them.
enum { KIND_I8 = 0, KIND_I16 = 1, KIND_I32 = 2 };

DEVICE i32 load(const void* data, i32 kind, i64 index) {
    if (kind == KIND_I8) return ((const i8*)data)[index];
    if (kind == KIND_I16) return ((const i16*)data)[index];
    return ((const i32*)data)[index];
}

DEVICE void store(void* data, i32 kind, i64 index, i32 value) {
    if (kind == KIND_I8) ((i8*)data)[index] = (i8)value;
    else if (kind == KIND_I16) ((i16*)data)[index] = (i16)value;
    else ((i32*)data)[index] = value;
}

// The element of this thread, where one thread computes one element.
DEVICE i32 thread_element() { return (i32)(blockIdx.x * blockDim.x + threadIdx.x); }

// Sums that wrap: a valid program's bounds keep every final value in 32 bits, whatever the partial sums do.
DEVICE i32 add32(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
DEVICE i32 mul32(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }

// (x m + 2^(s-1)) >> s; a pair is m + 2^16 s.
DEVICE i64 rescaled(u32 pair, i64 x) {
    const u32 shift = pair >> 16;
    return (x * (i64)(pair & 0xffff) + ((i64)1 << (shift - 1))) >> shift;
}

// What becomes of a sum: kept, requantised, or both.
struct Finish {
    void* out;         // requantised values, or null
    i32* sums;         // the sums themselves, or null
    const u32* pairs;  // one per channel, or one
    const i16* table;  // entry y - low, or null
    i32 one_pair;
    i32 zero;
    i32 low;
    i32 high;
    i32 out_kind;
    i32 unused;
};

// What no kernel writes while it runs is read by __ldg: the compiler may then read it ahead of earlier stores.
DEVICE u32 pair_of(const Finish& f, i32 channel) { return __ldg(f.pairs + (f.one_pair ? 0 : channel)); }

DEVICE i32 requantised_by(const Finish& f, u32 pair, i32 sum) {
    const i64 scaled = rescaled(pair, sum) + f.zero;
    const i32 y = scaled < f.low ? f.low : scaled > f.high ? f.high : (i32)scaled;
    return f.table ? __ldg(f.table + (y - f.low)) : y;
}

DEVICE i32 requantised(const Finish& f, i32 channel, i32 sum) { return requantised_by(f, pair_of(f, channel), sum); }

DEVICE void finish(const Finish& f, i32 channel, i64 index, i32 sum) {
    if (f.sums) f.sums[index] = sum;
    if (f.out) store(f.out, f.out_kind, index, requantised(f, channel, sum));
}

// A window over an image: tg_ir::Window and the input's shape.
struct Window {
    i32 height;
    i32 width;
    i32 channels;
    i32 kernel_y;
    i32 kernel_x;
    i32 stride_y;
    i32 stride_x;
    i32 top;
    i32 left;
    i32 dilation_y;
    i32 dilation_x;
    i32 spread_y;
    i32 spread_x;
};

// The input pixel at kernel position (i, j) of the window that starts at (y0, x0), or -1 if there is none.
DEVICE i32 source_pixel(const Window& w, i32 y0, i32 x0, i32 i, i32 j) {
    i32 y = y0 + i * w.dilation_y;
    i32 x = x0 + j * w.dilation_x;
    if (y < 0 || x < 0) return -1;
    if (w.spread_y != 1) {
        if (y % w.spread_y) return -1;
        y /= w.spread_y;
    }
    if (w.spread_x != 1) {
        if (x % w.spread_x) return -1;
        x /= w.spread_x;
    }
    return y < w.height && x < w.width ? y * w.width + x : -1;
}

// Reductions over a block of a power of two of threads, at most 256. All threads call them and get the result.
struct Sum {
    DEVICE_METHOD u64 operator()(u64 a, u64 b) const { return a + b; }
};
struct Greatest {
    DEVICE_METHOD u64 operator()(u64 a, u64 b) const { return a > b ? a : b; }
};

template <class Operation>
DEVICE u64 over_block(u64* shared, u64 value, Operation operation) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] = operation(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    const u64 result = shared[0];
    __syncthreads();
    return result;
}

// Order-preserving: a < b exactly if ordered(a) < ordered(b).
DEVICE u32 ordered(i32 value) { return (u32)value ^ 0x80000000u; }
DEVICE i32 unordered(u32 value) { return (i32)(value ^ 0x80000000u); }
