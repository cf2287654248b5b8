// CUDA programs that add to places which depend on the data: each thread to places of its own in shared memory, so that
// no atomic operation is used and a step repeats bit for bit. `cuda_attention` puts the constants T, K, H, TABLE_ROWS,
// TOKENS_AT_ONCE and COPIES_TABLE in front of this text; memory order is described there.
//
// A block works on one head of one model; models and heads are counted together, head by head for each model. But for
// `table_backward`, a warp has 32 sequences, one for each lane: `there` is a lane's sequence, and `b` the same or, beyond
// the last sequence, the last one, which is computed again and not written. `tensor.TensorKernels` has the formulas,
// docs/names.md the words.

constexpr int C = K + T;
// The rows of the usage: those of layer 1's heads, of the constant, and of each head of layer 2.
constexpr int ROWS_1 = H * C + 1, ROWS_2 = (1 + H) * C, ROWS = ROWS_1 + H * ROWS_2;
// Blocks of a processor at a time; threads that read the patterns of several heads have more numbers each.
constexpr int BLOCKS = T <= 16 ? 2 : 1, BLOCKS_2 = T * H <= 16 ? 2 : 1;
typedef float Amounts[T][32];
typedef int Tokens[T][32];

// Rows (PARTS, C, B) of 32 sequences: each position's amount, added to the row of its token and to its own row. A block
// of T warps calls it; `memory` has PARTS x TOKENS_AT_ONCE x 32 numbers, and a thread adds to those of its sequence.
template <int PARTS>
__device__ void spread(const Amounts* amounts, const Tokens& tokens, float* rows, int B, bool there, float* memory)
{
    constexpr int SIZE = TOKENS_AT_ONCE * 32;
    const int lane = threadIdx.x, warp = threadIdx.y;
    for (int first = 0; first < K; first += TOKENS_AT_ONCE) {
        const int n = min(TOKENS_AT_ONCE, K - first);
        for (int i = warp * 32 + lane; i < PARTS * SIZE; i += T * 32) memory[i] = 0;
        __syncthreads();
        for (int part = warp; part < PARTS; part += T) {
            float* own = memory + part * SIZE + lane;
            float amount[T];
            int c[T];
            #pragma unroll
            for (int t = 0; t < T; t++) amount[t] = amounts[part][t][lane], c[t] = tokens[t][lane] - first;
            #pragma unroll
            for (int t = 0; t < T; t++)
                if (c[t] >= 0 && c[t] < n) own[c[t] * 32] += amount[t];
        }
        __syncthreads();
        for (int part = 0; part < PARTS; part++)
            for (int c = warp; c < n && there; c += T) rows[(part * C + first + c) * B] = memory[part * SIZE + c * 32 + lane];
        __syncthreads();
    }
    if (there)  // the rows of positions, one for each warp
        for (int part = 0; part < PARTS; part++) rows[(part * C + K + warp) * B] = amounts[part][warp][lane];
}

