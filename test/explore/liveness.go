package explore

import "slices"

// stuck is a state from which, without a fault, no state is reached in which nothing is left to do.
// It returns the nearest one, or -1.
func (s *Search) stuck() int32 {
	// It goes backwards from the good states: the edges are sorted by their targets.
	slices.SortFunc(s.edges, func(a, b edge) int { return int(a.to) - int(b.to) })
	begin := make([]int32, len(s.parent)+1)
	for _, e := range s.edges {
		begin[e.to+1]++
	}
	for i := range s.parent {
		begin[i+1] += begin[i]
	}
	live := slices.Clone(s.good)
	var todo []int32
	for i, ok := range live {
		if ok {
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range s.edges[begin[at]:begin[at+1]] {
			if !live[e.from] {
				live[e.from] = true
				todo = append(todo, e.from)
			}
		}
	}
	for i, ok := range live {
		if !ok {
			return int32(i) // numbers increase with the distance
		}
	}
	return -1
}
