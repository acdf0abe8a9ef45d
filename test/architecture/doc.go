// Package architecture has no code: its tests check which package may import which, and what the
// public packages document.
//
// TestImports compares the imports of every package with a table of rooms, from the bottom of the
// tree to its top. TestPictureShowsTheImports compares the picture of docs/architecture.md with them.
// TestDepguard breaks each rule that .golangci.yml gives to depguard, which warns a writer sooner and
// with the reason.
package architecture
