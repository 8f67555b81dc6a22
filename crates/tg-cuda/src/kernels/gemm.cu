// Matrix products: convolution (an implicit product over windows), batches of matrices, dense layers.
//
// sum(z, m, n) = bias + sum over k of a(z, m, k) b(z, n, k). A 16-bit element x = 256 h + l is two bytes, h signed and
// l not; the products of the bytes are added in order of weight, most significant first, with the sum shifted by 8
// bits in between. Sums wrap modulo 2^32 and are right in the end, because the final sum fits.

struct GemmArguments {
    const u8* a;
    const u8* b;
    const i32* bias;  // or null
    Finish finish;
    i32* parts;    // sums over parts of k, a block of them after the other; null if there is one part
    u32* arrived;  // how many parts of a block are there, zero before and after
    i32 splits;    // parts of k
    i32 rows;     // m
    i32 columns;  // n
    i32 depth;    // k
    i32 batches;  // z: groups of a convolution, or matrices
    i32 a_kind;
    i32 a_row;    // elements from row to row (matrices)
    i32 a_batch;  // elements from batch to batch
    i32 a_wide;   // whether runs of 16 elements along k are contiguous, aligned and whole
    i32 a_fill;   // what a window reads where it has no source
    i32 b_kind;
    i32 b_row;    // elements from row n to row n + 1, or from k to k + 1 if across
    i32 b_batch;
    i32 b_wide;  // the same for b along k, or along n if across
    i32 b_repeat;  // batches of a per batch of b
    i32 b_across;  // whether b is stored [k][n] instead of [n][k]
    i32 out_row;
    i32 out_batch;
    i32 channel_batch;
    i32 out_width;  // pixels of an output row (windows)
    i32 is_window;
    i32 group_channels;
    Window window;
};

// Bytes from row to row of a tile of 64 in shared memory: 16-byte aligned, and eight rows touch all 32 banks once.
#define TILE_DEPTH 64
#define TILE_STRIDE 80

DEVICE u32 plane_of(i32 value, i32 plane) { return ((u32)value >> (8 * plane)) & 0xff; }

// One byte plane of 16 contiguous elements.
DEVICE uint4 load_run(const u8* data, i32 kind, i64 index, i32 plane) {
    if (kind == KIND_I8) return *(const uint4*)(data + index);
    const uint4* words = (const uint4*)(data + 2 * index);
    const uint4 first = words[0];
    const uint4 second = words[1];
    const u32 select = plane ? 0x7531 : 0x6420;
    uint4 run;
    run.x = __byte_perm(first.x, first.y, select);
    run.y = __byte_perm(first.z, first.w, select);
    run.z = __byte_perm(second.x, second.y, select);
    run.w = __byte_perm(second.z, second.w, select);
    return run;
}

DEVICE uint4 splat(u32 byte) {
    const u32 word = byte * 0x01010101u;
    uint4 run;
    run.x = word;
    run.y = word;
    run.z = word;
    run.w = word;
    return run;
}

DEVICE uint4 packed(const u32 (&words)[4]) {
    uint4 run;
    run.x = words[0];
    run.y = words[1];
    run.z = words[2];
    run.w = words[3];
    return run;
}

// A row m of a: the start of its elements, or of its window.
struct Row {
    bool inside;
    i32 start;
    i32 y0;
    i32 x0;
};

DEVICE Row row_of(const GemmArguments& p, i32 m) {
    Row row;
    row.inside = m < p.rows;
    row.start = m * p.a_row;
    const i32 y = m / p.out_width;
    row.y0 = y * p.window.stride_y - p.window.top;
    row.x0 = (m - y * p.out_width) * p.window.stride_x - p.window.left;
    return row;
}

DEVICE i32 source_at(const GemmArguments& p, const Row& row, i32 position) {
    const i32 i = position / p.window.kernel_x;
    return source_pixel(p.window, row.y0, row.x0, i, position - i * p.window.kernel_x);
}