// Layer 1's patterns (query, key, B): the softmax over keys k <= q of the four entries of the score table (C, C) that
// belong to a pair, and 0 above. In the first ROWS_1 rows of the usage (ROWS, B), what `=` gets of each row, and 1. A
// thread has a query of one sequence.
extern "C" __global__ void __launch_bounds__(32 * T, BLOCKS) patterns(
    const float* scores, const int* tokens, float* attention, float* usage, int B, int n_sequences)
{
    extern __shared__ float memory[];
    __shared__ Tokens token;
    __shared__ Amounts of_equals[1];
    const long long head = blockIdx.z, m = head / H;
    const int q = threadIdx.y, lane = threadIdx.x, last = min(B, (int)(blockIdx.x + 1) * n_sequences);
    const float* table = scores + head * C * C;
    if (COPIES_TABLE) {
        float* copy = memory + TOKENS_AT_ONCE * 32;
        for (int i = q * 32 + lane; i < C * C; i += 32 * T) copy[i] = table[i];
        table = copy;
    }
    for (int first = blockIdx.x * n_sequences; first < last; first += 32) {
        const int there = first + lane, b = min(there, last - 1);
        token[q][lane] = tokens[(m * T + q) * B + b];
        __syncthreads();
        const float *of_token = table + token[q][lane] * C, *of_position = table + (K + q) * C;
        float weight[T], most = of_token[token[0][lane]] + of_token[K] + of_position[token[0][lane]] + of_position[K];
        float total = 0;
        weight[0] = most;
        #pragma unroll
        for (int k = 1; k < T; k++)
            if (k <= q) {
                const int key = token[k][lane];
                weight[k] = of_token[key] + of_token[K + k] + of_position[key] + of_position[K + k];
                most = fmaxf(most, weight[k]);
            }
        #pragma unroll
        for (int k = 0; k < T; k++)
            if (k <= q) total += weight[k] = expf(weight[k] - most);
        float* out = attention + (head * T + q) * T * B + b;
        #pragma unroll
        for (int k = 0; k < T; k++) {
            weight[k] = k <= q ? weight[k] / total : 0;
            if (there < last) out[k * B] = weight[k];
            if (q == T - 1) of_equals[0][k][lane] = weight[k];
        }
        __syncthreads();
        float* used = usage + m * ROWS * B + b;
        if (q == 0 && there < last) used[H * C * B] = 1;  // every head of a model writes it
        spread<1>(of_equals, token, used + head % H * C * B, B, there < last, memory);
    }
}

// What `attend` and `attend_backward` begin with, in a thread for one position t of a sequence: the entries of ROWS_2 rows
// (ROWS_2, B) for its token and its place, and each head of layer 1's attention with t as query and as key. All are read
// at once.
struct Read {
    float own, copied[H], pair[H][T];  // the pair (t, i) for i <= t, and (i, t) for i >= t

    __device__ Read(const float* rows, const float* patterns, int token, int t, int B)
    {
        #pragma unroll
        for (int h = 0; h < H; h++) {
            #pragma unroll
            for (int i = 0; i < T; i++) pair[h][i] = patterns[(h * T * T + (i <= t ? t * T + i : i * T + t)) * B];
        }
        own = rows[token * B] + rows[(K + t) * B];
        #pragma unroll
        for (int h = 0; h < H; h++) rows += C * B, copied[h] = rows[token * B] + rows[(K + t) * B];
    }
};

// A head of layer 2 at `=`: its pattern from the scores of its rows (ROWS_2, B), and in its rows of the usage (ROWS, B)
// what it uses of each. A thread has one position of a sequence.
extern "C" __global__ void __launch_bounds__(32 * T, BLOCKS_2) attend(
    const float* scores, const int* tokens, const float* attention, float* copied_scores, float* attention_2,
    float* usage, int B)
{
    extern __shared__ float memory[];
    __shared__ Amounts copied[H], score, amounts[1 + H];
    __shared__ Tokens token;
    const long long head = blockIdx.y, m = head / H;
    const int t = threadIdx.y, lane = threadIdx.x, there = blockIdx.x * 32 + lane, b = min(there, B - 1);
    token[t][lane] = tokens[(m * T + t) * B + b];
    const Read read(scores + head * ROWS_2 * B + b, attention + m * H * T * T * B + b, token[t][lane], t, B);
    #pragma unroll
    for (int h = 0; h < H; h++) copied[h][t][lane] = read.copied[h];
    __syncthreads();
    float own = read.own;  // the score of this position as a key: of its rows, then of the copies that it holds
    #pragma unroll
    for (int h = 0; h < H; h++) {
        #pragma unroll
        for (int k = 0; k < T; k++)
            if (k <= t) own += read.pair[h][k] * copied[h][k][lane];
    }
    score[t][lane] = own;
    __syncthreads();
    // The softmax over all keys q and, with the same weights, how much they pass on of this position's copies.
    float most = score[0][lane], total = 0, passed_on[H] = {};
    #pragma unroll
    for (int q = 1; q < T; q++) most = fmaxf(most, score[q][lane]);
    #pragma unroll
    for (int q = 0; q < T; q++) {
        const float weight = expf(score[q][lane] - most);
        total += weight;
        #pragma unroll
        for (int h = 0; h < H; h++)
            if (q >= t) passed_on[h] += weight * read.pair[h][q];
    }
    amounts[0][t][lane] = expf(own - most) / total;
    #pragma unroll
    for (int h = 0; h < H; h++) amounts[1 + h][t][lane] = passed_on[h] / total;
    if (there < B) {
        #pragma unroll
        for (int h = 0; h < H; h++) copied_scores[((head * H + h) * T + t) * B + b] = read.copied[h];
        attention_2[(head * T + t) * B + b] = amounts[0][t][lane];
    }
    spread<1 + H>(amounts, token, usage + (m * ROWS + ROWS_1 + head % H * ROWS_2) * B + b, B, there < B, memory);
}

