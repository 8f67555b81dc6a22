// The kernels as plain C++, for tests on machines without a GPU: threads of a block are coroutines that run from
// barrier to barrier in an order drawn from a seed, shared memory is filled with noise before each block, and the
// instructions of a warp follow the fragment layouts of NVIDIA's PTX manual. A barrier that not all threads reach is
// an error, as is a misaligned address.
//
// TENSOR_CORES (0 or 1) chooses between the two ways to multiply tiles.

#define TG_EMULATED
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

#define DEVICE static inline __attribute__((unused))
#define DEVICE_METHOD
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("tg_shared")))
#define KERNEL(name, Arguments, threads)                                             \
    static void name##_body(const Arguments& p);                                     \
    extern "C" void name(const void* blob) { name##_body(*(const Arguments*)blob); } \
    static void name##_body(const Arguments& p)

struct __attribute__((aligned(16))) uint4 {
    unsigned x, y, z, w;
};

struct Index {
    unsigned x, y, z;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

extern "C" char __start_tg_shared[];
extern "C" char __stop_tg_shared[];

namespace emulator {
enum State { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };
constexpr int THREADS_MAX = 1024;
constexpr int STACK = 64 * 1024;

struct Fiber {
    ucontext_t context;
    State state;
    unsigned operations;
};

struct WarpArea {
    unsigned a[32][4];
    unsigned b[32][2];
    const unsigned char* row[32];
    int value[32];
};

static Fiber fibers[THREADS_MAX];
static WarpArea areas[THREADS_MAX / 32][2];
static ucontext_t scheduler;
static int current;
static void (*body)(const void*);
static const void* arguments;
static uint64_t noise;

static uint64_t next_noise() {
    noise += 0x9e3779b97f4a7c15ull;
    uint64_t a = (noise ^ (noise >> 30)) * 0xbf58476d1ce4e5b9ull;
    a = (a ^ (a >> 27)) * 0x94d049bb133111ebull;
    return a ^ (a >> 31);
}

static void wait(State state) {
    Fiber& fiber = fibers[current];
    fiber.state = state;
    swapcontext(&fiber.context, &scheduler);
}

static void run_thread() {
    body(arguments);
    wait(DONE);
}

// The area of this warp for its next operation. Two alternate: nobody is two operations ahead of another lane.
static WarpArea& next_area() { return areas[current / 32][fibers[current].operations++ % 2]; }

// Runs one block; false if its threads wait for each other in vain.
static bool run_block(int count) {
    static char* stacks = (char*)malloc((size_t)THREADS_MAX * STACK);
    for (char* byte = __start_tg_shared; byte < __stop_tg_shared; ++byte) *byte = (char)next_noise();
    for (int i = 0; i < count; ++i) {
        Fiber& fiber = fibers[i];
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        fiber.state = READY;
        fiber.operations = 0;
        makecontext(&fiber.context, run_thread, 0);
    }
    int order[THREADS_MAX];
    for (int i = 0; i < count; ++i) order[i] = i;
    for (int i = count - 1; i > 0; --i) {
        const int j = (int)(next_noise() % (uint64_t)(i + 1));
        const int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (;;) {
        for (int i = 0; i < count; ++i) {
            if (fibers[order[i]].state != READY) continue;
            current = order[i];
            threadIdx.x = (unsigned)current;
            swapcontext(&scheduler, &fibers[current].context);
        }
        int done = 0, at_block = 0;
        bool released = false;
        for (int i = 0; i < count; ++i) {
            done += fibers[i].state == DONE;
            at_block += fibers[i].state == AT_BLOCK_BARRIER;
        }
        if (done == count) return true;
        if (at_block == count) {
            for (int i = 0; i < count; ++i) fibers[i].state = READY;
            continue;
        }
        for (int warp = 0; warp + 32 <= count; warp += 32) {
            int waiting = 0;
            for (int i = 0; i < 32; ++i) waiting += fibers[warp + i].state == AT_WARP_BARRIER;
            if (waiting != 32) continue;
            for (int i = 0; i < 32; ++i) fibers[warp + i].state = READY;
            released = true;
        }
        if (!released) return false;
    }
}

static int byte_of(unsigned word, int index, bool is_signed) {
    const unsigned byte = (word >> (8 * index)) & 0xff;
    return is_signed ? (int)(signed char)byte : (int)byte;
}
}  // namespace emulator

static inline void __syncthreads() { emulator::wait(emulator::AT_BLOCK_BARRIER); }

template <class T>
DEVICE T __ldg(const T* place) {
    return *place;
}

// Blocks run one after the other.
static inline void __threadfence() {}
static inline unsigned atomicAdd(unsigned* place, unsigned value) {
    const unsigned before = *place;
    *place += value;
    return before;
}

static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (unsigned)(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
    return result;
}

template <bool A_SIGNED, bool B_SIGNED>
DEVICE int dot4(unsigned a, unsigned b, int c) {
    unsigned sum = (unsigned)c;
    for (int i = 0; i < 4; ++i) {
        sum += (unsigned)(emulator::byte_of(a, i, A_SIGNED) * emulator::byte_of(b, i, B_SIGNED));
    }
    return (int)sum;
}

DEVICE int exchanged(int value, int lane_mask) {
    emulator::WarpArea& area = emulator::next_area();
    const int lane = emulator::current % 32;
    area.value[lane] = value;
    emulator::wait(emulator::AT_WARP_BARRIER);
    return area.value[lane ^ lane_mask];
}

// PTX manual, ldmatrix .x4 .b16: lane l addresses row l % 8 of matrix l / 8, and gets bytes 4 (l % 4) to 4 (l % 4) + 3
// of row l / 4 of each matrix.
DEVICE void load_matrices(unsigned (&r)[4], const unsigned char* row) {
    emulator::WarpArea& area = emulator::next_area();
    const int lane = emulator::current % 32;
    if ((uintptr_t)row % 16 != 0) abort();
    area.row[lane] = row;
    emulator::wait(emulator::AT_WARP_BARRIER);
    for (int matrix = 0; matrix < 4; ++matrix) {
        memcpy(&r[matrix], area.row[8 * matrix + lane / 4] + 4 * (lane % 4), 4);
    }
}

// PTX manual, mma.m16n8k32 with 8-bit types. Byte i of a lane's fragment of a (register i / 4) is at row lane / 4, plus
// 8 for i in 4..8 and 12..16, and column 4 (lane % 4) + i % 4, plus 16 for i >= 8. Byte i of b is at row
// 4 (lane % 4) + i % 4, plus 16 for i >= 4, and column lane / 4. Sum i of c is at row lane / 4, plus 8 for i >= 2, and
// column 2 (lane % 4) + i % 2.
template <bool A_SIGNED, bool B_SIGNED>
DEVICE void multiply(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulator::WarpArea& area = emulator::next_area();
    const int lane = emulator::current % 32;
    memcpy(area.a[lane], a, sizeof a);
    area.b[lane][0] = b0;
    area.b[lane][1] = b1;
    emulator::wait(emulator::AT_WARP_BARRIER);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + 8 * (i / 2);
        const int column = 2 * (lane % 4) + i % 2;
        unsigned sum = (unsigned)c[i];
        for (int k = 0; k < 32; ++k) {
            const unsigned left = area.a[row % 8 * 4 + k % 16 / 4][row / 8 + 2 * (k / 16)];
            const unsigned right = area.b[column * 4 + k % 16 / 4][k / 16];
            const int x = emulator::byte_of(left, k % 4, A_SIGNED);
            const int y = emulator::byte_of(right, k % 4, B_SIGNED);
            sum += (unsigned)(x * y);
        }
        c[i] = (int)sum;
    }
}

// Runs a grid of blocks. 0 if all threads came to their end.
extern "C" int tg_launch(void (*kernel)(const void*), const unsigned* grid, unsigned threads, uint64_t seed,
                         const void* blob) {
    emulator::body = kernel;
    emulator::arguments = blob;
    emulator::noise = seed;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads, 1, 1};
    threadIdx = {0, 0, 0};
    for (unsigned z = 0; z < grid[2]; ++z) {
        for (unsigned y = 0; y < grid[1]; ++y) {
            for (unsigned x = 0; x < grid[0]; ++x) {
                blockIdx = {x, y, z};
                if (!emulator::run_block((int)threads)) return 1;
            }
        }
    }
    return 0;
}