// One byte plane of a(m, k0 .. k0 + 16); zeros beyond the last row and k. GATHER: not all runs are contiguous.
template <bool GATHER>
DEVICE uint4 load_a(const GemmArguments& p, const u8* a, const Row& row, i32 k0, i32 plane) {
    if (!row.inside || k0 >= p.depth) return splat(0);
    u32 words[4] = {0, 0, 0, 0};
    if (!p.is_window) {
        if (!GATHER || p.a_wide) return load_run(a, p.a_kind, row.start + k0, plane);
#pragma unroll 1
        for (i32 j = 0; j < 16 && k0 + j < p.depth; ++j) {
            words[j / 4] |= plane_of(load(a, p.a_kind, row.start + k0 + j), plane) << (8 * (j % 4));
        }
        return packed(words);
    }
    i32 position = k0 / p.group_channels;
    i32 channel = k0 - position * p.group_channels;
    i32 source = source_at(p, row, position);
    if (!GATHER || p.a_wide) {
        if (source < 0) return splat(plane_of(p.a_fill, plane));
        return load_run(a, p.a_kind, source * p.window.channels + channel, plane);
    }
#pragma unroll 1
    for (i32 j = 0; j < 16 && k0 + j < p.depth; ++j) {
        const i32 value = source < 0 ? p.a_fill : load(a, p.a_kind, source * p.window.channels + channel);
        words[j / 4] |= plane_of(value, plane) << (8 * (j % 4));
        if (++channel == p.group_channels) {
            channel = 0;
            ++position;
            if (k0 + j + 1 < p.depth) source = source_at(p, row, position);
        }
    }
    return packed(words);
}

// Sixteen bytes of neighbouring rows, each to its own row of a tile.
DEVICE void store_across(u8* place, uint4 run) {
    const u32 words[4] = {run.x, run.y, run.z, run.w};
#pragma unroll
    for (i32 i = 0; i < 16; ++i) place[i * TILE_STRIDE] = (u8)(words[i / 4] >> (8 * (i % 4)));
}

