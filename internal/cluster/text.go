package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// quoted is a value as messages show it, cut where somebody put a whole file into a name.
func quoted(value string) string {
	const longest = 120
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + "…"
	}
	return strconv.Quote(value)
}

func listAnd(items []string) string { return list(items, "and") }
func listOr(items []string) string  { return list(items, "or") }

func list(items []string, word string) string {
	switch len(items) {
	case 0:
		return ""
	case 1:
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " " + word + " " + items[len(items)-1]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// nearest sorts names by how little has to be changed to make them name, and by themselves where that is equal, so
// that a misspelt name is followed by what was probably meant.
func nearest(name string, names []string) []string {
	sorted := slices.Clone(names)
	slices.SortFunc(sorted, func(a, b string) int {
		if difference := editDistance(name, a) - editDistance(name, b); difference != 0 {
			return difference
		}
		return strings.Compare(a, b)
	})
	return sorted
}

// editDistance is the Levenshtein distance, letter case ignored.
func editDistance(from, to string) int {
	a, b := []rune(strings.ToLower(from)), []rune(strings.ToLower(to))
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, diagonal+1, substituted)
		}
	}
	return row[len(b)]
}
