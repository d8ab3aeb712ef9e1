// Package sockopt is gperf's table of knobs: the socket options a test may
// ask for, how their values are written, when the kernel wants them set, and
// what it makes of them. A knob is one row of the table in table.go; the row
// gives the flag and its help, the sweep axis, the JSON key, the system calls
// and the judgement.
//
// The package exists so that a result can prove its settings. Nothing is set
// that was not asked for ([Settings.Apply]), everything that was asked for is
// read back ([Settings.Read]), and the difference is named ([Judge]): the
// kernel doubles, rounds, caps and forgets values without an error.
//
// [TCPInfo] reads TCP_INFO at the length this kernel returns, so that a field
// which the kernel doesn't have is unknown and not zero.
//
// It knows no protocol, no plan and no flag library, and prints nothing.
// Facts about options come from socket(7), tcp(7), ip(7) and ipv6(7), and were
// tried on Linux 6.18.
package sockopt
