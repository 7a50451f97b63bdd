#include "cli.h"

#include <limits.h>
#include <string.h>

#define WORD_MAX 32

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* How many letters to add, drop, change or swap with their neighbour make a into b (optimal string
   alignment); words longer than WORD_MAX are far from everything. */
static int distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b);
    if (m > WORD_MAX || n > WORD_MAX)
        return INT_MAX;
    int cost[WORD_MAX + 1][WORD_MAX + 1];
    for (size_t i = 0; i <= m; i++)
        cost[i][0] = (int)i;
    for (size_t j = 0; j <= n; j++)
        cost[0][j] = (int)j;
    for (size_t i = 1; i <= m; i++) {
        for (size_t j = 1; j <= n; j++) {
            int best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = least(best, least(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    }
    return cost[m][n];
}

const char *suggest(const char *word, const char *(*next)(int i, const void *context),
                    const void *context)
{
    const char *best = NULL;
    int nearest = INT_MAX;
    const char *candidate;
    for (int i = 0; (candidate = next(i, context)); i++) {
        int d = distance(word, candidate);
        /* a third of the word may be wrong, and one letter of any */
        int allowed = (int)strlen(candidate) / 3;
        if (d <= (allowed > 1 ? allowed : 1) && d < nearest) {
            nearest = d;
            best = candidate;
        } else if (!best && strlen(word) >= 3 && strncmp(word, candidate, strlen(word)) == 0) {
            best = candidate;
        }
    }
    return best;
}
