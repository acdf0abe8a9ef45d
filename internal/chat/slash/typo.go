package slash

// Mistyped reports whether word is name with one typing error: a letter too many, too few or wrong,
// or two neighbouring letters exchanged.
func Mistyped(word, name string) bool {
	return swapped(word, name) || oneLetter([]rune(word), []rune(name))
}

// swapped reports whether word is name with two neighbouring letters exchanged.
func swapped(word, name string) bool {
	if len(word) != len(name) {
		return false
	}
	for i := 0; i+1 < len(word); i++ {
		if word[i] != name[i] {
			return word[i] == name[i+1] && word[i+1] == name[i] && word[i+2:] == name[i+2:]
		}
	}
	return false
}

// oneLetter reports whether w and n differ by one letter at most.
func oneLetter(w, n []rune) bool {
	if len(w)-len(n) > 1 || len(n)-len(w) > 1 {
		return false
	}
	i := 0 // the first difference
	for i < len(w) && i < len(n) && w[i] == n[i] {
		i++
	}
	rest, want := w[i:], n[i:]
	switch {
	case len(w) > len(n):
		rest = rest[1:]
	case len(w) < len(n):
		want = want[1:]
	case len(rest) > 0:
		rest, want = rest[1:], want[1:]
	}
	return string(rest) == string(want)
}
