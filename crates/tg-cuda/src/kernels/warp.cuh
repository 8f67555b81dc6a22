// Instructions of a warp of 32 lanes. emulator.h has the same functions in terms of the documented fragment layouts.
#ifndef TG_EMULATED

// Tensor cores for this tile size came with compute capability 8.0; before it, dot products of four bytes.
#if __CUDA_ARCH__ >= 800
#define TENSOR_CORES 1
#else
#define TENSOR_CORES 0
#endif

// c + sum of a_i b_i over the four bytes of a and b, each signed or not.
template <bool A_SIGNED, bool B_SIGNED>
DEVICE i32 dot4(u32 a, u32 b, i32 c) {
    i32 d;
    if (A_SIGNED && B_SIGNED) asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else if (A_SIGNED) asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else if (B_SIGNED) asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

DEVICE i32 exchanged(i32 value, i32 lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }

#if TENSOR_CORES
// Four 8 x 16-byte matrices from shared memory; lane l gives the address of row l % 8 of matrix l / 8, 16-byte aligned.
DEVICE void load_matrices(u32 (&r)[4], const u8* row) {
    const u32 address = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

#define TG_MMA(types)                                                                                          \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "    \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                 \
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

// c (16 x 8) += a (16 x 32) b (32 x 8), in fragments. The sums wrap.
template <bool A_SIGNED, bool B_SIGNED>
DEVICE void multiply(i32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if (A_SIGNED && B_SIGNED) TG_MMA("s8.s8");
    else if (A_SIGNED) TG_MMA("s8.u8");
    else if (B_SIGNED) TG_MMA("u8.s8");
    else TG_MMA("u8.u8");
}
#endif
#endif
