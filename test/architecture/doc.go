// Package architecture has no code: its tests check the imports of packages, and the documentation
// of the public ones.
//
// TestImports compares the imports of every package with a table of rooms, from the bottom of the
// tree to its top. TestPictureShowsTheImports compares the picture of docs/internals/architecture.md with them.
// TestDepguard breaks each rule that .golangci.yml gives to depguard, which warns earlier, with the
// reason.
package architecture