// From the gradient of the usage (ROWS, B) to those of a head of layer 2: of its scores, of what each position passes on,
// and of the scores of its rows (ROWS_2, B).
extern "C" __global__ void __launch_bounds__(32 * T, BLOCKS_2) attend_backward(
    const float* g_usage, const int* tokens, const float* attention, const float* attention_2, float* g_scores,
    float* g_passed_on, float* g_of_rows, int B)
{
    extern __shared__ float memory[];
    __shared__ Amounts g_passed[H], product, g_amounts[1 + H];
    __shared__ Tokens token;
    const long long head = blockIdx.y, m = head / H;
    const int t = threadIdx.y, lane = threadIdx.x, there = blockIdx.x * 32 + lane, b = min(there, B - 1);
    const long long at = (head * T + t) * B + b;
    const float weight = attention_2[at];
    token[t][lane] = tokens[(m * T + t) * B + b];
    const float* rows = g_usage + (m * ROWS + ROWS_1 + head % H * ROWS_2) * B + b;
    const Read read(rows, attention + m * H * T * T * B + b, token[t][lane], t, B);
    #pragma unroll
    for (int h = 0; h < H; h++) g_passed[h][t][lane] = read.copied[h];
    __syncthreads();
    float g = read.own, mean = 0, g_copied[H] = {};  // g: by this position's attention weight, then by its score
    #pragma unroll
    for (int h = 0; h < H; h++) {
        #pragma unroll
        for (int k = 0; k < T; k++)
            if (k <= t) g += read.pair[h][k] * g_passed[h][k][lane];
    }
    product[t][lane] = weight * g;
    __syncthreads();
    #pragma unroll
    for (int q = 0; q < T; q++) mean += product[q][lane];
    g = weight * (g - mean);
    g_amounts[0][t][lane] = g;
    __syncthreads();
    #pragma unroll
    for (int h = 0; h < H; h++) {
        #pragma unroll
        for (int q = 0; q < T; q++)
            if (q >= t) g_copied[h] += g_amounts[0][q][lane] * read.pair[h][q];
        g_amounts[1 + h][t][lane] = g_copied[h];
    }
    if (there < B) {
        g_scores[at] = g;
        #pragma unroll
        for (int h = 0; h < H; h++) g_passed_on[((head * H + h) * T + t) * B + b] = read.copied[h];
    }
    spread<1 + H>(g_amounts, token, g_of_rows + head * ROWS_2 * B + b, B, there < B, memory);
}

