// Package tiers holds one test: that every package of the module imports only
// what its place in the design lets it import. The places are the table in
// tiers_test.go, which ARCHITECTURE.md draws.
package tiers