// One byte plane of b(n, k0 .. k0 + 16), or of b(n .. n + 16, k0) where runs lie along n; zeros beyond the last row and k.
template <bool GATHER>
DEVICE uint4 load_b(const GemmArguments& p, const u8* b, i32 n, i32 k0, i32 plane) {
    if (n >= p.columns || k0 >= p.depth) return splat(0);
    if (!GATHER && p.b_across) return load_run(b, p.b_kind, (i64)k0 * p.b_row + n, plane);
    if (!GATHER || (p.b_wide && !p.b_across)) return load_run(b, p.b_kind, (i64)n * p.b_row + k0, plane);
    u32 words[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (i32 j = 0; j < 16 && k0 + j < p.depth; ++j) {
        const i64 index = p.b_across ? (i64)(k0 + j) * p.b_row + n : (i64)n * p.b_row + k0 + j;
        words[j / 4] |= plane_of(load(b, p.b_kind, index), plane) << (8 * (j % 4));
    }
    return packed(words);
}

// Adds the product of two tiles in shared memory to a warp's sums. Sum c of tile (i, j) is at row 16 i + lane / 4 +
// 8 (c / 2) and column 8 j + 2 (lane % 4) + c % 2: the layout of the tensor core's accumulators.
template <int TILES_M, int TILES_N, bool A_SIGNED, bool B_SIGNED>
DEVICE void multiply_tile(i32 (&sums)[TILES_M][TILES_N][4], const u8* a, const u8* b) {
    const i32 lane = (i32)(threadIdx.x % 32);
#pragma unroll
    for (i32 step = 0; step < TILE_DEPTH; step += 32) {
#if TENSOR_CORES
        const i32 matrix = lane / 8;
        u32 left[TILES_M][4];
#pragma unroll
        for (i32 i = 0; i < TILES_M; ++i) {
            const i32 row = 16 * i + (matrix % 2) * 8 + lane % 8;
            load_matrices(left[i], a + row * TILE_STRIDE + step + (matrix / 2) * 16);
        }
#pragma unroll
        for (i32 j = 0; j < TILES_N; j += 2) {
            u32 right[4];
            const i32 row = 8 * j + (matrix / 2) * 8 + lane % 8;
            load_matrices(right, b + row * TILE_STRIDE + step + (matrix % 2) * 16);
#pragma unroll
            for (i32 i = 0; i < TILES_M; ++i) {
                multiply<A_SIGNED, B_SIGNED>(sums[i][j], left[i], right[0], right[1]);
                multiply<A_SIGNED, B_SIGNED>(sums[i][j + 1], left[i], right[2], right[3]);
            }
        }
#else
        for (i32 word = 0; word < 32; word += 4) {
#pragma unroll
            for (i32 i = 0; i < TILES_M; ++i) {
#pragma unroll
                for (i32 j = 0; j < TILES_N; ++j) {
#pragma unroll
                    for (i32 c = 0; c < 4; ++c) {
                        const i32 row = 16 * i + lane / 4 + 8 * (c / 2);
                        const i32 column = 8 * j + 2 * (lane % 4) + c % 2;
                        const u32 x = *(const u32*)(a + row * TILE_STRIDE + step + word);
                        const u32 y = *(const u32*)(b + column * TILE_STRIDE + step + word);
                        sums[i][j][c] = dot4<A_SIGNED, B_SIGNED>(x, y, sums[i][j][c]);
                    }
                }
            }
        }
#endif
    }
}

// Brings together what blocks have summed over parts of k: each writes its sums, and the last one to arrive adds them all.
// The sums of integers are the same in any order. `earlier` is shared. False for a block that is not the last one.
template <i32 ELEMENTS, i32 THREADS, i32 SUMS>
DEVICE bool gathered(const GemmArguments& p, i32 z, i32 split, i32 (&sums)[SUMS], u32* earlier) {
    const i32 thread = (i32)threadIdx.x;
    const i64 block = ((i64)z * gridDim.x + blockIdx.x) * gridDim.y + blockIdx.y;
    i32* parts = p.parts + block * p.splits * ELEMENTS + thread;
#pragma unroll
    for (i32 s = 0; s < SUMS; ++s) parts[(i64)split * ELEMENTS + s * THREADS] = sums[s];
    __threadfence();
    __syncthreads();
    if (thread == 0) *earlier = atomicAdd(&p.arrived[block], 1u);
    __syncthreads();
    const bool is_last = *earlier + 1 == (u32)p.splits;
    // Shared memory is written again only when all have read it.
    __syncthreads();
    if (!is_last) return false;
    __threadfence();
    for (i32 other = 0; other < p.splits; ++other) {
        if (other == split) continue;
#pragma unroll
        for (i32 s = 0; s < SUMS; ++s) {
            sums[s] = add32(sums[s], ((volatile i32*)parts)[(i64)other * ELEMENTS + s * THREADS]);
        }
    }
    if (thread == 0) p.arrived[block] = 0;
    return true;
}

// Adds the biases to a warp's sums from row m0 and column n0 on, and keeps them, requantised or as they are. Whatever has to be
// read is read for many sums at once, beyond the last row and column too: asked for one by one, a thread would wait for
// memory three times for each of its sums.
template <int TILES_M, int TILES_N>
DEVICE void store_sums(const GemmArguments& p, i32 (&sums)[TILES_M][TILES_N][4], i32 z, i32 m0, i32 n0) {
    const i32 lane = (i32)(threadIdx.x % 32);
    const i32 first_m = m0 + lane / 4;
    const i32 first_n = n0 + 2 * (lane % 4);
    u32 pairs[TILES_N][2];
#pragma unroll
    for (i32 j = 0; j < TILES_N; ++j) {
#pragma unroll
        for (i32 c = 0; c < 2; ++c) {
            const i32 n = first_n + 8 * j + c;
            const i32 channel = z * p.channel_batch + (n < p.columns ? n : p.columns - 1);
            const i32 bias = p.bias ? __ldg(p.bias + channel) : 0;
            pairs[j][c] = p.finish.out ? pair_of(p.finish, channel) : 0;
#pragma unroll
            for (i32 i = 0; i < TILES_M; ++i) {
                sums[i][j][c] = add32(sums[i][j][c], bias);
                sums[i][j][c + 2] = add32(sums[i][j][c + 2], bias);
            }
        }
    }
#pragma unroll
    for (i32 i = 0; i < TILES_M; ++i) {
        i32 values[TILES_N][4] = {};
        if (p.finish.out) {
#pragma unroll
            for (i32 j = 0; j < TILES_N; ++j) {
#pragma unroll
                for (i32 c = 0; c < 4; ++c) values[j][c] = requantised_by(p.finish, pairs[j][c % 2], sums[i][j][c]);
            }
        }
#pragma unroll
        for (i32 j = 0; j < TILES_N; ++j) {
#pragma unroll
            for (i32 c = 0; c < 4; ++c) {
                const i32 m = first_m + 16 * i + 8 * (c / 2);
                const i32 n = first_n + 8 * j + c % 2;
                if (m >= p.rows || n >= p.columns) continue;
                const i64 index = (i64)z * p.out_batch + (i64)m * p.out_row + n;
                if (p.finish.sums) p.finish.sums[index] = sums[i][j][c];
                if (p.finish.out) store(p.finish.out, p.finish.out_kind, index, values[j][c]);
            }
        }
    }
}

// A block computes BM x BN sums, a warp WM x WN of them. Shared memory holds two tiles.
template <int BM, int BN, int WM, int WN, bool GATHER>
DEVICE void multiply_blocks(const GemmArguments& p, u8* shared) {
    constexpr i32 THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr i32 RUNS = TILE_DEPTH / 16;
    constexpr i32 A_SLOTS = BM * RUNS / THREADS;
    constexpr i32 B_SLOTS = BN * RUNS / THREADS;
    constexpr i32 BUFFER = (BM + BN) * TILE_STRIDE;
    constexpr i32 SUMS = WM * WN / 32;
    const i32 thread = (i32)threadIdx.x;
    const i32 warp = thread / 32;
    const i32 warp_m = warp / (BN / WN) * WM;
    const i32 warp_n = warp % (BN / WN) * WN;
    const i32 block_m = (i32)blockIdx.x * BM;
    const i32 block_n = (i32)blockIdx.y * BN;
    const i32 all_tiles = (p.depth + TILE_DEPTH - 1) / TILE_DEPTH;
    const i32 split = (i32)blockIdx.z % p.splits;
    const i32 first_tile = (i32)((i64)all_tiles * split / p.splits);
    const i32 end_tile = (i32)((i64)all_tiles * (split + 1) / p.splits);
    const i32 a_planes = p.a_kind == KIND_I8 ? 1 : 2;
    const i32 b_planes = p.b_kind == KIND_I8 ? 1 : 2;

    // Which run of 16 bytes this thread brings into shared memory, per slot.
    Row a_rows[A_SLOTS];
    i32 a_runs[A_SLOTS], a_places[A_SLOTS], b_rows[B_SLOTS], b_runs[B_SLOTS], b_places[B_SLOTS];
#pragma unroll
    for (i32 slot = 0; slot < A_SLOTS; ++slot) {
        const i32 index = thread + slot * THREADS;
        a_rows[slot] = row_of(p, block_m + index / RUNS);
        a_runs[slot] = index % RUNS * 16;
        a_places[slot] = index / RUNS * TILE_STRIDE + a_runs[slot];
    }
#pragma unroll
    for (i32 slot = 0; slot < B_SLOTS; ++slot) {
        const i32 index = thread + slot * THREADS;
        if (!GATHER && p.b_across) {
            // A run lies along n; neighbouring threads take neighbouring k.
            const i32 row = index / TILE_DEPTH * 16;
            b_runs[slot] = index % TILE_DEPTH;
            b_rows[slot] = block_n + row;
            b_places[slot] = (BM + row) * TILE_STRIDE + b_runs[slot];
            continue;
        }
        // Where n is the contiguous axis, neighbouring threads take neighbouring n.
        const i32 row = p.b_across ? index % BN : index / RUNS;
        b_runs[slot] = (p.b_across ? index / BN : index % RUNS) * 16;
        b_rows[slot] = block_n + row;
        b_places[slot] = (BM + row) * TILE_STRIDE + b_runs[slot];
    }

    for (i32 z = (i32)blockIdx.z / p.splits; z < p.batches; z += (i32)gridDim.z / p.splits) {
        const u8* a = p.a + (i64)z * p.a_batch * a_planes;
        const u8* b = p.b + (i64)(z / p.b_repeat) * p.b_batch * b_planes;
        i32 sums[WM / 16][WN / 8][4] = {};
        const i32 top = a_planes + b_planes - 2;
#pragma unroll 1
        for (i32 level = top; level >= 0; --level) {
            if (level < top) {
#pragma unroll
                for (i32 i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (i32 j = 0; j < WN / 8; ++j)
#pragma unroll
                        for (i32 c = 0; c < 4; ++c) sums[i][j][c] = (i32)((u32)sums[i][j][c] << 8);
            }
#pragma unroll 1
            for (i32 a_plane = 0; a_plane < a_planes; ++a_plane) {
                const i32 b_plane = level - a_plane;
                if (b_plane < 0 || b_plane >= b_planes) continue;
                const bool a_signed = a_plane == a_planes - 1;
                const bool b_signed = b_plane == b_planes - 1;
                // While tile t is multiplied, tile t + 1 is on its way through registers.
#pragma unroll 1
                for (i32 tile = first_tile - 1; tile < end_tile; ++tile) {
                    uint4 a_next[A_SLOTS], b_next[B_SLOTS];
                    const i32 k = (tile + 1) * TILE_DEPTH;
                    if (tile + 1 < end_tile) {
#pragma unroll
                        for (i32 s = 0; s < A_SLOTS; ++s) {
                            a_next[s] = load_a<GATHER>(p, a, a_rows[s], k + a_runs[s], a_plane);
                        }
#pragma unroll
                        for (i32 s = 0; s < B_SLOTS; ++s) {
                            b_next[s] = load_b<GATHER>(p, b, b_rows[s], k + b_runs[s], b_plane);
                        }
                    }
                    if (tile >= first_tile) {
                        const u8* buffer = shared + tile % 2 * BUFFER;
                        const u8* left = buffer + warp_m * TILE_STRIDE;
                        const u8* right = buffer + (BM + warp_n) * TILE_STRIDE;
                        if (a_signed && b_signed) multiply_tile<WM / 16, WN / 8, true, true>(sums, left, right);
                        else if (a_signed) multiply_tile<WM / 16, WN / 8, true, false>(sums, left, right);
                        else if (b_signed) multiply_tile<WM / 16, WN / 8, false, true>(sums, left, right);
                        else multiply_tile<WM / 16, WN / 8, false, false>(sums, left, right);
                    }
                    if (tile + 1 < end_tile) {
                        // The buffer's last readers, of tile t - 1, have all passed the barrier before.
                        u8* buffer = shared + (tile + 1) % 2 * BUFFER;
#pragma unroll
                        for (i32 s = 0; s < A_SLOTS; ++s) *(uint4*)(buffer + a_places[s]) = a_next[s];
#pragma unroll
                        for (i32 s = 0; s < B_SLOTS; ++s) {
                            if (!GATHER && p.b_across) store_across(buffer + b_places[s], b_next[s]);
                            else *(uint4*)(buffer + b_places[s]) = b_next[s];
                        }
                    }
                    __syncthreads();
                }
            }
        }
        if (p.splits > 1 && !gathered<BM * BN, THREADS>(p, z, split, (i32(&)[SUMS])sums, (u32*)shared)) continue;
        store_sums<WM / 16, WN / 8>(p, sums, z, block_m + warp_m, block_n + warp_n);
    }
}

KERNEL(tg_gemm_large, GemmArguments, 256) {
    __shared__ __align__(16) u8 shared[2 * (128 + 128) * TILE_STRIDE];
    multiply_blocks<128, 128, 64, 32, false>(p, shared);
}

KERNEL(tg_gemm_small, GemmArguments, 128) {
    __shared__ __align__(16) u8 shared[2 * (64 + 64) * TILE_STRIDE];
    multiply_blocks<64, 64, 32, 32, false>(p, shared);
}

KERNEL(tg_gemm_gather, GemmArguments, 128) {
    __shared__ __align__(16) u8 shared[2 * (64 + 64) * TILE_STRIDE];
    multiply_blocks<64, 64, 32, 32, true>(p, shared);
}

struct DenseArguments {
    const u8* input;  // readable for 15 elements beyond its end
    const u8* weights;  // rows padded with zeros to whole runs of 16
    const i32* bias;
    Finish finish;
    i32 kind;
    i32 depth;
    i32 row;
    i32 outputs;
};

template <bool SIGNED>
DEVICE i32 dot_run(uint4 x, uint4 w, i32 sum) {
    sum = dot4<SIGNED, true>(x.x, w.x, sum);
    sum = dot4<SIGNED, true>(x.y, w.y, sum);
    sum = dot4<SIGNED, true>(x.z, w.z, sum);
    return dot4<SIGNED, true>(x.w, w.w, sum);
}

// A matrix times a vector: one warp per output.
KERNEL(tg_dense, DenseArguments, 256) {
    const i32 lane = (i32)(threadIdx.x % 32);
    const i32 output = (i32)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    i32 high = 0;
    i32 low = 0;
    if (output < p.outputs) {
        const u8* weights = p.weights + (i64)output * p.row;
        for (i32 k = 16 * lane; k < p.depth; k += 16 * 32) {
            const uint4 w = *(const uint4*)(weights + k);
            if (p.kind == KIND_I8) {
                low = dot_run<true>(load_run(p.input, KIND_I8, k, 0), w, low);
            } else {
                low = dot_run<false>(load_run(p.input, KIND_I16, k, 0), w, low);
                high = dot_run<true>(load_run(p.input, KIND_I16, k, 1), w, high);
            }
        }
    }
    i32 sum = (i32)(((u32)high << 8) + (u32)low);
    for (i32 mask = 16; mask > 0; mask /= 2) sum = add32(sum, exchanged(sum, mask));
    if (lane == 0 && output < p.outputs) finish(p.finish, output, output, add32(sum, p.bias[output]));
}

struct DirectArguments {
    const void* input;
    const i8* weights;
    const i32* bias;
    Finish finish;
    i32 kind;
    i32 fill;
    i32 group_channels;
    i32 group_outputs;
    i32 outputs;
    i32 out_width;
    i32 elements;
    Window window;
};

// A convolution of groups too narrow for tiles (depthwise above all): one thread per output element.
KERNEL(tg_conv_direct, DirectArguments, 256) {
    const i32 element = thread_element();
    if (element >= p.elements) return;
    const i32 pixel = element / p.outputs;
    const i32 output = element - pixel * p.outputs;
    const i32 y = pixel / p.out_width;
    const i32 y0 = y * p.window.stride_y - p.window.top;
    const i32 x0 = (pixel - y * p.out_width) * p.window.stride_x - p.window.left;
    const i32 first = output / p.group_outputs * p.group_channels;
    const i8* weights = p.weights + (i64)output * p.window.kernel_y * p.window.kernel_x * p.group_channels;
    i32 sum = p.bias[output];
    for (i32 i = 0; i < p.window.kernel_y; ++i) {
        for (i32 j = 0; j < p.window.kernel_x; ++j) {
            const i32 source = source_pixel(p.window, y0, x0, i, j);
            for (i32 c = 0; c < p.group_channels; ++c) {
                const i32 value =
                    source < 0 ? p.fill : load(p.input, p.kind, source * p.window.channels + first + c);
                sum = add32(sum, mul32(*weights++, value));
            }
        }
    }
    finish(p.finish, output, element, sum);
}