// Gradient of every pair's score in a head of layer 1, (B, query, key), from that of the usage (ROWS, B); 0 above the
// diagonal, as `table_backward` needs it. A thread has a query of one sequence. The results of SEQUENCES_AT_ONCE sequences are put
// in order in shared memory before they are written.
extern "C" __global__ void __launch_bounds__(32 * T, BLOCKS) pairs_backward(
    const float* g_usage, const int* tokens, const float* attention, const float* attention_2,
    const float* copied_scores, const float* g_scores, const float* g_passed_on, float* g_pairs, int B)
{
    constexpr int SEQUENCES_AT_ONCE = 8;
    __shared__ Amounts g_passed[H], copied[H], from_equals;
    __shared__ float pairs[SEQUENCES_AT_ONCE][T * T + 1];
    const long long head = blockIdx.y, m = head / H;
    const int q = threadIdx.y, lane = threadIdx.x, first = blockIdx.x * 32, b = min(first + lane, B - 1);
    const float* pattern = attention + (head * T + q) * T * B + b;
    float a[T], g[T], mean = 0, weight[H], g_score[H];  // a: the attention of q to each key; g: the gradient by it
    #pragma unroll
    for (int k = 0; k < T; k++)
        if (k <= q) a[k] = pattern[k * B];
    const float* rows = g_usage + (m * ROWS + head % H * C) * B + b;
    from_equals[q][lane] = rows[tokens[(m * T + q) * B + b] * B] + rows[(K + q) * B];
    #pragma unroll
    for (int h = 0; h < H; h++) {  // the heads of layer 2
        const long long of_position = ((m * H + h) * T + q) * B + b;
        const long long of_pair = (((m * H + h) * H + head % H) * T + q) * B + b;
        weight[h] = attention_2[of_position], g_score[h] = g_scores[of_position];
        g_passed[h][q][lane] = g_passed_on[of_pair], copied[h][q][lane] = copied_scores[of_pair];
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < T; k++)
        if (k <= q) {
            g[k] = q == T - 1 ? from_equals[k][lane] : 0;
            #pragma unroll
            for (int h = 0; h < H; h++) g[k] += weight[h] * g_passed[h][k][lane] + g_score[h] * copied[h][k][lane];
            mean += a[k] * g[k];
        }
    for (int from = 0; from < 32; from += SEQUENCES_AT_ONCE) {
        if (lane >= from && lane < from + SEQUENCES_AT_ONCE) {
            #pragma unroll
            for (int k = 0; k < T; k++) pairs[lane - from][q * T + k] = k <= q ? a[k] * (g[k] - mean) : 0;
        }
        __syncthreads();
        float* out = g_pairs + (head * B + first + from) * (T * T);
        const int n = min(SEQUENCES_AT_ONCE, B - first - from) * T * T;
        for (int i = q * 32 + lane; i < n; i += 32 * T) out[i] = pairs[i / (T * T)][i % (T * T)];
        __syncthreads();
    }
}

