package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Quantile is the value that the share q of all values does not exceed: 0.5 is the median, 1 the
// maximum. It is the zero value if there are none.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	var none T
	if len(values) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Median is the middle value.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// MedianOf is the middle value of one figure of all samples.
func MedianOf[M any](all []M, figure func(M) float64) float64 {
	values := make([]float64, len(all))
	for i, m := range all {
		values[i] = figure(m)
	}
	return Median(values)
}

// Alternate measures each way in turn, in several rounds, and returns the samples of each.
func Alternate[M any](rounds int, ways []func() (M, error)) ([][]M, error) {
	all := make([][]M, len(ways))
	for range rounds {
		for i, way := range ways {
			m, err := way()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], m)
		}
	}
	return all, nil
}

// Spread describes single samples.
func Spread(d []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s (%d)", Short(Median(d)), Short(Quantile(d, 0.99)), len(d))
}
