// What the CUDA programs use of CUDA, on threads of a CPU: a thread for each of a block, one block after the other.
// Threads of a warp wait for one another in its functions, as they may on a GPU.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static  // one block runs at a time

using std::min;

struct Index {
    int x, y, z;
};

struct Warp {
    std::barrier<> arrive{32};
    double slots[32];
};

inline Index blockDim, gridDim, blockIdx;
inline thread_local Index threadIdx;
inline thread_local Warp* own_warp;
inline std::unique_ptr<std::barrier<>> block_barrier;
inline std::vector<float> dynamic_memory;

inline void __syncthreads() { block_barrier->arrive_and_wait(); }
inline void __syncwarp() { own_warp->arrive.arrive_and_wait(); }

template <typename Value, typename Result, typename Function>
Result together(Value value, Function function)
{
    own_warp->slots[threadIdx.x] = value;
    __syncwarp();
    const Result result = function(own_warp->slots);
    __syncwarp();
    return result;
}

template <typename Value>
Value __shfl_sync(unsigned, Value value, int lane)
{
    return together<Value, Value>(value, [&](const double* slots) { return (Value)slots[lane]; });
}

inline bool __any_sync(unsigned, unsigned value)
{
    return together<unsigned, bool>(value, [](const double* s) { return std::any_of(s, s + 32, [](double x) { return x != 0; }); });
}

inline unsigned __match_any_sync(unsigned, int value)
{
    return together<int, unsigned>(value, [&](const double* slots) {
        unsigned same = 0;
        for (int i = 0; i < 32; i++) same |= unsigned(slots[i] == value) << i;
        return same;
    });
}

inline int __ffs(unsigned value) { return __builtin_ffs((int)value); }

template <typename Program>
void launch(const int* grid, int warps, int memory, Program program)
{
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {32, warps, 1};
    for (int block = 0; block < grid[0] * grid[1] * grid[2]; block++) {
        blockIdx = {block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]};
        dynamic_memory.assign(memory, NAN);
        block_barrier = std::make_unique<std::barrier<>>(32 * warps);
        std::vector<Warp> of_warps(warps);
        std::vector<std::thread> threads;
        for (int i = 0; i < 32 * warps; i++)
            threads.emplace_back([&, i] {
                threadIdx = {i % 32, i / 32, 0}, own_warp = &of_warps[i / 32];
                program();
            });
        for (std::thread& thread : threads) thread.join();
    }
}
