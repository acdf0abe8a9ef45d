// Package architecture holds no code: its tests say who may import whom.
//
// TestImports compares the imports of every package with a table of rooms, from
// the bottom of the tree to its top. TestDepguard breaks each rule that
// .golangci.yml gives to depguard, which tells a writer sooner and says why.
package architecture
