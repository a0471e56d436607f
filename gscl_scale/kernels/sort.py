"""Sorting within kernels: numba compiles its own sort for seconds, in every process that compiles a kernel with it."""

from gscl_scale.kernels.kernel import kernel

_SHORT = 32


@kernel
def sort_part(values, low, high):
    """Sort values[low:high] in place: quicksort by the median of three, insertion where few are left."""
    while high - low > _SHORT:
        first, middle, last = values[low], values[(low + high) >> 1], values[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i, j = low, high - 1
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if j + 1 - low < high - i:  # the shorter one calls itself, so that calls are never nested deeply
            sort_part(values, low, j + 1)
            low = i
        else:
            sort_part(values, i, high)
            high = j + 1
    for at in range(low + 1, high):
        value, j = values[at], at
        while j > low and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
