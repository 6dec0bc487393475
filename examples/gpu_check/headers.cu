// Every header that a kernel of CubeCL's may include, and something of each that has to compile.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuComplex.h>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

extern "C" __global__ void headers(const float* in, __half* half, __nv_bfloat16* brain) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> tile;
  nvcuda::wmma::fill_fragment(tile, 0.0f);
  const unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
  half[cell] = __float2half(in[cell] / 3.0f + tile.x[0]);
  brain[cell] = __float2bfloat16(cuCabsf(make_cuFloatComplex(in[cell], 1.0f)));
  cooperative_groups::this_thread_block().sync();
}
