// Package acceptance holds tests of the finished program: they build gperf, run
// its servers and clients as a user would, and look at what the user and the
// kernel see: exit statuses, documents, system calls, sockets, packets.
//
// There is nothing here but tests. Those that need root, strace, nft or network
// namespaces are skipped without them, and the skip says so.
package acceptance
