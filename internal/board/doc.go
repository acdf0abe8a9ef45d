// Package board serves pages for people: the sessions, one session with its transcript and the
// reply as it comes, and the commands of users and operators as buttons.
//
// It shows what the visitor's token may see, and has the buttons for what it may do. A cookie stands
// for the token. Texts of users, agents and tools are data everywhere: html/template escapes them,
// control characters and the invisible controls of text direction are replaced, and the pages allow
// no script and no style but the board's own files.
//
// The board keeps nothing. It needs no other files and no build.
package board