// Gradient of the score table (C, C) of a head of layer 1 from that of all pairs (B, query, key), for a slice of the
// sequences and TABLE_ROWS rows: each pair adds to the rows of its query's token and position, at the columns of its key's.
//
// A warp adds up its own sequences in a table of its own. A lane writes the column of one key's token or position. Keys
// with the same token are added up first, by the lane of the first of them.
extern "C" __global__ void table_backward(
    const float* g_pairs, const int* tokens, float* g_table, int B, int n_sequences)
{
    constexpr bool BOTH = 2 * T <= 32;  // whether one pass has lanes for tokens and for positions
    constexpr unsigned ALL = 0xffffffff;
    constexpr int SIZE = TABLE_ROWS * C, POSITIONS_AT_ONCE = 8, QUERIES_AT_ONCE = 4;
    extern __shared__ float shared[];
    const int lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y;
    const long long head = blockIdx.z, m = head / H;
    const int first_row = blockIdx.y * TABLE_ROWS, last = min(B, (int)(blockIdx.x + 1) * n_sequences);
    const auto has = [&](int row) { return TABLE_ROWS == C || (row >= first_row && row < first_row + TABLE_ROWS); };
    float* table = shared + warp * SIZE;
    for (int i = lane; i < SIZE; i += 32) table[i] = 0;
    __syncwarp();

    const int k = BOTH ? lane % 16 : lane;
    float g[T], next_g[T];
    int token, next_token = 0;
    const auto fetch = [&](int b) {
        if (b >= last || k >= T) return;
        const float* own = g_pairs + (head * B + b) * (T * T) + k;
        #pragma unroll
        for (int q = 0; q < T; q++) next_g[q] = own[q * T];
        next_token = tokens[(m * T + k) * B + b];
    };
    int b = blockIdx.x * n_sequences + warp;
    fetch(b);
    for (; b < last; b += warps) {
        #pragma unroll
        for (int q = 0; q < T; q++) g[q] = next_g[q];
        token = k < T ? next_token : -1 - lane;
        fetch(b + warps);  // arrives while this sequence is added
        const unsigned same = __match_any_sync(ALL, token) & (BOTH ? 0xffff : ALL);
        #pragma unroll
        for (int pass = 0; pass < (BOTH ? 1 : 2); pass++) {
            const bool of_position = BOTH ? lane >= 16 : pass == 1;
            const bool writes = k < T && (of_position || (same & ((1u << k) - 1)) == 0);
            float sum[T];
            #pragma unroll
            for (int q = 0; q < T; q++) sum[q] = g[q];
            unsigned later = of_position ? 0 : same & ~((2u << k) - 1);
            for (; __any_sync(ALL, later); later &= later - 1) {
                const int other = later ? __ffs(later) - 1 : lane;
                #pragma unroll
                for (int q = 0; q < T; q++) {
                    const float added = __shfl_sync(ALL, g[q], other);
                    sum[q] += later ? added : 0;
                }
            }
            float* column = table + (of_position ? K + k : token) - first_row * C;
            // Reads of several rows at once, where they differ, wait for one another less.
            #pragma unroll
            for (int first = 0; first < T; first += POSITIONS_AT_ONCE) {
                float x[POSITIONS_AT_ONCE];
                #pragma unroll
                for (int i = 0, q = first; i < POSITIONS_AT_ONCE; i++, q++)
                    if (q < T && q >= k && writes && has(K + q)) x[i] = column[(K + q) * C] + sum[q];
                #pragma unroll
                for (int i = 0, q = first; i < POSITIONS_AT_ONCE; i++, q++)
                    if (q < T && q >= k && writes && has(K + q)) column[(K + q) * C] = x[i];
            }
            #pragma unroll
            for (int first = 0; first < T; first += QUERIES_AT_ONCE) {
                int row[QUERIES_AT_ONCE];
                float x[QUERIES_AT_ONCE];
                bool differ = true;
                #pragma unroll
                for (int i = 0; i < QUERIES_AT_ONCE; i++) {
                    row[i] = first + i < T ? __shfl_sync(ALL, token, first + i) : -1 - i;
                    #pragma unroll
                    for (int j = 0; j < i; j++) differ &= row[i] != row[j];
                }
                if (differ) {
                    #pragma unroll
                    for (int i = 0, q = first; i < QUERIES_AT_ONCE; i++, q++)
                        if (q < T && q >= k && writes && has(row[i])) x[i] = column[row[i] * C] + sum[q];
                    #pragma unroll
                    for (int i = 0, q = first; i < QUERIES_AT_ONCE; i++, q++)
                        if (q < T && q >= k && writes && has(row[i])) column[row[i] * C] = x[i];
                } else {
                    #pragma unroll
                    for (int i = 0, q = first; i < QUERIES_AT_ONCE; i++, q++)
                        if (q < T && q >= k && writes && has(row[i])) column[row[i] * C] += sum[q];
                }
            }
            __syncwarp();  // the next sequence has the same columns in other lanes
        }
    }
    __syncthreads();
    float* out = g_table + (head * gridDim.x + blockIdx.x) * C * C + first_row * C;
    for (int i = warp * 32 + lane; i < min(SIZE, (C - first_row) * C); i += warps * 32) {
        float total = 0;
        for (int w = 0; w < warps; w++) total += shared[w * SIZE + i];
        out[i] = total;
    }
}
