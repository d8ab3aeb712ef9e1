package splice

// Completion is completion, for tests.
var Completion = completion

// Bucket and Lowest are the arithmetic of Sizes.
var (
	Bucket = bucket
	Lowest = lowest
)

// Buckets is how many buckets Sizes has.
const Buckets = buckets

// Count counts calls as a mover does.
func Count(into *Sizes, sizes ...int) Stats {
	var c counters
	for _, n := range sizes {
		c.count(n, n+1)
	}
	c.Sizes(into)
	return c.Stats()
}
